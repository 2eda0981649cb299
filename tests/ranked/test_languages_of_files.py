"""Languages that one of two files lacks are named, on both sides."""

import numpy as np
import pytest

from tests.make import files
from tests.make.command import xmcap
from tests.scoring import embeddings


def retrieval(folder):
  return ["retrieval", *embeddings.retrieval(folder)], "en", "th"


def zero_shot(folder):
  return ["zero-shot", *embeddings.zero_shot(folder)], "en", "de"


@pytest.mark.parametrize("made", [retrieval, zero_shot])
def test_texts_in_further_languages_are_named(tmp_path, made):
  options, first, second = made(tmp_path / "in")
  texts = tmp_path / "in/texts"
  np.save(texts / "fr.npy", np.load(texts / f"{first}.npy"))
  result = xmcap("score", *options, f"--out={tmp_path / 'out'}").succeeded()
  assert (
    "embeddings in 1 further language are not scored, as there are no" in result.err
    and " in fr" in result.err
  )
  chosen = xmcap("score", *options, f"--languages={first}", f"--out={tmp_path / 'chosen'}").succeeded()
  assert "not scored" not in chosen.err  # by choice
  (texts / f"{second}.npy").unlink()
  xmcap("score", *options, f"--out={tmp_path / 'other'}").refused(f" in {second} (but embeddings in fr)")


@pytest.mark.parametrize(
  ("true", "predicted", "messages"),
  [
    ("en", "fr", ("true.jsonl: no tags in fr", "ours.jsonl: no tags in en")),
    ("en,de", "en", ("ours.jsonl: no tags in de",)),
    ("en", "en,de", ("true.jsonl: no tags in de",)),
  ],
)
def test_score_tags_names_languages_of_one_file(tmp_path, true, predicted, messages):
  for name, codes in (("true", true), ("ours", predicted)):
    rows = [{"image/key": "p", "language": code, "tags": ["a"]} for code in codes.split(",")]
    files.jsonl(tmp_path / f"{name}.jsonl", *rows)
  given = f"--references={tmp_path / 'true.jsonl'}", f"--predictions={tmp_path / 'ours.jsonl'}", "--k=1"
  xmcap("score", "tags", *given, f"--out={tmp_path / 'out'}").refused(*messages)


@pytest.mark.parametrize(
  ("true", "predicted", "message"),
  [
    ("en,de", "en,fr", "no references in fr, and no predictions in de"),
    ("en,de", "en", "1 of 2 predictions are missing (de p), all in de"),
    ("en", "en,fr", "no references in fr: choose"),
  ],
)
def test_score_names_languages_of_one_file(tmp_path, true, predicted, message):
  references = {code: {"caption": ["a dog"]} for code in true.split(",")}
  files.jsonl(tmp_path / "true.jsonl", {"image/key": "p", **references})
  files.jsonl(tmp_path / "ours.jsonl", {"image/key": "p", **dict.fromkeys(predicted.split(","), "a dog")})
  given = f"--references={tmp_path / 'true.jsonl'}", f"--predictions={tmp_path / 'ours.jsonl'}"
  xmcap("score", *given, f"--out={tmp_path / 'out'}").refused(message)


def test_correlation_names_languages_of_one_table(tmp_path):
  for made in (zero_shot, retrieval):
    xmcap(
      "score", *made(tmp_path / f"in_{made.__name__}")[0], f"--out={tmp_path / made.__name__}"
    ).succeeded()
  folders = f"--zero_shot={tmp_path / 'zero_shot'}", f"--retrieval={tmp_path / 'retrieval'}", "--paper=xm3600"
  result = xmcap("score", "correlation", *folders, f"--out={tmp_path / 'out'}").succeeded()
  assert "zero_shot: no scores in th, which are left out" in result.err
  assert "retrieval: no scores in de, which are left out" in result.err
