"""Batching of caption requests (Batcher): shared calls, program shapes, seeds, timeouts and errors."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tests.serving.servers import Fake
from xmcap.languages import LANGUAGES
from xmcap.serving.batching import Batcher, Batching
from xmcap.serving.limits import Refused


class Noting(Fake):
  """Notes its calls."""

  def __init__(self, delay=0.0):
    super().__init__(delay)
    self.calls = []
    self.encoded = []

  def encode(self, pictures):
    self.encoded.append([int(picture[0, 0, 0]) for picture in pictures])
    return super().encode(pictures)

  def best(self, pictures, languages, *, search, seed, pad_to):
    self.calls.append(
      ([int(picture[0, 0, 0]) for picture in pictures], max(pad_to, *map(len, languages)), search)
    )
    return super().best(pictures, languages, search=search, seed=seed, pad_to=pad_to)


def picture(number):
  return np.full((8, 8, 3), number, np.uint8)


def run(captioner, batching, *requests, seconds=30, on_their_way=1, most=0):
  """What requests (number, languages, search, seed) that come at once are given, as lists of (language, caption).

  `most` as in `Batcher`, if it is not that of the batching.
  """

  async def main():
    with ThreadPoolExecutor(1) as device:
      under_way = len(requests) + on_their_way
      batcher = Batcher(device, batching, lambda: under_way, lambda *call: None)
      batcher.captioner, batcher.most = captioner, most or batching.pictures
      task = asyncio.create_task(batcher.run())

      async def one(number, codes, search="g", seed=None):
        captions = batcher.captions(picture(number), codes, search, seconds, seed)
        return [(code, one.text) async for code, one in captions]

      found = await asyncio.gather(*(one(*request) for request in requests), return_exceptions=True)
      task.cancel()
      return found

  return asyncio.run(main())


def test_batcher_requests_of_the_same_search_share_a_call():
  captioner = Noting()
  found = run(captioner, Batching(0.1, 4, 2), (1, ["en"]), (2, ["th", "ar"]), (3, ["he"]), (4, ["en"], "b"))
  assert [(numbers, search) for numbers, _, search in captioner.calls] == [([1, 2, 3, 3], "g"), ([4], "b")]
  assert found[:2] == [[("en", "en 1 4 g")], [("th", "th 2 4 g"), ("ar", "ar 2 4 g")]]
  assert found[2:] == [[("he", "he 3 4 g")], [("en", "en 4 1 b")]]


def test_batcher_encodes_a_picture_once_for_all_its_calls():
  captioner = Noting()
  run(
    captioner, Batching(0.1, 4, 2), (1, ["en", "th", "ar", "he", "fr"]), (2, ["en", "th", "ar"]), (3, ["en"])
  )
  assert [numbers for numbers, _, _ in captioner.calls] == [[1, 2, 3, 3], [1, 2, 2, 2], [1]]
  assert captioner.encoded == [[1, 2, 3, 3]]


def test_batcher_full_batch_starts_without_waiting():
  captioner = Noting()
  run(captioner, Batching(3600, 2, 1), (1, ["en"]), (2, ["en"]))
  assert [numbers for numbers, _, _ in captioner.calls] == [[1, 2]]


def test_batcher_lone_request_starts_without_waiting():
  captioner = Noting()
  run(captioner, Batching(3600, 4, 1), (1, ["en"]), (2, ["en"]), on_their_way=0)
  assert [numbers for numbers, _, _ in captioner.calls] == [[1, 2, 2, 2]]


def test_batcher_request_with_a_seed_has_a_call_of_its_own():
  captioner = Noting()
  run(captioner, Batching(0.1, 4, 1), (1, ["en"], "g", 7), (2, ["en"]), (3, ["en"], "g", 7), (4, ["en"]))
  assert [numbers for numbers, _, _ in captioner.calls] == [[1], [2, 4, 4, 4], [3]]


def test_batcher_long_request_alternates_with_others():
  captioner = Noting()
  all_codes = list(LANGUAGES)
  found = run(captioner, Batching(0, 1, 4), (1, all_codes), (2, ["en"]))
  assert [numbers for numbers, _, _ in captioner.calls] == [[1], [2]] + [[1]] * 8
  assert [code for code, _ in found[0]] == all_codes


def test_batcher_call_shapes_are_those_compiled():
  batching = Batching(0.05, 16, 4)
  assert batching.shapes() == [(pictures, languages) for pictures in (1, 4, 16) for languages in (1, 2, 4)]
  captioner = Noting()
  for count in range(1, 17):
    run(
      captioner,
      batching,
      *((number, ["en", "th", "ar", "he", "zh"][: 1 + number % 5]) for number in range(count)),
    )
  assert {(len(numbers), width) for numbers, width, _ in captioner.calls} <= set(batching.shapes())
  assert {width for _, width, _ in captioner.calls} == {1, 2, 4}


def test_batcher_call_has_at_most_the_images_of_compiled_programs():
  captioner = Noting()
  run(captioner, Batching(0.1, 16, 1), *((number, ["en"]) for number in range(1, 7)), most=4, on_their_way=0)
  assert [numbers for numbers, _, _ in captioner.calls] == [[1, 2, 3, 4], [5, 6, 6, 6]]


def test_batcher_error_of_a_call_fails_only_its_requests():
  found = run(Noting(), Batching(0.05, 4, 2), (13, ["en"]), (1, ["en"]), (2, ["en"], "b"))
  assert [getattr(one, "status", 200) for one in found] == [500, 500, 200]


def test_batcher_request_timeout_is_504_and_ends_its_decoding():
  captioner = Noting(delay=0.2)
  found = run(captioner, Batching(0, 1, 1), (1, ["en", "th", "ar"]), seconds=0.3)
  assert isinstance(found[0], Refused) and found[0].status == 504
  assert len(captioner.calls) < 3


@pytest.mark.parametrize("pictures, languages", [(1, 1), (3, 36), (64, 4)])
def test_batching_shapes_reach_the_maximum_of_images_and_languages(pictures, languages):
  shapes = Batching(0, pictures, languages).shapes()
  assert shapes[-1] == (pictures, languages) and len(set(shapes)) == len(shapes)


def test_batcher_decodes_a_request_whose_captions_are_not_consumed():
  async def main():
    with ThreadPoolExecutor(1) as device:
      batcher = Batcher(device, Batching(0.0, 4, 2), lambda: 1, lambda *call: None)
      batcher.captioner = Noting()
      task, decoded = asyncio.create_task(batcher.run()), asyncio.Event()
      captions = batcher.captions(picture(1), ["en", "th", "ar"], "g", 30, None, decoded.set)
      first = await anext(captions)
      await asyncio.wait_for(decoded.wait(), 120)
      await captions.aclose()
      task.cancel()
      return first

  code, found = asyncio.run(main())
  assert (code, found.text) == ("en", "en 1 1 g")
