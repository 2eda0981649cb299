"""Runs against an endpoint on loopback that fails in every way that a server was seen to."""

import asyncio
import collections
import dataclasses
import json

import pytest
from starlette.responses import JSONResponse, Response

from tests.make import images
from tests.make.endpoint import Endpoint, completion, error, every
from xmcap.endpoint import client, prompts, questions
from xmcap.endpoint.answers import State, Tokens
from xmcap.endpoint.asking import Asking, Price
from xmcap.endpoint.journal import Journal
from xmcap.errors import RestartError, UsageError, XmcapError

_LANGUAGES = ("en", "de", "th", "quz")
_PICTURES = {f"p{number}": images.noise((24, 24), number, "JPEG") for number in range(6)}


async def _no_pause(seconds: float) -> None:
  await asyncio.sleep(0)


def _asked(server: Endpoint, journal, pictures=_PICTURES, settings=None, prompt="xmcap", **options) -> Asking:
  """A run; `asking.client` is how it was asked."""
  lines: list[str] = []
  who = client.Endpoint(server.url, "stub", **{"max_requests": 8, "timeout_seconds": 5, **(settings or {})})
  answers = Journal(journal)

  async def run() -> Asking:
    async with client.Client(who, lines.append, _no_pause) as asker:
      asking = Asking(
        asker, questions.Questions("stub", prompts.get(prompt), who.extra_body), answers, _LANGUAGES,
        pictures.__getitem__,
        **options,
      )  # fmt: skip
      asking.client, asking.lines, asking.journal = asker, lines, answers
      await asking.run(list(pictures), lambda line: None)
      return asking

  try:
    return asyncio.run(run())
  finally:
    answers.close()


def _answer(path, asking: Asking, key: str, language: str):
  return Journal(path).answer(asking.ids[key, language])


def _of_question(asked) -> tuple[str, str]:
  """What tells a question from others: the picture, and the text."""
  image, text = asked["messages"][-1]["content"]
  return image.get("uuid") or image["image_url"]["url"], text["text"]


def test_all_languages_of_a_picture_back_to_back_and_the_picture_before_the_text(tmp_path):
  with Endpoint().serving() as server:
    asking = _asked(server, tmp_path / "a.jsonl", settings={"max_requests": 1})
  assert asking.states == {State.ANSWERED: 24}
  pictures = [_of_question(asked)[0] for asked in server.requests]
  assert len(set(pictures)) == 6
  assert pictures == [picture for picture in dict.fromkeys(pictures) for _ in _LANGUAGES]
  for asked in server.requests:
    assert [part["type"] for part in asked["messages"][-1]["content"]] == ["image_url", "text"]


def test_bytes_once_where_the_server_keeps_pictures_by_their_ids(tmp_path):
  with Endpoint(ids=True).serving() as server:
    once = _asked(server, tmp_path / "once.jsonl", by_id=True)
  assert once.states == {State.ANSWERED: 24}
  images_of = collections.defaultdict(list)
  for asked in server.requests:
    image = asked["messages"][-1]["content"][0]
    images_of[image["uuid"]].append(image["image_url"] is not None)
  assert [sorted(sent, reverse=True) for sent in images_of.values()] == [[True, False, False, False]] * 6


def test_the_next_picture_is_sent_before_the_last_is_done(tmp_path):
  # Answers take longer than reading the next picture does.
  with Endpoint(ids=True, seconds=0.1).serving() as server:
    _asked(server, tmp_path / "once.jsonl", settings={"max_requests": 1}, by_id=True)
  images = [asked["messages"][-1]["content"][0] for asked in server.requests]
  ids = [image["uuid"] for image in images]
  order = list(dict.fromkeys(ids))
  with_bytes = [number for number, image in enumerate(images) if image["image_url"] is not None]
  assert [ids[number] for number in with_bytes] == order
  lasts = [len(ids) - 1 - ids[::-1].index(picture) for picture in order]
  assert all(first < last for first, last in zip(with_bytes[1:], lasts[:-1], strict=True))


def test_a_lost_picture_is_sent_again(tmp_path):
  def restart(endpoint, asked):
    if len(endpoint.requests) == 10:
      endpoint.pictures.clear()

  with Endpoint(restart, ids=True).serving() as server:
    asking = _asked(server, tmp_path / "a.jsonl", by_id=True)
  assert asking.states == {State.ANSWERED: 24}
  assert asking.client.again.keys() == {"the server no longer had the picture"}


@pytest.mark.parametrize(
  ("response", "reason"),
  [
    (error(429, "slow down", **{"Retry-After": "0"}), "429"),
    (error(500, "oops"), "500"),
    (error(503, "busy"), "503"),
    (lambda: Response(json.dumps(completion("half"))[:-40]), "200"),
    (lambda: Response("<html>"), "200"),
    (lambda: Response("<html>Bad gateway</html>", 502), "502"),
  ],
)
def test_asked_again(tmp_path, response, reason):
  with Endpoint(every(5, response)).serving() as server:
    asking = _asked(server, tmp_path / "a.jsonl")
  assert asking.states == {State.ANSWERED: 24}
  assert asking.client.again == {reason: len(server.requests) - 24}
  assert len({_of_question(asked) for asked in server.requests}) == 24


def test_a_request_that_hangs_is_sent_again(tmp_path):
  hung = []

  class Hangs(Endpoint):
    async def chat(self, request):
      if not hung:
        hung.append(True)
        await asyncio.sleep(2)
      return await super().chat(request)

  with Hangs().serving() as server:
    asking = _asked(server, tmp_path / "a.jsonl", settings={"timeout_seconds": 1})
  assert asking.states == {State.ANSWERED: 24}
  assert asking.client.again["no answer in 1 seconds"] >= 1


@pytest.mark.parametrize(
  ("response", "state", "reason"),
  [
    (lambda: JSONResponse(completion("cut", finish="length")), State.CUT, "finish_reason length"),
    (
      lambda: JSONResponse(completion("", finish="content_filter")),
      State.REFUSED,
      "finish_reason content_filter",
    ),
    (error(400, "blocked by content_policy"), State.REFUSED, "400 (blocked by content_policy)"),
    (error(400, "image is too small"), State.FAILED, "400 (image is too small)"),
    (error(413, "too large"), State.FAILED, "413 (too large)"),
    (lambda: JSONResponse(completion("")), State.FAILED, "empty content, finish_reason stop"),
  ],
)
def test_states_that_are_no_captions(tmp_path, response, state, reason):
  with Endpoint(every(6, response)).serving() as server:
    asking = _asked(server, tmp_path / "a.jsonl")
  assert asking.states == {State.ANSWERED: 20, state: 4}
  answers = [asking.journal.states[question] for question in asking.ids.values()]
  assert collections.Counter(answers) == asking.states
  lines = (tmp_path / "a.jsonl").read_text(encoding="utf-8").splitlines()
  assert {line["reason"] for line in map(json.loads, lines) if line["state"] == state} == {reason}


def test_what_failed_is_asked_again_and_nothing_else(tmp_path):
  with Endpoint(every(6, error(400, "image is too small"))).serving() as server:
    _asked(server, tmp_path / "a.jsonl")
  with Endpoint().serving() as server:
    asking = _asked(server, tmp_path / "a.jsonl")
  assert len(server.requests) == asking.asked == 4
  assert asking.states == {State.ANSWERED: 24}


def test_fields_that_a_server_does_not_take_are_learned_once(tmp_path):
  def takes(endpoint, asked):
    if "max_tokens" in asked:
      message = "Unsupported parameter: 'max_tokens' is not supported. Use 'max_completion_tokens' instead."
      return error(400, message)()
    if "temperature" in asked:
      return error(400, "Unsupported value: 'temperature' does not support 0 with this model.")()
    assert asked["max_completion_tokens"] == 96
    return None

  with Endpoint(takes).serving() as server:
    asking = _asked(server, tmp_path / "a.jsonl")
  assert asking.states == {State.ANSWERED: 24}
  assert asking.lines == [
    "stub does not take max_tokens: sent as max_completion_tokens",
    "stub does not take temperature: left out",
  ]


@pytest.mark.parametrize(
  ("response", "message"),
  [
    (error(401, "Incorrect API key"), "answers 401 (Incorrect API key): check the key"),
    (error(404, "no model `stub`"), "answers 404 (no model `stub`): check the URL and --model"),
    (error(422, "extra field: seed"), "the first 3 pictures failed: 422 (extra field: seed)"),
    (error(429, "You exceeded your current quota"), "answers 429 (You exceeded your current quota): check the account"),
    (
      lambda: Response(status_code=308, headers={"Location": "https://b/v1/chat/completions"}),
      "answers 308 (moved to https://b/v1/chat/completions): give that address",
    ),
    (lambda: Response("<html>Log in"), "the first 3 pictures failed: 200 (not a chat completion: <html>Log in)"),
    (error(500, ""), "the first 3 pictures failed: 500 ()"),
  ],
)  # fmt: skip
def test_what_is_the_fault_of_the_run_ends_it(tmp_path, response, message):
  with Endpoint(every(1, response)).serving() as server, pytest.raises(UsageError) as raised:
    _asked(server, tmp_path / "a.jsonl", settings={"max_requests": 1})
  assert message in str(raised.value)
  assert len({_of_question(asked) for asked in server.requests}) < 24


def test_a_server_that_never_answers(tmp_path):
  with Endpoint(every(1, error(503, "loading"))).serving() as server, pytest.raises(RestartError) as raised:
    _asked(server, tmp_path / "a.jsonl", settings={"patience_seconds": 0.2})
  assert "does not answer (loading)" in str(raised.value)


def test_nobody_waits_without_a_line(tmp_path):
  """It is said once that nothing comes, and again when a server that answered is gone."""

  def gone(endpoint, asked):
    return (
      error(503, "loading")() if len(endpoint.requests) < 30 or 40 < len(endpoint.requests) < 80 else None
    )

  # One after the other, or an answer may overtake one that failed before it.
  with Endpoint(gone).serving() as server:
    asking = _asked(server, tmp_path / "a.jsonl", settings={"max_requests": 1})
  assert asking.states == {State.ANSWERED: 24}
  assert asking.lines == [f"{server.url} does not answer (loading): asked again for 600 seconds"] * 2


def test_why_captions_are_missing(tmp_path):
  def odd(endpoint, asked):
    text = asked["messages"][-1]["content"][-1]["text"]
    if "Thai" in text:
      return JSONResponse(completion("half of", finish="length"))
    return error(400, "max_tokens=96: a window of 64")() if "German" in text else None

  with Endpoint(odd).serving() as server:
    asking = _asked(server, tmp_path / "a.jsonl")
    asking.journal = Journal(tmp_path / "a.jsonl")
    assert asking.outcome(list(_PICTURES), _LANGUAGES, {}).notes == [
      "24 questions: 12 answered, 6 cut, 6 failed; 24 asked now",
      "6 failed: 400 (max_tokens=96: a window of 64)",
      "6 cut: finish_reason length",
      "what is cut stays so: ask with a prompt of your own that has more max_tokens",
    ]


def test_runs_that_end_early_ask_nothing_twice(tmp_path):
  """Runs that end after two more questions by a limit of costs: no answer is lost or asked for again."""
  asked = collections.Counter()
  with Endpoint().serving() as server:
    for number in range(10):
      most = {"price": Price(1e6, 1e6, 1e6), "max_cost": (2 * number + 1.5) * 110}  # a question costs 110
      for _ in range(2):  # what earlier runs cost counts, so the second asks nothing
        with pytest.raises(XmcapError, match="--max_cost"):
          _asked(server, tmp_path / "a.jsonl", settings={"max_requests": 1}, **most)
        assert len(server.requests) == 2 * (number + 1)
    _asked(server, tmp_path / "a.jsonl")
  asked.update(map(_of_question, server.requests))
  assert len(asked) == 24
  assert set(asked.values()) == {1}


def test_broken_pictures_are_named_and_never_sent(tmp_path):
  pictures = {**_PICTURES, "cut": _PICTURES["p0"][:300]}
  with Endpoint().serving() as server:
    asking = _asked(server, tmp_path / "a.jsonl", pictures)
  assert list(asking.broken) == ["cut"]
  assert len(server.requests) == 24


def test_translation_asks_in_english_first(tmp_path):
  with Endpoint().serving() as server:
    asking = _asked(server, tmp_path / "a.jsonl", strategy="translate")
  with_picture = [asked for asked in server.requests if not isinstance(asked["messages"][-1]["content"], str)]
  assert len(with_picture) == 6
  assert len(server.requests) == 24
  thai = _answer(tmp_path / "a.jsonl", asking, "p0", "th").text
  assert "into Thai" in thai
  assert _answer(tmp_path / "a.jsonl", asking, "p0", "en").text in thai


def test_no_english_caption_no_translation(tmp_path):
  with Endpoint(every(1, lambda: JSONResponse(completion("", finish="content_filter")))).serving() as server:
    asking = _asked(server, tmp_path / "a.jsonl", strategy="translate")
  assert len(server.requests) == 6
  answer = _answer(tmp_path / "a.jsonl", asking, "p3", "th")
  assert (answer.state, answer.reason) == (State.REFUSED, "no English caption: finish_reason content_filter")


def _together(captions, finish="stop"):
  """Answers with a JSON object, in a fence as many models write it."""
  text = f"Here it is:\n```json\n{json.dumps(captions)}\n```"
  return lambda endpoint, asked: JSONResponse(completion(text, finish))


def test_one_question_for_all_languages(tmp_path):
  captions = {language: f"a cat in {language}" for language in _LANGUAGES}
  with Endpoint(_together(captions)).serving() as server:
    asking = _asked(server, tmp_path / "a.jsonl", strategy="together")
    again = _asked(server, tmp_path / "a.jsonl", strategy="together")
  assert len(server.requests) == 6 and again.asked == 0
  asked = server.requests[0]
  assert (
    "quz (Cusco Quechua)" in asked["messages"][-1]["content"][1]["text"] and asked["max_tokens"] == 4 * 96
  )
  assert asked["response_format"]["json_schema"]["schema"]["required"] == list(_LANGUAGES)
  for language in _LANGUAGES:
    assert _answer(tmp_path / "a.jsonl", asking, "p2", language).text == captions[language]
  assert asking.tokens == Tokens(600, 360, 60)


@pytest.mark.parametrize(
  "captions, finish, state, reason, again",
  [
    (
      {"en": "a cat", "de": " ", "quz": 3},
      "stop",
      State.FAILED,
      "no caption by 'th' in the answer's JSON",
      3,
    ),
    ("a cat", "stop", State.FAILED, "no caption by 'th' in the answer's JSON", 4),
    ({"en": "a cat"}, "length", State.CUT, "finish_reason length", 0),
  ],
)
def test_one_question_without_all_its_captions(tmp_path, captions, finish, state, reason, again):
  one = {"strategy": "together", "pictures": {"p0": _PICTURES["p0"]}}
  with Endpoint(_together(captions, finish)).serving() as server:
    asking = _asked(server, tmp_path / "a.jsonl", **one)
    answer = _answer(tmp_path / "a.jsonl", asking, "p0", "th")
    assert (answer.state, answer.reason) == (state, reason)
    server.faults = [_together(dict.fromkeys(_LANGUAGES, "later"))]
    asking = _asked(server, tmp_path / "a.jsonl", **one)
  assert asking.asked == again
  if again == 3:
    assert _answer(tmp_path / "a.jsonl", asking, "p0", "en").text == "a cat"


def test_cost_of_cached_tokens():
  assert Price(prompt=2, cached=0.5, completion=10).of(Tokens(1_000_000, 400_000, 100_000)) == pytest.approx(
    2.4
  )


def test_the_key_is_in_no_text(tmp_path):
  who = client.Endpoint("http://127.0.0.1:9/v1", "stub", key="secret")
  assert "secret" not in repr(who)
  assert dataclasses.asdict(who)["key"] == "secret"
