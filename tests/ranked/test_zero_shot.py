"""`xmcap score zero-shot`, from files to tables, and what it refuses."""

import csv
import json
import pickle

import numpy as np
import pytest

from tests import lazily
from tests.make import files
from tests.make.command import xmcap
from tests.options import changed
from tests.ranked.tables import table
from tests.scoring import embeddings
from xmcap.ranked import zero_shot
from xmcap.reading import embedding_files

metrics = lazily.Module("sklearn.metrics")


def _run(options, out, *more):
  return xmcap("score", "zero-shot", *options, f"--out={out}", *more)


@pytest.fixture
def options(tmp_path):
  return embeddings.zero_shot(tmp_path / "in")


def _unit(array):
  return array / np.linalg.norm(array, axis=-1, keepdims=True)


def test_zero_shot_top1_equals_scikit_learn(options, tmp_path):
  _run(options, tmp_path / "out").succeeded("Top-1")
  written = table(tmp_path / "out")
  pictures = _unit(np.load(tmp_path / "in/pictures.npy"))
  targets = np.arange(120) % 12
  for code, (indices, _) in json.loads((tmp_path / "in/labels.json").read_text()).items():
    texts = _unit(np.load(tmp_path / f"in/texts/{code.lower()}.npy").astype(np.float32))
    chosen = np.isin(targets, indices)
    expected = metrics.top_k_accuracy_score(targets[chosen], pictures[chosen] @ texts.T, k=1, labels=indices)
    row = written["languages"][code.lower()]
    assert row["top1"] == pytest.approx(expected, abs=1e-12) and 0.1 < expected < 1
    assert (row["images"], row["classes"]) == (chosen.sum(), len(indices))
  assert written["means"] == {
    "1 language without en": {name: written["languages"]["de"][name] for name in written["metrics"]}
  }


def test_zero_shot_prompt_ensemble_is_normalized_and_averaged(options, tmp_path):
  rng = np.random.default_rng(5)
  prompts = rng.normal(size=(3, 12, 16)) * np.array([1, 10, 100])[:, None, None]
  np.save(tmp_path / "in/texts/en.npy", prompts.astype(np.float32))
  _run(options, tmp_path / "out", "--languages=en", "--prompts=3 of mine").succeeded()
  written = table(tmp_path / "out")
  texts = _unit(_unit(prompts).mean(axis=0))
  scores = _unit(np.load(tmp_path / "in/pictures.npy")) @ texts.T
  expected = (scores.argmax(axis=1) == np.arange(120) % 12).mean()
  assert written["languages"]["en"]["top1"] == pytest.approx(expected)
  assert "prompts:3 of mine" in written["signature"]


def test_zero_shot_dot_similarity_does_not_normalize(options, tmp_path):
  texts = np.load(tmp_path / "in/texts/en.npy")
  texts[4] *= 100
  np.save(tmp_path / "in/texts/en.npy", texts)
  shares = {}
  for similarity in ("cosine", "dot"):
    out = tmp_path / similarity
    _run(options, out, "--languages=en", f"--similarity={similarity}").succeeded()
    held = table(out)
    shares[similarity] = held["languages"]["en"]["top1"]
    assert f"similarity:{similarity}" in held["signature"]
  assert shares["dot"] < shares["cosine"]


def test_zero_shot_fixed_classes_is_the_mean_over_draws(options, tmp_path):
  _run(options, tmp_path / "out", "--fixed_classes=8", "--fixed_draws=200").succeeded()
  rows = table(tmp_path / "out")["languages"]
  assert rows["de"]["top1_fixed"] == rows["de"]["top1"]
  assert rows["en"]["top1_fixed"] > rows["en"]["top1"]
  # Among all draws of 8 of 12 classes, the expectation is over every subset that holds the class.
  pictures, texts = _unit(np.load(tmp_path / "in/pictures.npy")), _unit(np.load(tmp_path / "in/texts/en.npy"))
  scores, rng, hits = pictures @ texts.T, np.random.default_rng(9), []
  for _ in range(2000):
    drawn = rng.choice(12, 8, replace=False)
    chosen = np.isin(np.arange(120) % 12, drawn)
    hits += (drawn[scores[chosen][:, drawn].argmax(axis=1)] == (np.arange(120) % 12)[chosen]).tolist()
  assert rows["en"]["top1_fixed"] == pytest.approx(np.mean(hits), abs=0.02)


def test_zero_shot_languages_are_grouped_by_number_of_classes():
  counts = {"en": 1000, "xh": 35, "mi": 100, "da": 101, "sk": 333, "pt": 667, "ru": 666}
  from xmcap.scoring.statistics import means

  groups = means.mean_groups({code: {"classes": count} for code, count in counts.items()})
  assert groups == {
    "1 to 100 classes": ("xh", "mi"),
    "101 to 333 classes": ("da", "sk"),
    "334 to 666 classes": ("ru",),
    "over 666 classes": ("pt",),
    "6 languages without en": ("xh", "mi", "da", "sk", "pt", "ru"),
  }


def test_zero_shot_classes_of_equal_names_tie_and_are_noted(options, tmp_path):
  labels = json.loads((tmp_path / "in/labels.json").read_text())
  labels["EN"][1][3] = labels["EN"][1][4]
  (tmp_path / "in/labels.json").write_text(json.dumps(labels))
  texts = np.load(tmp_path / "in/texts/en.npy")
  texts[3] = texts[4]
  np.save(tmp_path / "in/texts/en.npy", texts)
  _run(options, tmp_path / "out", "--languages=en").succeeded()
  notes = table(tmp_path / "out")["notes"]
  assert any("1 label in 1 language" in note for note in notes)
  assert any("expected value" in note for note in notes)


def test_zero_shot_classes_csv_lists_confusions(tmp_path):
  options = embeddings.zero_shot(tmp_path / "in", seed=1)
  _run(options, tmp_path / "out").succeeded()
  lines = (tmp_path / "out/classes.csv").read_text().splitlines()
  assert lines[0] == "language,class,label,images,top1,confused_with" and len(lines) == 1 + 12 + 8
  names = json.loads((tmp_path / "in/labels.json").read_text())["EN"][1]
  texts = _unit(np.load(tmp_path / "in/texts/en.npy").astype(np.float32))
  predicted = (_unit(np.load(tmp_path / "in/pictures.npy")) @ texts.T).argmax(axis=1)
  wrong = metrics.confusion_matrix(np.arange(120) % 12, predicted) * (1 - np.eye(12, dtype=int))
  named = [row["confused_with"] for row in csv.DictReader(lines) if row["language"] == "en"]
  for name, counts in zip(named, wrong, strict=True):
    assert name in (
      {names[place] for place in np.flatnonzero(counts == counts.max())} if counts.any() else {""}
    )
  assert names[0] in named


def test_zero_shot_comparison_refuses_other_targets(options, tmp_path):
  others = embeddings.zero_shot(tmp_path / "other", noise=0.1, seed=1)
  _run(options, tmp_path / "a", "--bootstrap=50").succeeded()
  _run(others, tmp_path / "b").succeeded()
  result = xmcap("compare", tmp_path / "a", tmp_path / "b", "--resamples=200")
  assert "few" not in result.succeeded("Top-1: b against a", "candidates held fixed").out
  cell = table(tmp_path / "a")["languages"]["en"]["top1"]
  assert cell["low"] < cell["score"] < cell["high"]
  (tmp_path / "other/targets.txt").write_text("\n".join(["1", "0", *map(str, np.arange(2, 120) % 12)]))
  _run(others, tmp_path / "c").succeeded()
  xmcap("compare", str(tmp_path / "a"), str(tmp_path / "c")).refused("targets")


def _npy(name, **changes):
  def change(folder):
    array = np.load(folder / name)
    for row, value in changes.get("rows", {}).items():
      array[row] = value
    np.save(folder / name, array[..., : changes.get("width")])

  return change


def _labels(code, indices, names):
  return lambda folder: files.json(folder / "labels.json", {code: [indices, names]})


def _array(name, array):
  return lambda folder: np.save(folder / name, array)


def _text(name, content):
  return lambda folder: files.text(folder / name, content)


def _both_names_of_filipino(folder):
  files.json(folder / "labels.json", dict.fromkeys(("TL", "FIL"), [[0, 1], ["a", "b"]]))


def _claims_a_terabyte(folder):
  header = {"descr": "<i8", "fortran_order": False, "shape": (2**37,)}
  with open(folder / "targets.npy", "wb") as file:
    np.lib.format.write_array_header_1_0(file, header)


@pytest.mark.parametrize(
  "change, message",
  [
    (_npy("pictures.npy", rows={3: np.nan}), "pictures.npy, row 3: holds NaN"),
    (_npy("pictures.npy", rows={5: 0}), "pictures, row 5: an embedding of length 0"),
    (_npy("texts/en.npy", width=9), "texts of en: width 9, but pictures: width 16"),
    (_npy("texts/de.npy", rows={2: np.inf}), "texts/de.npy, row 2: holds NaN or infinity"),
    (_labels("EN", [0, 1, 1], ["a", "b", "c"]), "index 1 is repeated"),
    (_text("labels.json", "{}"), "has no labels"),
    (_labels("EN", [0, -1], ["a", "b"]), "index -1 is out of range"),
    (_labels("EN", [0, 1], ["a", "b", "c"]), "2 indices and 3 labels"),
    (_labels("EN", [0, 1], ["a", " "]), "the label of class 1 is empty"),
    (_labels("EN", [1, 0], ["a", "b"]), "indices are not ascending"),
    (_labels("EN", [0, 10**6], ["a", "b"]), "index 1000000 is out of range"),
    (_labels("EN", [0], ["a"]), "needs at least 2 classes, but there are 1"),
    (_labels("filipiny", [0, 1], ["a", "b"]), "unknown language 'filipiny'"),
    (_both_names_of_filipino, "the language 'fil' occurs twice"),
    (_array("targets.npy", np.arange(120) - 1), "targets.npy: an index is out of range"),
    (_array("targets.npy", np.ones(120)), "holds float64 [120]; targets must be integers"),
    (_array("targets.npy", np.array([{}])), "targets.npy holds Python objects"),
    (_claims_a_terabyte, "which does not match its shape"),
    (_labels("EN", [0, 1], ["a", "b"]), "class 11 is out of range; the labels end at 1"),
    (_labels("EN", list(range(11)) + [20], ["a"] * 12), None),
    (_labels("EN", [0, 11], ["a", "b"]), "12 embeddings for 2 labels"),
    (_labels("XX", [0, 1], ["a", "b"]), "unknown language 'XX'"),
    (_labels("EN", ["0", 1], ["a", "b"]), "not a file of labels"),
    (_text("targets.txt", "1\nx\n"), "line 2: 'x' is not a class index"),
    (_text("targets.txt", "1\n"), "1 target for 120 pictures"),
    (lambda folder: (folder / "texts/de.npy").unlink(), "no embeddings of the labels in de"),
    (_array("pictures.npy", np.array([{}])), "a pickle"),
    (_text("pictures.npy", b"PK"), "no valid numpy header"),
    (_array("pictures.npy", np.ones((120, 16), int)), "dtype int64"),
    (_array("pictures.npy", np.ones(16, np.float32)), "has shape [16]"),
    (_text("texts/xx.npy", b""), "unknown language 'xx'"),
  ],
)
def test_zero_shot_input_errors_are_one_line(options, tmp_path, change, message):
  change(tmp_path / "in")
  if (tmp_path / "in/targets.npy").exists():
    options = changed(options, [f"--targets={tmp_path / 'in/targets.npy'}"])
  result = _run(options, tmp_path / "out")
  if message is None:
    result.succeeded()
  else:
    result.refused(message)
    assert not (tmp_path / "out/table.json").exists()


@pytest.mark.parametrize("name, code", [("tl", "fil"), ("JA", "ja")])
def test_zero_shot_refuses_a_language_alias_and_names_the_code(options, tmp_path, name, code):
  _run(options, tmp_path / "out", f"--languages={name}").refused(f"'{name}'", f"'{code}'")


@pytest.mark.parametrize("name", ["pictures.npy", "texts/en.npy"])
def test_zero_shot_refuses_a_pickle_of_any_name(options, tmp_path, name):
  files.text(tmp_path / "in" / name, pickle.dumps(np.ones((120, 16), np.float32)))
  _run(options, tmp_path / "out").refused("a pickle", name)


def test_zero_shot_safetensors_by_language_and_aliases(tmp_path):
  from safetensors.numpy import save_file

  save_file(
    {"TL": np.ones((2, 3), np.float16), "pt-br": np.ones((2, 3), np.float32)}, tmp_path / "texts.safetensors"
  )
  found = embedding_files.by_language(tmp_path / "texts.safetensors")
  assert sorted(found) == ["fil", "pt-BR"] and found["fil"]().dtype == np.float32


def test_zero_shot_class_draws_are_reproducible():
  drawn = zero_shot._draws("de", 300, 4, 2, 0)
  assert [part.tolist() for part in drawn] == [part.tolist() for part in zero_shot._draws("de", 300, 4, 2, 0)]
  assert [part.tolist() for part in drawn] != [part.tolist() for part in zero_shot._draws("de", 300, 4, 2, 1)]


def test_zero_shot_counts_images_not_found(options, tmp_path):
  folder = tmp_path / "images"
  files.text(folder / "7.png")
  said = f"xmcap: 1 of 120 pictures found in {folder}: give the folder with KEY.jpg or KEY.png"
  _run(options, tmp_path / "out", f"--images={folder}").succeeded(said)
  _run(options, tmp_path / "out", f"--images={folder / '7.png'}").refused("no such folder of images")


@pytest.mark.parametrize("width", [pytest.param(1300, marks=pytest.mark.full), 400])
def test_zero_shot_report_has_heat_map_and_images(options, tmp_path, page, width):
  from PIL import Image

  (tmp_path / "images").mkdir()
  for number in range(6):
    Image.new("RGB", (64, 48), (40 * number, 90, 120)).save(tmp_path / f"images/{number}.png")
  _run(options, tmp_path / "out", f"--images={tmp_path / 'images'}", "--bootstrap=20").succeeded()
  page.set_viewport_size({"width": width, "height": 900})
  page.goto((tmp_path / "out/report.html").as_uri())
  assert page.locator("#heat tbody tr").count() == 1 + 12
  assert page.locator("#heat tbody th").nth(3).text_content() == "thing 2"
  head, cell = (
    page.locator(f"#heat {place}").bounding_box() for place in ("thead th >> nth=0", "tbody td >> nth=0")
  )
  assert abs(head["x"] + head["width"] / 2 - cell["x"] - cell["width"] / 2) < 3 and head["y"] < cell["y"]
  page.locator("#heat td[data-row='2'][data-column='1']").click()  # leads nowhere, and breaks nothing
  assert page.locator("#pictures figure").count() == 3  # every second of the 120 pictures may be shown
  assert page.locator("#pictures li").first.text_content().split()[1] == "en"
  assert page.evaluate("document.documentElement.scrollWidth") <= width
  assert page.locator("#scores tbody tr").count() == 2
