"""Embeddings in another row order than the captions, images or labels that they are scored with."""

import json

import numpy as np
import pytest

from tests.make import files
from tests.make.command import xmcap
from xmcap.ranked import retrieval, row_order, zero_shot

_PICTURES, _EACH = 40, 3


@pytest.fixture
def folder(tmp_path):
  """Pictures with three captions each, which a good model finds; COCO's annotations are not sorted by picture."""
  rng = np.random.default_rng(3)
  pictures = rng.normal(size=(_PICTURES, 32)).astype(np.float32)
  image = np.repeat(np.arange(_PICTURES), _EACH)
  texts = (pictures[image] + 0.5 * rng.normal(size=(len(image), 32))).astype(np.float32)
  captions = [f"caption {row}" for row in range(len(image))]
  (tmp_path / "texts").mkdir()
  np.save(tmp_path / "pictures.npy", pictures)
  np.save(tmp_path / "texts/en.npy", texts)
  annotations = [
    {"id": row, "image_id": int(image[row]), "caption": captions[row]} for row in range(len(image))
  ]
  images = [{"id": number} for number in range(_PICTURES)]
  document = {"images": images, "annotations": [annotations[row] for row in rng.permutation(len(image))]}
  (tmp_path / "coco.json").write_text(json.dumps(document))
  lines = [
    {"image/key": f"{number}", "language": "en", "caption": captions[number * _EACH : (number + 1) * _EACH]}
    for number in range(_PICTURES)
  ]
  files.jsonl(tmp_path / "captions.jsonl", *lines)
  return tmp_path


def _run(folder, captions="captions.jsonl", *more):
  options = [
    f"--pictures={folder / 'pictures.npy'}",
    f"--captions={folder / captions}",
    f"--texts={folder / 'texts'}",
  ]
  return xmcap("score", "retrieval", *options, f"--out={folder / 'out'}", "--language=en", *more)


def _score(folder, captions="captions.jsonl", *more):
  _run(folder, captions, *more).succeeded()
  table = json.loads((folder / "out/table.json").read_text())
  return table["languages"]["en"]["t2i_r1"], [note for note in table["notes"] if "median" not in note]


def _reorder(folder, rows, lines=None):
  texts = np.load(folder / "texts/en.npy")
  np.save(folder / "texts/en.npy", texts[rows])
  if lines is not None:
    held = [f"caption {row}" for row in lines]
    files.jsonl(folder / "texts/en.jsonl", *({"caption": text} for text in held))


_FIRST_CAPTIONS_FIRST = np.arange(_PICTURES * _EACH).reshape(_PICTURES, _EACH).T.ravel()


@pytest.mark.parametrize("more", [(), ("--captions_per_image=first",)])
def test_embedding_order_of_all_first_captions_first_is_detected(folder, more):
  assert _score(folder, "captions.jsonl", *more)[1] == []
  right = _score(folder)[0]
  _reorder(folder, _FIRST_CAPTIONS_FIRST)
  share, (note,) = _score(folder, "captions.jsonl", *more)
  assert share < 4 / _PICTURES
  assert note.startswith(
    "R@1 text to image is near chance, but not with the texts in the order 'all first captions"
  )
  assert f"and {right:.1%} in that order" in note


def test_embedding_order_of_coco_annotations_is_detected(folder):
  document = json.loads((folder / "coco.json").read_text())
  rows = [annotation["id"] for annotation in document["annotations"]]
  _reorder(folder, rows)
  # Captions of a picture are read in the order of the annotations.
  share, (note,) = _score(folder, "coco.json")
  assert share < 4 / _PICTURES and "in the order of the file's annotations" in note


def test_unknown_embedding_order_is_warned_of(folder):
  _reorder(folder, np.random.default_rng(0).permutation(_PICTURES * _EACH))
  _, (note,) = _score(folder)
  assert note.startswith("R@1 is near chance, text to image and image to text (en ")
  assert note.endswith(
    "rows are in another order than pictures and captions, or the model does not read the language"
  )


@pytest.mark.parametrize(
  "lines, message",
  [
    (_FIRST_CAPTIONS_FIRST, "en.jsonl, line 2: the row is of 'caption 3', but 'caption 1' is scored there"),
    (range(125), "en.jsonl, line 121: the row is of 'caption 120', but 'nothing' is scored there"),
    (range(120), ""),
  ],
)
def test_captions_txt_beside_embeddings_must_match(folder, lines, message):
  _reorder(folder, np.arange(120), lines)
  result = _run(folder)
  if message:
    result.refused(message)
  else:
    result.succeeded()


def test_keys_txt_beside_image_embeddings_must_match(folder):
  keys = [f"{number}" for number in range(_PICTURES)]
  files.lines(folder / "keys.txt", *keys)
  _run(folder).succeeded()
  files.lines(folder / "keys.txt", *reversed(keys))
  _run(folder).refused("keys.txt, line 1: the row is of '39', but '0' is scored there")
  files.lines(folder / "keys.txt", *(f"{key}.jpg" for key in keys))  # in another spelling: nothing is known
  _run(folder).succeeded()


def test_embedding_orders_with_varying_captions_per_image():
  images = np.array([0, 0, 0, 1, 2, 2])
  ((_, rows),) = row_order.others(images, None)
  # First captions of pictures 0, 1, 2, then second ones of 0 and 2, then the third one of 0.
  assert rows.tolist() == [0, 3, 5, 1, 2, 4]
  assert list(row_order.others(np.arange(4), None)) == []


def test_label_embeddings_in_another_order_are_warned_of():
  rng = np.random.default_rng(0)
  names, targets = rng.normal(size=(40, 16)).astype(np.float32), np.arange(400) % 40
  pictures = names[targets] + 0.1 * rng.normal(size=(400, 16)).astype(np.float32)
  labels = {"de": zero_shot.Labels(np.arange(40), tuple(f"Ding {number}" for number in range(40)))}
  right = zero_shot.score_zero_shot(pictures, targets, labels, {"de": lambda: names})
  wrong = zero_shot.score_zero_shot(pictures, targets, labels, {"de": lambda: np.roll(names, 7, axis=0)})
  assert not any("near chance" in note for note in right.table.notes)
  assert any(note.startswith("top-1 is near chance (de 0.0% of 40 classes)") for note in wrong.table.notes)


def test_embeddings_in_order_are_not_warned_of():
  rng = np.random.default_rng(0)
  captions = {"en": retrieval.CaptionRows(np.arange(40), tuple(map(str, range(40))))}
  pictures, texts = rng.normal(size=(2, 40, 8)).astype(np.float32)
  for is_ordered in (False, True):
    keys = [f"{number}" for number in range(40)]
    result = retrieval.score_retrieval(pictures, keys, captions, {"en": lambda: texts}, is_ordered=is_ordered)
    assert any("near chance" in note for note in result.table.notes) != is_ordered
