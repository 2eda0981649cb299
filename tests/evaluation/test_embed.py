"""`xmcap embed` on the folder of a small run, and `xmcap score` of its files."""

import json
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

from tests.make import models
from xmcap.cli import main
from xmcap.evaluation import embed as embed_lib
from xmcap.families.dual import embedder
from xmcap.scoring import read_system

ROOT = pathlib.Path(__file__).parents[2]


@pytest.fixture(scope="module")
def run(tmp_path_factory, tiny_dir):
  return models.dual_tower(tmp_path_factory.mktemp("dual") / "run", f"{tiny_dir}/vocabulary.model")


@pytest.fixture
def work(tmp_path, run):
  """A copy of a run's folder `run`, pictures, captions and labels."""
  shutil.copytree(run, tmp_path / "run")
  (tmp_path / "images").mkdir()
  rng = np.random.default_rng(0)
  for key in "abcdefghijkl":
    Image.fromarray(rng.integers(255, size=(16, 16, 3), dtype=np.uint8)).save(
      tmp_path / "images" / f"{key}.png"
    )
  captions = {
    "images": list("lkjihgfedcba"),
    "captions": {"en": [[f"dog {n}"] for n in range(12)], "de": [[f"Hund {n}", "Hund"] for n in range(12)]},
  }
  (tmp_path / "captions.json").write_text(json.dumps(captions))
  labels = {"EN": [[0, 1, 2], ["dog", "cat", "owl"]], "DE": [[0, 2], ["Hund", "Eule"]]}
  (tmp_path / "labels.json").write_text(json.dumps(labels))
  (tmp_path / "prompts.json").write_text(json.dumps({"EN": ["a {}", "the {}"]}))
  return tmp_path


def embed(work, *options):
  return main(["embed", f"--model_dir={work / 'run'}", f"--out={work / 'out'}", *options])


def everything(work):
  return [
    f"--images={work / 'images'}", f"--captions={work / 'captions.json'}", f"--labels={work / 'labels.json'}",
    f"--prompts={work / 'prompts.json'}",
  ]  # fmt: skip


def contents(folder):
  return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_embed_files_are_read_by_retrieval_and_zero_shot_scores(work, capsys):
  assert embed(work, *everything(work)) == 0
  out = work / "out"
  assert (out / "keys.txt").read_text().split() == list("lkjihgfedcba")  # in the order of the captions
  assert np.load(out / "pictures.npy").shape == (12, 8)
  assert np.load(out / "captions" / "de.npy").shape == (24, 8)
  assert np.load(out / "labels" / "de.npy").shape == (2, 8)
  assert not list(out.glob(".build"))
  score = ["--pictures", str(out / "pictures.npy"), "--out", str(work / "scores")]
  captions = ["--captions", str(work / "captions.json"), "--texts", str(out / "captions")]
  assert main(["score", "retrieval", *score, *captions]) == 0
  (work / "targets.txt").write_text("0\n2\n" * 6)
  labels = [
    "--labels",
    str(work / "labels.json"),
    "--texts",
    str(out / "labels"),
    f"--targets={work / 'targets.txt'}",
  ]
  assert main(["score", "zero-shot", *score[:2], "--out", str(work / "scores2"), *labels]) == 0


def test_embeddings_are_scored_by_clip_score(work, small_parts, capsys):
  keys = "abcdefghijkl"
  rows = [
    {"image/key": key, "language": "en", "caption": f"dog {n % 5}" if n else ""} for n, key in enumerate(keys)
  ]
  (work / "ours.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
  references = [
    {"image/key": key, "language": "en", "caption": f"dog {n}"} for n, key in enumerate(keys[::-1])
  ]
  (work / "references.jsonl").write_text("".join(json.dumps(row) + "\n" for row in references))
  out = work / "out"
  pictures = [f"--images={work / 'images'}", f"--captions={work / 'references.jsonl'}"]
  assert embed(work, *pictures, f"--predictions={work / 'ours.jsonl'}", "--prefix=a photo of ") == 0
  found = [
    json.loads(line)["caption"] for line in (out / "predictions" / "en.jsonl").read_text().splitlines()
  ]
  assert found == ["dog 1", "dog 2", "dog 3", "dog 4", "dog 0"]  # each once, none of the empty one
  assert len((out / "captions" / "en.jsonl").read_text().splitlines()) == 12
  score = [
    "score", f"--references={work / 'references.jsonl'}", f"--predictions={work / 'ours.jsonl'}",
    "--metrics=clip_score", f"--vectors={out}", f"--out={work / 'scores'}",
  ]  # fmt: skip
  assert main(score) == 0
  row = read_system(work / "scores").statistics["en"].image_scores("clip_score")
  own = np.load(out / "captions" / "en.npy")[
    11 - np.arange(12)
  ]  # of the references "dog 11" (of a) to "dog 0" (of l)
  pictures = np.load(out / "pictures.npy")[::-1]  # their order is that of the references
  said = np.array([11 - n % 5 for n in range(12)])  # the place of "dog N" in `own`
  cosines = (own[said].astype(np.float64) * pictures).sum(1)
  np.testing.assert_allclose(row, [0, *(2.5 * np.maximum(cosines, 0))[1:]], atol=1e-5)
  card = json.loads((out / "vectors.json").read_text())
  signature = (work / "scores" / "table.md").read_text()
  assert card["model"] == "run, step 3" and card["prefix"] == "a photo of "
  assert f"weights={card['weights']},preprocessing=16 px" in signature and "prefix='a photo of '" in signature


def test_embed_weights_hash_changes_with_weights(work, run):
  hashes = []
  for folder in ("run", "other"):
    if folder == "other":
      shutil.copytree(run, work / "other")
      held = json.loads((work / "other" / "model.json").read_text())
      held["vit"]["image_mean"] = [0.4, 0.4, 0.4]
      (work / "other" / "model.json").write_text(json.dumps(held))
    options = [
      f"--model_dir={work / folder}",
      f"--out={work / folder}-out",
      f"--labels={work / 'labels.json'}",
    ]
    assert main(["embed", *options]) == 0
    hashes.append(json.loads((work / f"{folder}-out" / "vectors.json").read_text())["weights"])
  assert hashes[0] != hashes[1] and all(each.startswith("sha256:") for each in hashes)


@pytest.fixture
def small_parts(monkeypatch):
  monkeypatch.setattr(embed_lib, "_PART", {"pictures": 5, "captions": 9, "predictions": 2, "labels": 2})


def test_killed_embed_resumes_with_the_same_bytes(work, small_parts, monkeypatch, capsys):
  texts = json.loads((work / "captions.json").read_text())
  texts["captions"]["en"][0] = ["dog " * 80]  # it is cut, and counted in embeddings.json
  (work / "captions.json").write_text(json.dumps(texts))
  assert embed(work, *everything(work)) == 0
  assert "texts of more than 64 pieces, which were cut: 1" in capsys.readouterr().err
  whole = contents(work / "out")

  made = embedder.DualEmbedder.pictures
  calls = []

  def stopped(self, paths, read):
    calls.append(paths)
    if len(calls) == 2:
      raise KeyboardInterrupt
    return made(self, paths, read)

  (work / "out").rename(work / "first")
  monkeypatch.setattr(embedder.DualEmbedder, "pictures", stopped)
  assert embed(work, *everything(work)) == 130
  assert embed(work, *everything(work)) == 0
  assert [len(paths) for paths in calls] == [5, 5, 5, 2]
  assert contents(work / "out") == whole
  capsys.readouterr()
  assert embed(work, *everything(work)) == 0
  assert "holds these embeddings already" in capsys.readouterr().err


def test_embed_is_the_same_for_any_part_size(work, monkeypatch, request):
  assert embed(work, *everything(work)) == 0
  (work / "out").rename(work / "whole")
  request.getfixturevalue("small_parts")
  assert embed(work, *everything(work)) == 0
  for path in (work / "whole").rglob("*.npy"):
    np.testing.assert_allclose(
      np.load(work / "out" / path.relative_to(work / "whole")), np.load(path), atol=1e-6
    )


def launched(work, *options):
  """`xmcap embed` in two processes; returns the exit code, and what they said."""
  command = [sys.executable, "-m", "xmcap.cli", "launch", "local", "--processes=2", "--devices=1", "--", "embed",
             f"--model_dir={work / 'run'}", f"--out={work / 'out'}", *options]  # fmt: skip
  ended = subprocess.run(
    command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300
  )
  return ended.returncode, ended.stdout


@pytest.mark.slow
def test_embed_with_two_processes_equals_one(work):
  assert embed(work, *everything(work)) == 0
  (work / "out").rename(work / "one")

  picture = (work / "images" / "e.png").read_bytes()
  (work / "images" / "e.png").write_bytes(b"no picture")
  code, said = launched(work, *everything(work))
  assert code == 1 and "e.png" in said, said  # after the texts
  parts = sorted(path.name for path in (work / "out" / ".build").glob("*.npz"))
  assert [name.partition("-")[0] for name in parts] == ["captions", "captions", "labels", "labels"]
  (work / "images" / "e.png").write_bytes(picture)
  code, said = launched(work, *everything(work))
  assert code == 0 and "embeddings are ready" in said, said
  names = {path.relative_to(work / "one") for path in (work / "one").rglob("*") if path.is_file()}
  assert names == {path.relative_to(work / "out") for path in (work / "out").rglob("*") if path.is_file()}
  for name in names:
    one, two = work / "one" / name, work / "out" / name
    if name.suffix == ".npy":
      np.testing.assert_allclose(np.load(two), np.load(one), atol=1e-6)
    else:
      assert one.read_bytes() == two.read_bytes()


def test_embed_of_images_has_keys_of_file_names(work):
  assert embed(work, f"--images={work / 'images'}") == 0
  assert (work / "out" / "keys.txt").read_text().split() == list("abcdefghijkl")


@pytest.mark.parametrize(
  ("options", "message"),
  [
    ([], "nothing to embed: give --images, --captions, --predictions, --labels, --corpus or --features"),
    (["--images=images", "--predictions=absent.jsonl"], "absent.jsonl"),
    (["--prompts=prompts.json", "--images=images"], "--prompts are for names of classes: give --labels too"),
    (["--labels=labels.json", "--languages=th"], "no labels in th"),
    (["--images=empty"], "empty"),
    (["--labels=labels.json", "--step=7"], "7"),
  ],
)
def test_embed_usage_errors_are_one_line(work, monkeypatch, capsys, options, message):
  monkeypatch.chdir(work)
  (work / "empty").mkdir()
  assert embed(work, *options) != 0
  error = capsys.readouterr().err
  assert message in error and error.count("\n") == 1 and error.startswith("xmcap: error: ")


@pytest.mark.parametrize(
  ("name", "content", "message"),
  [
    ("prompts", {"EN": ["a dog"]}, "'EN', prompt 0 ('a dog'): has {} 0 times"),
    ("prompts", {"EN": ["a {}", "{} and {}"]}, "'EN', prompt 1 ('{} and {}'): has {} 2 times"),
    ("prompts", {"englisch": ["a {}"]}, "unknown language 'englisch'"),
    ("labels", {"EN": [[0, 0], ["dog", "cat"]]}, "index 0 is repeated"),
    ("labels", {"EN": [[0, -1], ["dog", "cat"]]}, "index -1 is out of range"),
    ("labels", {"EN": [[0, 1], ["dog"]]}, "2 indices and 1 label"),
    ("labels", {"EN": [[0, 1], ["dog", " "]]}, "the label of class 1 is empty"),
    ("labels", {"DE": [[0, 1], ["Hund", "\u2581"]]}, "labels of 'de', from 0: text 1"),
    ("captions", {"images": ["a"], "captions": {"en": [["\u2581"]]}}, "captions of 'en', from 0: text 0"),
  ],
)
def test_embed_input_errors_are_one_line(work, capsys, name, content, message):
  (work / f"{name}.json").write_text(json.dumps(content))
  assert embed(work, *everything(work)[1:]) == 2
  errors = [line for line in capsys.readouterr().err.splitlines() if "error" in line]
  assert len(errors) == 1 and message in errors[0] and errors[0].startswith("xmcap: error: "), errors


def test_a_captioner_is_refused(work, capsys):
  file = work / "run" / "model.json"
  held = json.loads(file.read_text())
  del held["dual"]
  file.write_text(json.dumps(held))
  assert embed(work, f"--labels={work / 'labels.json'}") == 2
  assert "holds no dual tower: give a run of runs/contrastive.gin or runs/w2vv.gin" in capsys.readouterr().err


def test_other_texts_in_the_same_folder_are_refused(work, capsys):
  assert embed(work, f"--labels={work / 'labels.json'}") == 0
  assert embed(work, f"--captions={work / 'captions.json'}") == 2
  assert "contains embeddings with captions=" in capsys.readouterr().err


def test_a_missing_picture_of_a_caption_is_named(work, capsys):
  (work / "images" / "c.png").unlink()
  assert embed(work, f"--images={work / 'images'}", f"--captions={work / 'captions.json'}") == 2
  assert "no pictures of c, which" in capsys.readouterr().err


def test_embed_pool_of_sentences_for_annotators(work):
  """As COCO-CN's annotators saw them: a text of sentences, a folder of pictures, and no pairs of them."""
  pool, top = work / "pool.txt", work / "top.jsonl"
  pool.write_text("".join(f"dog {n}\n" for n in range(9)))
  assert embed(work, f"--captions={pool}", "--language=en") == 0
  photos = ["embed", f"--model_dir={work / 'run'}", f"--out={work / 'photos'}", f"--images={work / 'images'}"]
  assert main(photos) == 0
  read = [
    f"--queries={work / 'photos'}",
    f"--candidates={work / 'out/captions/en.npy'}",
    f"--sentences={pool}",
  ]
  assert main(["retrieval", "top", *read, "--language=en", f"--out={top}"]) == 0
  rows = [json.loads(line) for line in top.read_text().splitlines()]
  pictures, texts = np.load(work / "photos/pictures.npy"), np.load(work / "out/captions/en.npy")
  best = np.argsort(-(pictures[0] @ texts.T), kind="stable")[:5]
  assert [row["caption"] for row in rows[:5]] == [f"dog {n}" for n in best] and len(rows) == 5 * 12
  page = ["human", "annotate", f"--images={work / 'images'}", "--language=en", "--sentences", str(top)]
  assert main([*page, f"--out={work / 'page'}"]) == 0
