"""What is signed is what was scored: two test sets have two signatures, and are not compared."""

import json

import numpy as np
import pytest

from tests.make import files
from tests.make.command import xmcap
from tests.ranked.tables import table
from tests.scoring import embeddings


def zero_shot(folder, name):
  return ["zero-shot", *embeddings.zero_shot(folder), f"--keys={keys(folder, name, 120)}"]


def zero_shot_of_embed(folder, name):
  """The keys lie beside the pictures, as `xmcap embed` writes them."""
  options = embeddings.zero_shot(folder)
  keys(folder, name, 120)
  return ["zero-shot", *options]


def retrieval(folder, name):
  options = embeddings.retrieval(folder)
  path = folder / "captions.jsonl"
  path.write_text(path.read_text(encoding="utf-8").replace('"k', f'"{name}'), encoding="utf-8")
  return ["retrieval", *options]


def retrieval_of_other_captions(folder, name):
  options = embeddings.retrieval(folder)
  path = folder / "captions.jsonl"
  path.write_text(path.read_text(encoding="utf-8").replace("en 3 0", f"en {name}"), encoding="utf-8")
  return ["retrieval", *options]


def matrix(folder, name):
  folder.mkdir()
  np.save(folder / "scores.npy", np.random.default_rng(0).normal(size=(20, 20)).astype(np.float32))
  scores = f"--scores={folder / 'scores.npy'}"
  return ["retrieval", scores, "--language=en", f"--keys={keys(folder, name, 20)}"]


def tags(folder, name):
  rows = [{"image/key": f"{name}{place}", "language": "en", "tags": ["a", "b"]} for place in range(3)]
  path = files.jsonl(folder / "tags.jsonl", *rows)
  return ["tags", f"--references={path}", f"--predictions={path}", "--k=1"]


def tags_of_the_same_pictures(folder, name):
  rows = [{"image/key": "p", "language": "en", "tags": ["a", name]}]
  path = files.jsonl(folder / "tags.jsonl", *rows)
  return ["tags", f"--references={path}", f"--predictions={path}", "--k=1"]


def captions(folder, name):
  references = [{"image/key": f"{name}{place}", "en": {"caption": ["a dog"]}} for place in range(3)]
  predictions = [{"image/key": row["image/key"], "en": "a dog"} for row in references]
  given = [
    f"--references={files.jsonl(folder / 'references.jsonl', *references)}",
    f"--predictions={files.jsonl(folder / 'predictions.jsonl', *predictions)}",
  ]
  return [*given, "--metrics=cider"]


def keys(folder, name, count):
  return files.lines(folder / "keys.txt", *(f"{name}{place}" for place in range(count)))


@pytest.mark.parametrize(
  "made",
  [
    zero_shot,
    zero_shot_of_embed,
    retrieval,
    retrieval_of_other_captions,
    matrix,
    tags,
    tags_of_the_same_pictures,
    captions,
  ],
)
def test_two_test_sets_have_two_signatures(tmp_path, made):
  for name in ("first", "other"):
    xmcap("score", *made(tmp_path / name, name), f"--out={tmp_path / name / 'out'}").succeeded()
  folders = [tmp_path / name / "out" for name in ("first", "other")]
  first, other = (table(folder) for folder in folders)
  assert first["languages"] == other["languages"] and first["signature"] != other["signature"]
  assert not [note for note in first["notes"] if "without keys" in note]
  result = xmcap("compare", *(f"{folder.parent.name}={folder}" for folder in folders), "--resamples=20")
  result.refused("cannot be compared, because their signatures differ in")


@pytest.mark.parametrize("made", [zero_shot, matrix])
def test_pictures_without_keys_are_noted(tmp_path, made):
  options = [option for option in made(tmp_path / "in", "k") if not option.startswith("--keys")]
  (tmp_path / "in/keys.txt").unlink()
  xmcap("score", *options, f"--out={tmp_path / 'out'}").succeeded("without keys are signed by their numbers")


def test_correlation_refuses_models_of_two_test_sets(tmp_path):
  options = []
  for name in ("first", "other"):
    for made in (zero_shot, retrieval):
      out = tmp_path / made.__name__ / name
      xmcap("score", *made(tmp_path / f"{name}_{made.__name__}", name), f"--out={out}").succeeded()
      options.append(f"--{made.__name__}={out}")
  result = xmcap("score", "correlation", *options, f"--out={tmp_path / 'out'}")
  result.refused("--zero_shot", "images: 120#", "other pictures")


def test_table_json_of_retrieval_has_median_ranks_in_languages_alone(tmp_path):
  for name in ("first", "other"):
    options = retrieval(tmp_path / name, "k")
    xmcap("score", *options, f"--out={tmp_path / name / 'out'}", "--bootstrap=20").succeeded(
      "T2I median rank"
    )
  out = tmp_path / "first/out"
  written = table(out)
  names = {"t2i_median_rank", "i2t_median_rank"}
  assert all(names <= row.keys() for row in written["languages"].values()) and not written["notes"]
  assert not any(
    names & row.keys() for row in [*written["means"].values(), {name: 0 for name in written["metrics"]}]
  )
  rows = [line.split(",") for line in (out / "table.csv").read_text(encoding="utf-8").splitlines()]
  ranks = {row[0]: row[rows[0].index("t2i_median_rank")] for row in rows[1:]}
  assert (
    float(ranks["en"]) == written["languages"]["en"]["t2i_median_rank"] and ranks["mean_2_languages"] == ""
  )
  assert (
    "I2T median rank" in (out / "table.md").read_text()
    and "I2T median rank" in (out / "table.tex").read_text()
  )
  compared = xmcap(
    "compare",
    *(f"{name}={tmp_path / name / 'out'}" for name in ("first", "other")),
    "--resamples=20",
    f"--out={tmp_path / 'compared'}",
  )
  compared.succeeded("T2I median rank of first", "T2I median rank of other")
  medians = json.loads((tmp_path / "compared/comparison.json").read_text())["medians"]
  assert medians["t2i_median_rank"]["en"] == dict.fromkeys(("first", "other"), float(ranks["en"]))
