"""CLIPScore and similarity metrics from a folder of vectors in `xmcap score`, `compare` and `human thumb`."""

import json

import numpy as np
import pytest

from tests.make import files
from tests.make.command import Result, xmcap
from tests.options import changed
from tests.scoring import vectors as written
from xmcap.scoring import read_system, score

KEYS = [f"k{number}" for number in range(6)]
ENGLISH = ["a red ball", "two green cars", "a dog on the beach", "the sea at night", "a man", "a big house"]
GREEK = ["μια κόκκινη μπάλα", "δύο αυτοκίνητα", "ένας σκύλος", "η θάλασσα", "ένας άντρας", "ένα μεγάλο σπίτι"]
METRICS = "--metrics=cider_d,clip_score,ref_clip_score,similarity"


@pytest.fixture
def folder(tmp_path, monkeypatch):
  """References in en and el; `good` and `bad` captions, of which bad has a Greek one in en; vectors of all of them.

  A caption and its translation have about the same vector, as an encoder of many languages gives them.
  """
  monkeypatch.chdir(tmp_path)
  texts = {"en": ENGLISH, "el": GREEK}
  good = {code: [f"{text} today" for text in of_code] for code, of_code in texts.items()}
  bad = {"en": [GREEK[0], *reversed(ENGLISH[1:])], "el": ["", *good["el"][1:]]}
  write("references.jsonl", texts)
  write("good.jsonl", good)
  write("bad.jsonl", bad)
  rng = np.random.default_rng(0)
  meaning = rng.normal(size=(6, 16))
  written.write_card(tmp_path / "vectors")
  written.write_pictures(tmp_path / "vectors", KEYS, meaning + rng.normal(size=(6, 16)))
  for code, of_code in texts.items():
    known = [*of_code, *good[code], *(GREEK[:1] if code == "en" else ())]
    vectors = [meaning[number % 6] + 0.05 * rng.normal(size=16) for number in range(len(known))]
    written.write_captions(tmp_path / "vectors" / "references", code, known[:6], vectors[:6])
    written.write_captions(tmp_path / "vectors" / "predictions", code, known[6:], np.float16(vectors[6:]))
  return tmp_path


def write(path, texts):
  files.captions(
    path, {key: {code: of_code[place] for code, of_code in texts.items()} for place, key in enumerate(KEYS)}
  )


def run(name, *options, out=None, vectors="vectors") -> Result:
  named = ["--references=references.jsonl", f"--predictions={name}.jsonl", f"--out={out or name}"]
  return xmcap("score", *changed([*named, f"--vectors={vectors}"], options or (METRICS,)))


def test_score_vector_metrics_in_table_statistics_and_report(folder):
  run("bad", METRICS, "--bootstrap=50").succeeded()
  held = json.loads((folder / "bad/table.json").read_text())
  assert held["metrics"] == ["cider_d", "clip_score", "ref_clip_score", "similarity_max", "similarity_mean"]
  assert held["shares"]["fidelity"]["en"] < 1
  cell = held["languages"]["en"]["clip_score"]
  assert cell["low"] <= cell["score"] <= cell["high"]
  assert "metric.clip_score:w=2.5,weights=seed 0,preprocessing=none|" in held["signature"]
  assert "metric.cider_d:n=4,sigma=6,stem=no,scale=10|" in held["signature"]
  assert any("score with --wrong_language=zero" in note for note in held["notes"])
  scores = read_system(folder / "bad").statistics["en"].image_scores("similarity_max")
  assert scores[0] > 0.9 and scores.min() < 0  # the Greek caption is as good; a cosine below 0 is read back
  assert read_system(folder / "bad").statistics["el"].image_scores("clip_score")[0] == 0  # an empty caption
  report = (folder / "bad/report.html").read_text()
  assert "RefCLIP-S" in report and "similarity (max)" in report and "<dt>Similarity</dt>" in report


def test_score_vector_metrics_with_wrong_language_zero(folder):
  run("bad", METRICS, "--wrong_language=zero", "--no_health").succeeded()
  scores = read_system(folder / "bad").statistics["en"]
  assert all(scores.image_scores(name)[0] == 0 for name in ("clip_score", "ref_clip_score", "similarity_max"))
  assert scores.image_scores("similarity_max")[3] != 0
  assert "another language scores about" not in (folder / "bad/table.md").read_text()


def test_score_vector_metrics_are_independent_of_processes(folder):
  for processes in (1, 2):
    run("good", METRICS, f"--processes={processes}", out=f"out{processes}").succeeded()
  assert (folder / "out1/table.json").read_bytes() == (folder / "out2/table.json").read_bytes()


def test_compare_vector_metrics_refuses_other_weights(folder):
  for name in ("good", "bad"):
    run(name).succeeded()
  (folder / "vectors").rename(folder / "other")
  written.write_card(folder / "other", weights="seed 1")
  run("bad", out="again", vectors="other").succeeded()
  similarity = xmcap("compare", "bad", "good", "--metrics=similarity_max", "--resamples=200")
  similarity.succeeded("similarity (max): good against bad")
  refused = xmcap("compare", "good", "again", "--metrics=clip_score")
  refused.refused("weights=seed 0,preprocessing=none against w=2.5,weights=seed 1")
  xmcap("compare", "good", "again", "--metrics=cider_d", "--resamples=200").succeeded()  # of words


def test_score_function_equals_command_with_vectors(folder):
  run("good").succeeded()
  references = {key: {"en": [text]} for key, text in zip(KEYS, ENGLISH, strict=True)}
  predictions = {key: {"en": f"{text} today"} for key, text in zip(KEYS, ENGLISH, strict=True)}
  result = score(references, predictions, metrics="clip_score", vectors="vectors", health=True)
  expected = read_system(folder / "good").table.rows["en"]["clip_score"]
  assert result.table.rows["en"]["clip_score"] == pytest.approx(expected)


@pytest.mark.parametrize(
  ("options", "message"),
  [
    (("--metrics=cider",), "--vectors: no metric of --metrics compares embeddings; add one of clip_score"),
    (("--metrics=clip_score", "--no_health"), "language fidelity must stand beside it"),
    (
      ("--metrics=clip_score", "--vectors="),
      "clip_score compares embeddings: give their folder with --vectors",
    ),
    (("--metrics=clip_score", "--vectors=absent"), "absent/vectors.json: no such file"),
    (("--metrics=clip_score", "--protocol=paligemma"), "leave out --metrics"),
    (("--metrics=clip_score", "--clean=all"), ""),
  ],
)
def test_score_refuses_mismatched_vectors_before_scoring(folder, options, message):
  result = run("good", *options)
  result.refused(message) if message else result.succeeded()


def test_score_refuses_vectors_of_changed_captions(folder):
  write("good.jsonl", {"en": [f"{text}!" for text in ENGLISH]})
  run("good", "--metrics=similarity", "--languages=en").refused(
    "no vectors of 6 of 12 captions in 'en' ('a big house!', 'a dog on the beach!', 'a man!', ...)"
  )


def test_human_thumb_correlates_with_vector_metrics(folder):
  rows = [
    {"SYS": system, "seg_id": key, "hyp": text, "P": 1 + number % 5, "R": 3, "Fl": 0, "Con": 0, "Inc": 0}
    for system, of_system in (("M", [f"{text} today" for text in ENGLISH]), ("Human", ENGLISH))
    for number, (key, text) in enumerate(zip(KEYS, of_system, strict=True))
  ]
  files.jsonl("ratings.jsonl", *rows)
  others = [[text, ENGLISH[number - 1]] for number, text in enumerate(ENGLISH)]
  files.jsonl(
    "refs.jsonl", *({"seg_id": key, "refs": texts} for key, texts in zip(KEYS, others, strict=True))
  )
  command = ["human", "thumb", "--ratings=ratings.jsonl", "--resamples=0", "--vectors=vectors", "--out=thumb"]
  both = xmcap(*command, "--references=refs.jsonl", "--metrics=clip_score,similarity")
  both.succeeded("similarity (max)", "CLIP-S", "weights=seed 0")
  xmcap(*command).refused("--vectors is for correlations with metrics, which need --references")
