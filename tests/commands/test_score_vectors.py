"""CLIPScore and similarity metrics from a folder of vectors in `xmcap score`, `compare` and `human thumb`."""

import json

import numpy as np
import pytest

from tests.options import changed
from tests.scoring import vectors as written
from xmcap import cli
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
  rows = [
    {"image/key": key, "language": code, "caption": text}
    for code, of_code in texts.items()
    for key, text in zip(KEYS, of_code, strict=True)
  ]
  with open(path, "w", encoding="utf-8") as file:
    file.writelines(json.dumps(row) + "\n" for row in rows)


def run(name, *options, out=None, vectors="vectors"):
  files = ["--references=references.jsonl", f"--predictions={name}.jsonl", f"--out={out or name}"]
  return cli.main(["score", *changed([*files, f"--vectors={vectors}"], options or (METRICS,))])


def fails(capsys, message):
  error = capsys.readouterr().err
  assert error.startswith("xmcap: error: ") and error.count("\n") == 1 and message in error, error


def test_score_vector_metrics_in_table_statistics_and_report(folder, capsys):
  assert run("bad", METRICS, "--bootstrap=50") == 0
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
  assert run("bad", METRICS, "--wrong_language=zero", "--no_health") == 0
  scores = read_system(folder / "bad").statistics["en"]
  assert all(scores.image_scores(name)[0] == 0 for name in ("clip_score", "ref_clip_score", "similarity_max"))
  assert scores.image_scores("similarity_max")[3] != 0
  assert "another language scores about" not in (folder / "bad/table.md").read_text()


def test_score_vector_metrics_are_independent_of_processes(folder):
  for processes in (1, 2):
    assert run("good", METRICS, f"--processes={processes}", out=f"out{processes}") == 0
  assert (folder / "out1/table.json").read_bytes() == (folder / "out2/table.json").read_bytes()


def test_compare_vector_metrics_refuses_other_weights(folder, capsys):
  assert run("good") == run("bad") == 0
  (folder / "vectors").rename(folder / "other")
  written.write_card(folder / "other", weights="seed 1")
  assert run("bad", out="again", vectors="other") == 0
  assert cli.main(["compare", "bad", "good", "--metrics=similarity_max", "--resamples=200"]) == 0
  assert "similarity (max): good against bad" in capsys.readouterr().out
  assert cli.main(["compare", "good", "again", "--metrics=clip_score"]) == 2
  fails(capsys, "weights=seed 0,preprocessing=none against w=2.5,weights=seed 1")
  assert cli.main(["compare", "good", "again", "--metrics=cider_d", "--resamples=200"]) == 0  # of words


def test_score_function_equals_command_with_vectors(folder):
  assert run("good") == 0
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
def test_score_refuses_mismatched_vectors_before_scoring(folder, capsys, options, message):
  assert run("good", *options) == (2 if message else 0)
  if message:
    fails(capsys, message)


def test_score_refuses_vectors_of_changed_captions(folder, capsys):
  write("good.jsonl", {"en": [f"{text}!" for text in ENGLISH]})
  assert run("good", "--metrics=similarity", "--languages=en") == 2
  fails(
    capsys, "no vectors of 6 of 12 captions in 'en' ('a big house!', 'a dog on the beach!', 'a man!', ...)"
  )


def test_human_thumb_correlates_with_vector_metrics(folder, capsys):
  rows = [
    {"SYS": system, "seg_id": key, "hyp": text, "P": 1 + number % 5, "R": 3, "Fl": 0, "Con": 0, "Inc": 0}
    for system, of_system in (("M", [f"{text} today" for text in ENGLISH]), ("Human", ENGLISH))
    for number, (key, text) in enumerate(zip(KEYS, of_system, strict=True))
  ]
  (folder / "ratings.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
  others = [[text, ENGLISH[number - 1]] for number, text in enumerate(ENGLISH)]
  lines = [{"seg_id": key, "refs": texts} for key, texts in zip(KEYS, others, strict=True)]
  (folder / "refs.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
  command = ["human", "thumb", "--ratings=ratings.jsonl", "--resamples=0", "--vectors=vectors", "--out=thumb"]
  assert cli.main([*command, "--references=refs.jsonl", "--metrics=clip_score,similarity"]) == 0
  found = capsys.readouterr().out
  assert "similarity (max)" in found and "CLIP-S" in found and "weights=seed 0" in found
  dropped = [*command, "--references=refs.jsonl", "--metrics=similarity", "--drop_identical_references"]
  assert cli.main(dropped) == 0
  own = [line.split() for line in capsys.readouterr().out.splitlines() if line.startswith("Human ")]
  assert float(own[-1][1]) < 0.9  # without the reference that is the caption itself
  assert cli.main(command) == 2
  fails(capsys, "--vectors is for correlations with metrics, which need --references")
