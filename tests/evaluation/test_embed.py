"""`xmcap embed` on the folder of a small run, and `xmcap score` of its files."""

import json
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

from tests.make import files, models
from tests.make.command import xmcap
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
    picture = Image.fromarray(rng.integers(255, size=(16, 16, 3), dtype=np.uint8))
    picture.save(tmp_path / "images" / f"{key}.png")
  captions = {"en": [[f"dog {n}"] for n in range(12)], "de": [[f"Hund {n}", "Hund"] for n in range(12)]}
  files.json(tmp_path / "captions.json", {"images": list("lkjihgfedcba"), "captions": captions})
  labels = {"EN": [[0, 1, 2], ["dog", "cat", "owl"]], "DE": [[0, 2], ["Hund", "Eule"]]}
  files.json(tmp_path / "labels.json", labels)
  files.json(tmp_path / "prompts.json", {"EN": ["a {}", "the {}"]})
  return tmp_path


def embed(work, *options, run="run", out="out"):
  return xmcap("embed", f"--model_dir={work / run}", f"--out={work / out}", *options)


def everything(work):
  return [f"--{name}={work / name}.json" for name in ("captions", "labels", "prompts")] + [
    f"--images={work / 'images'}"
  ]


def contents(folder):
  return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_embed_files_are_read_by_retrieval_and_zero_shot_scores(work):
  embed(work, *everything(work)).succeeded()
  out = work / "out"
  assert (out / "keys.txt").read_text().split() == list("lkjihgfedcba")  # in the order of the captions
  assert np.load(out / "pictures.npy").shape == (12, 8)
  assert np.load(out / "captions" / "de.npy").shape == (24, 8)
  assert np.load(out / "labels" / "de.npy").shape == (2, 8)
  assert not list(out.glob(".build"))
  files.lines(work / "targets.txt", *[0, 2] * 6)
  for command, options in {
    "retrieval": [f"--captions={work / 'captions.json'}", f"--texts={out / 'captions'}"],
    "zero-shot": [f"--labels={work / 'labels.json'}", f"--texts={out / 'labels'}", f"--targets={work / 'targets.txt'}"],
  }.items():  # fmt: skip
    pictures = f"--pictures={out / 'pictures.npy'}"
    xmcap("score", command, pictures, f"--out={work / command}", *options).succeeded()


def test_embeddings_are_scored_by_clip_score(work, small_parts):
  keys = "abcdefghijkl"
  files.captions(
    work / "ours.jsonl", {key: {"en": f"dog {n % 5}" if n else ""} for n, key in enumerate(keys)}
  )
  files.captions(work / "references.jsonl", {key: {"en": f"dog {n}"} for n, key in enumerate(keys[::-1])})
  out = work / "out"
  pictures = [f"--images={work / 'images'}", f"--captions={work / 'references.jsonl'}"]
  embed(work, *pictures, f"--predictions={work / 'ours.jsonl'}", "--prefix=a photo of ").succeeded()
  texts = (out / "predictions" / "en.jsonl").read_text().splitlines()
  # Each once, none of the empty one.
  assert [json.loads(line)["caption"] for line in texts] == ["dog 1", "dog 2", "dog 3", "dog 4", "dog 0"]
  assert len((out / "captions" / "en.jsonl").read_text().splitlines()) == 12
  xmcap(
    "score", f"--references={work / 'references.jsonl'}", f"--predictions={work / 'ours.jsonl'}",
    "--metrics=clip_score", f"--vectors={out}", f"--out={work / 'scores'}",
  ).succeeded()  # fmt: skip
  row = read_system(work / "scores").statistics["en"].image_scores("clip_score")
  # Of the references "dog 11" (of a) to "dog 0" (of l).
  references = np.load(out / "captions" / "en.npy")[11 - np.arange(12)]
  pictures = np.load(out / "pictures.npy")[::-1]  # their order is that of the references
  said = np.array([11 - n % 5 for n in range(12)])  # the place of "dog N" in `references`
  cosines = (references[said].astype(np.float64) * pictures).sum(1)
  np.testing.assert_allclose(row, [0, *(2.5 * np.maximum(cosines, 0))[1:]], atol=1e-5)
  card = json.loads((out / "vectors.json").read_text())
  signature = (work / "scores" / "table.md").read_text()
  assert card["model"] == "run, step 3" and card["prefix"] == "a photo of "
  assert f"weights={card['weights']},preprocessing=16 px" in signature and "prefix='a photo of '" in signature


def edit_model(work, change):
  path = work / "run" / "model.json"
  values = json.loads(path.read_text())
  change(values)
  files.json(path, values)


def test_embed_weights_hash_changes_with_weights(work):
  hashes = []
  for out in ("before", "after"):
    embed(work, f"--labels={work / 'labels.json'}", out=out).succeeded()
    hashes.append(json.loads((work / out / "vectors.json").read_text())["weights"])
    edit_model(work, lambda values: values["vit"].update(image_mean=[0.4, 0.4, 0.4]))
  assert hashes[0] != hashes[1] and all(name.startswith("sha256:") for name in hashes)


@pytest.fixture
def small_parts(monkeypatch):
  monkeypatch.setattr(embed_lib, "_PART", {"pictures": 5, "captions": 9, "predictions": 2, "labels": 2})


def test_killed_embed_resumes_with_the_same_bytes(work, small_parts, monkeypatch):
  texts = json.loads((work / "captions.json").read_text())
  texts["captions"]["en"][0] = ["dog " * 80]  # it is cut, and counted in embeddings.json
  files.json(work / "captions.json", texts)
  embed(work, *everything(work)).succeeded("texts of more than 64 pieces, which were cut: 1")
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
  assert embed(work, *everything(work)).code == 130
  embed(work, *everything(work)).succeeded()
  assert [len(paths) for paths in calls] == [5, 5, 5, 2]
  assert contents(work / "out") == whole
  embed(work, *everything(work)).succeeded("holds these embeddings already")


def test_embed_is_the_same_for_any_part_size(work, request):
  embed(work, *everything(work), out="whole").succeeded()
  request.getfixturevalue("small_parts")
  embed(work, *everything(work)).succeeded()
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


@pytest.mark.full  # tests/evaluation/test_parts.py divides parts among processes
@pytest.mark.slow
def test_embed_with_two_processes_equals_one(work):
  embed(work, *everything(work), out="one").succeeded()
  picture = (work / "images" / "e.png").read_bytes()
  (work / "images" / "e.png").write_bytes(b"no picture")
  code, said = launched(work, *everything(work))
  assert code == 1 and "e.png" in said, said  # after the texts
  parts = sorted(path.name for path in (work / "out" / ".build").glob("*.npz"))
  assert [name.partition("-")[0] for name in parts] == ["captions", "captions", "labels", "labels"]
  (work / "images" / "e.png").write_bytes(picture)
  code, said = launched(work, *everything(work))
  assert code == 0 and "embeddings are ready" in said, said
  one, two = contents(work / "one"), contents(work / "out")
  assert one.keys() == two.keys()
  for name in one:
    if name.endswith(".npy"):
      np.testing.assert_allclose(np.load(work / "out" / name), np.load(work / "one" / name), atol=1e-6)
    else:
      assert one[name] == two[name]


def test_embed_of_images_has_keys_of_file_names(work):
  embed(work, f"--images={work / 'images'}").succeeded()
  assert (work / "out" / "keys.txt").read_text().split() == list("abcdefghijkl")


@pytest.mark.parametrize(
  ("options", "message"),
  [
    ([], "nothing to embed: give --images, --captions, --predictions, --labels, --corpus or --features"),
    (["--images=images", "--predictions=absent.jsonl"], "absent.jsonl"),
    (["--prompts=prompts.json", "--images=images"], "--prompts are for names of classes: give --labels too"),
    (["--labels=labels.json", "--languages=th"], "no labels in th"),
    (["--images=empty"], "empty"),
    (["--labels=labels.json", "--step=7"], "holds no checkpoint of step 7: it has 3"),
    (["--images=fewer", "--captions=captions.json"], "no pictures of "),
  ],
)
def test_embed_usage_errors_are_one_line(work, monkeypatch, options, message):
  monkeypatch.chdir(work)
  (work / "empty").mkdir()
  (work / "fewer").mkdir()
  shutil.copy("images/c.png", "fewer")
  embed(work, *options).refused(message)


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
def test_embed_input_errors_are_one_line(work, name, content, message):
  files.json(work / f"{name}.json", content)
  embed(work, *everything(work)[:-1]).refused(message)


def test_a_captioner_is_refused(work):
  edit_model(work, lambda values: values.pop("dual"))
  embed(work, f"--labels={work / 'labels.json'}").refused(
    "holds no dual tower: give a run of runs/contrastive.gin or runs/w2vv.gin"
  )


def test_other_texts_in_the_same_folder_are_refused(work):
  embed(work, f"--labels={work / 'labels.json'}").succeeded()
  embed(work, f"--captions={work / 'captions.json'}").refused("contains embeddings with captions=")


def test_embed_pool_of_sentences_for_annotators(work):
  """As COCO-CN's annotators saw them: a text of sentences, a folder of pictures, and no pairs of them."""
  pool, top = files.lines(work / "pool.txt", *(f"dog {n}" for n in range(9))), work / "top.jsonl"
  embed(work, f"--captions={pool}", "--language=en").succeeded()
  embed(work, f"--images={work / 'images'}", out="photos").succeeded()
  xmcap(
    "retrieval", "top", f"--queries={work / 'photos'}", f"--candidates={work / 'out/captions/en.npy'}",
    f"--sentences={pool}", "--language=en", f"--out={top}",
  ).succeeded()  # fmt: skip
  rows = files.rows(top)
  pictures, texts = np.load(work / "photos/pictures.npy"), np.load(work / "out/captions/en.npy")
  best = np.argsort(-(pictures[0] @ texts.T), kind="stable")[:5]
  assert [row["caption"] for row in rows[:5]] == [f"dog {n}" for n in best] and len(rows) == 5 * 12
  page = ["--language=en", "--sentences", top, f"--out={work / 'page'}"]
  xmcap("human", "annotate", f"--images={work / 'images'}", *page).succeeded()
