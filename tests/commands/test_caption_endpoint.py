"""`xmcap caption --endpoint`: from a corpus to a table that says who wrote its captions."""

import json
import os
import signal
import threading
import time

import pytest
from starlette.responses import JSONResponse

from tests.make import files, images
from tests.make.command import forked, xmcap
from tests.make.endpoint import Endpoint, completion, error, every
from xmcap import cli
from xmcap.languages import LANGUAGES
from xmcap.reading import provenance


@pytest.fixture
def corpus(tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  monkeypatch.delenv("OPENAI_API_KEY", raising=False)
  captions = {
    f"k{number}": {"en": [f"a cat and {number} dogs"], "de": ["Eine Katze."]} for number in range(3)
  }
  files.release("data/captions.jsonl", captions)
  for number in range(3):
    files.write(f"data/images/k{number}.jpg", images.noise((24, 24), number, "JPEG"))
  return "data"


def _writes(text: str):
  """A model that sees (its answers change with the picture) and leaves residue around its captions."""

  def answer(endpoint, asked):
    if (picture := (asked["messages"][-1]["content"][0]["image_url"] or {}).get("url")) is None:
      return None
    return JSONResponse(completion(f"<think>Hm.</think>**{text} {sum(picture.encode()) % 997}**"))

  return answer


def _caption(server, *more):
  return xmcap("caption", f"--endpoint={server.url}", "--model=stub", "--languages=en,de", *more)


def test_captions_scores_and_a_comparison_of_two_models(corpus, tmp_path):
  for name in ("one", "two"):
    with Endpoint(_writes(f"a cat of {name}")).serving() as server:
      result = _caption(server, "--corpus=data", f"--out={name}/captions.jsonl").succeeded()
    assert "6 questions: 6 answered; 6 asked now" in result.err
    assert "removed from captions: think 6, markdown 6" in result.err
    lines = (tmp_path / name / "captions.jsonl").read_text(encoding="utf-8").splitlines()
    captions = [json.loads(line)["caption"] for line in lines]
    assert len(captions) == 6
    assert all(caption.startswith(f"a cat of {name}") and "*" not in caption for caption in captions)
    xmcap(
      "score", "--references=data/captions.jsonl", f"--predictions={name}/captions.jsonl", "--languages=en,de",
      f"--out={name}/scores",
    ).succeeded()  # fmt: skip
    table = json.loads((tmp_path / name / "scores/table.json").read_text(encoding="utf-8"))
    assert "|captioner:stub,prompt=xmcap#" in table["signature"]
  xmcap("compare", "one=one/scores", "two=two/scores").succeeded()


def test_provenance_says_what_was_asked_and_has_no_key(corpus, tmp_path, monkeypatch):
  monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
  with Endpoint().serving() as server:
    _caption(server, "--corpus=data", "--prompt=centurio", "--out=c.jsonl", "--price=1,2").succeeded()
  fields = json.loads((tmp_path / "c.provenance.json").read_text(encoding="utf-8"))
  assert fields["model"] == "stub" and fields["answered_by"] == {"stub-1": 6}
  assert fields["states"] == {"answered": 6, "cut": 0, "refused": 0, "failed": 0}
  assert fields["prompt"]["parameters"] == {"temperature": 0, "repetition_penalty": 1.1}
  assert fields["tokens"] == {"prompt": 600, "cached": 360, "completion": 60}
  assert not [path for path in tmp_path.rglob("*") if path.is_file() and b"sk-secret" in path.read_bytes()]


@pytest.mark.parametrize(
  "options",
  [
    ["--strategy=together"],
    ['--extra_body={"temperature": 1}'],
    ["--shots=1", "--shots_from=shots"],
    ["--prompt=mblip"],
  ],
)
def test_all_that_decides_captions_is_in_their_signature(corpus, tmp_path, options):
  """`captioner` of two runs, of which one has other options."""
  files.release(
    "shots/captions.jsonl", {f"s{number}": {"en": ["a cat"], "de": ["Eine Katze."]} for number in range(2)}
  )
  for number in range(2):
    files.write(f"shots/images/s{number}.jpg", images.noise((24, 24), 9 + number, "JPEG"))
  named = []
  for name, more in (("plain", []), ("other", options)):
    with Endpoint(_writes('{"en": "a cat", "de": "Eine Katze"}')).serving() as server:
      _caption(server, "--corpus=data", f"--out={name}.jsonl", *more).succeeded()
    named.append(provenance.captioner([f"{name}.jsonl"]))
  assert named[0].startswith("stub,prompt=xmcap#") and named[0].endswith(",direct,shots=0")
  assert named[0] != named[1]


def test_captions_that_were_changed_are_refused_under_their_provenance(corpus, tmp_path):
  with Endpoint().serving() as server:
    _caption(server, "--corpus=data", "--out=c.jsonl").succeeded()
  path = tmp_path / "c.jsonl"
  path.write_text(path.read_text(encoding="utf-8").replace("Describe", "Draw"), encoding="utf-8")
  xmcap("score", "--references=data/captions.jsonl", "--predictions=c.jsonl", "--out=s").refused(
    "c.jsonl is not the file of c.provenance.json: write it again, or remove its provenance"
  )


def test_what_is_missing_is_said_and_asked_again(corpus, tmp_path):
  with Endpoint(every(5, error(400, "image is too small"))).serving() as server:
    result = _caption(server, "--corpus=data", "--out=c.jsonl", "--blind")
  assert result.code == 1
  assert "1 of 6 captions are missing: the same command asks again for those that failed" in result.err
  with Endpoint().serving() as server:
    assert "1 asked now" in _caption(server, "--corpus=data", "--out=c.jsonl", "--blind").succeeded().err


def test_photos_are_captioned_without_a_file(corpus):
  with Endpoint().serving() as server:
    result = _caption(server, "data/images", "--keys=stem").succeeded()
  assert "k2\n  en   English        Describe this picture in English" in result.out


@pytest.mark.parametrize(
  ("arguments", "message"),
  [
    (
      ["--model=m", "x.jpg"],
      "give --model_dir of a trained model, --endpoint and --model of any other, or --captioner",
    ),
    (["--endpoint=http://a", "x.jpg"], "these arguments are required: --model"),
    (["--endpoint=http://a", "--model=m"], "give pictures, or --corpus"),
    (["--endpoint=http://a", "--model=m", "--step=3", "x.jpg"], "--step is of a trained model"),
    (["--model_dir=x", "--prompt=centurio", "x.jpg"], "--prompt is of an endpoint"),
    (["--endpoint=http://a", "--model=m", "--shots=2", "x.jpg"], "--shots and --shots_from go together"),
    (["--endpoint=http://a", "--model=m", "--prompt=vlmevalkit", "-l=de", "x.jpg"], "has no text for 'de'"),
  ],
)
def test_wrong_usage(arguments, message):
  xmcap("caption", *arguments).refused(message)


def _killed(journal, lines, *argv):
  """The command, in a process that is killed once its journal has so many lines."""

  def kill():
    while not journal.exists() or journal.read_bytes().count(b"\n") < lines:
      time.sleep(0.001)
    os.kill(os.getpid(), signal.SIGKILL)

  threading.Thread(target=kill, daemon=True).start()
  return cli.main([*argv])


def test_ten_kills_lose_nothing_and_ask_nothing_twice(corpus, tmp_path):
  most, kills, journal = 4, 10, tmp_path / "out/captions.answers.jsonl"
  with Endpoint(_writes("a cat"), ids=True, seconds=0.01).serving() as server:
    command = (
      "caption", f"--endpoint={server.url}", "--model=stub", "--languages=all", "--corpus=data", "--prompt=xmcap",
      f"--max_requests={most}", "--blind", "--out=out/captions.jsonl",
    )  # fmt: skip
    files.release(
      "data/captions.jsonl", {f"k{number}": dict.fromkeys(LANGUAGES, ["a cat"]) for number in range(3)}
    )
    for kill in range(1, kills + 1):
      assert forked(_killed, journal, 9 * kill, *command).code == -signal.SIGKILL
    xmcap(*command).succeeded(f"{3 * len(LANGUAGES)} answered")
  questions = files.rows(journal)
  asked = {(question["image/key"], question["language"]) for question in questions}
  # A question that was on its way at a kill has no answer, and is asked again.
  assert len(questions) == len(asked) == 3 * len(LANGUAGES)
  assert len(server.requests) <= len(asked) + kills * most
