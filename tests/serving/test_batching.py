"""Requests that come together share calls."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tests.serving.servers import Fake
from xmcap.languages import LANGUAGES
from xmcap.serving import batching as batching_lib
from xmcap.serving.batching import Batcher, Batching
from xmcap.serving.limits import Refused


class Noting(Fake):
  """Notes its calls."""

  def __init__(self, delay=0.0):
    super().__init__(delay)
    self.calls = []

  def caption(self, pictures, languages, *, search, seed):
    self.calls.append(([int(picture[0, 0, 0]) for picture in pictures], languages, search))
    return super().caption(pictures, languages, search=search, seed=seed)


def picture(number):
  return np.full((8, 8, 3), number, np.uint8)


def run(captioner, batching, *requests, seconds=30, on_their_way=1, offered=()):
  """What requests (number, languages, search, seed) that come at once are given, as lists of (language, caption)."""

  async def main():
    with ThreadPoolExecutor(1) as device:
      under_way = len(requests) + on_their_way
      batcher = Batcher(captioner, device, batching, lambda: under_way, lambda *call: None, offered)
      task = asyncio.create_task(batcher.run())

      async def one(number, codes, search="g", seed=None):
        return [pair async for pair in batcher.captions(picture(number), codes, search, seconds, seed)]

      found = await asyncio.gather(*(one(*request) for request in requests), return_exceptions=True)
      task.cancel()
      return found

  return asyncio.run(main())


def test_requests_of_one_search_share_a_call():
  captioner = Noting()
  found = run(captioner, Batching(0.1, 4, 2), (1, ["en"]), (2, ["th", "ar"]), (3, ["he"]), (4, ["en"], "b"))
  assert [(numbers, search) for numbers, _, search in captioner.calls] == [([1, 2, 3, 3], "g"), ([4], "b")]
  assert found[:2] == [[("en", "en 1 4 g")], [("th", "th 2 4 g"), ("ar", "ar 2 4 g")]]
  assert found[2:] == [[("he", "he 3 4 g")], [("en", "en 4 1 b")]]


def test_a_full_call_waits_for_nobody():
  captioner = Noting()
  run(captioner, Batching(3600, 2, 1), (1, ["en"]), (2, ["en"]))
  assert [numbers for numbers, _, _ in captioner.calls] == [[1, 2]]


def test_who_is_alone_waits_for_nobody():
  captioner = Noting()
  run(captioner, Batching(3600, 4, 1), (1, ["en"]), (2, ["en"]), on_their_way=0)
  assert [numbers for numbers, _, _ in captioner.calls] == [[1, 2, 2, 2]]


def test_a_request_with_a_seed_has_calls_of_its_own():
  captioner = Noting()
  run(captioner, Batching(0.1, 4, 1), (1, ["en"], "g", 7), (2, ["en"]), (3, ["en"], "g", 7), (4, ["en"]))
  assert [numbers for numbers, _, _ in captioner.calls] == [[1], [2, 4, 4, 4], [3]]


def test_a_long_request_takes_turns_with_others():
  captioner = Noting()
  all_codes = list(LANGUAGES)
  found = run(captioner, Batching(0, 1, 4), (1, all_codes), (2, ["en"]))
  assert [numbers for numbers, _, _ in captioner.calls] == [[1], [2]] + [[1]] * 8
  assert [code for code, _ in found[0]] == all_codes


def test_calls_have_few_shapes():
  batching = Batching(0.05, 16, 4)
  assert batching.shapes() == [(1, 1), (1, 4), (4, 1), (4, 4), (16, 1), (16, 4)]
  captioner = Noting()
  for count in range(1, 17):
    run(
      captioner,
      batching,
      *((number, ["en", "th", "ar", "he", "zh"][: 1 + number % 5]) for number in range(count)),
    )
  shapes = {(len(numbers), len(codes)) for numbers, languages, _ in captioner.calls for codes in languages}
  assert shapes <= set(batching.shapes())
  assert all(len(set(codes)) == len(codes) for _, languages, _ in captioner.calls for codes in languages)


def test_warming_up_makes_every_shape_and_search():
  captioner, batching = Noting(), Batching(0, 5, 3)
  batching_lib.warm_up(captioner, batching, ["g", "b"])
  made = [(len(numbers), len(languages[0]), search) for numbers, languages, search in captioner.calls]
  assert made == [(*shape, search) for search in "gb" for shape in batching.shapes()]


def test_languages_on_offer_need_no_shape_that_was_not_warmed_up():
  captioner, batching, offered = Noting(), Batching(0, 2, 3), ["ca", "cy", "de"]
  captioner.languages = ("en",)
  batching_lib.warm_up(captioner, batching, ["g"], offered)
  made = {(len(numbers), len(codes)) for numbers, languages, _ in captioner.calls for codes in languages}
  captioner.calls.clear()
  requests = [(1, ["ca"]), (2, ["ca", "cy"]), (3, ["cy", "de", "ca"])]
  assert len(run(captioner, batching, *requests, offered=offered)[2]) == 3
  asked = {(len(numbers), len(codes)) for numbers, languages, _ in captioner.calls for codes in languages}
  assert asked <= made


def test_an_error_is_that_of_all_in_the_call_and_of_no_other():
  found = run(Noting(), Batching(0.05, 4, 2), (13, ["en"]), (1, ["en"]), (2, ["en"], "b"))
  assert [getattr(one, "status", 200) for one in found] == [500, 500, 200]


def test_a_request_whose_time_is_up_leaves():
  captioner = Noting(delay=0.2)
  found = run(captioner, Batching(0, 1, 1), (1, ["en", "th", "ar"]), seconds=0.3)
  assert isinstance(found[0], Refused) and found[0].status == 504
  assert len(captioner.calls) == 2


@pytest.mark.parametrize("pictures, languages", [(1, 1), (3, 36), (64, 4)])
def test_shapes_reach_the_most(pictures, languages):
  shapes = Batching(0, pictures, languages).shapes()
  assert shapes[-1] == (pictures, languages) and len(set(shapes)) == len(shapes)


def test_a_request_is_decoded_though_nobody_takes_its_captions():
  async def main():
    with ThreadPoolExecutor(1) as device:
      batcher = Batcher(Noting(), device, Batching(0.0, 4, 2), lambda: 1, lambda *call: None)
      task, decoded = asyncio.create_task(batcher.run()), asyncio.Event()
      captions = batcher.captions(picture(1), ["en", "th", "ar"], "g", 30, None, decoded.set)
      first = await anext(captions)
      await asyncio.wait_for(decoded.wait(), 30)
      await captions.aclose()
      task.cancel()
      return first

  assert asyncio.run(main()) == ("en", "en 1 1 g")
