"""What `bash examples/emoji100.sh` reached: top-1 of three artists' emoji in 101 languages, beside three baselines.

Baselines need no language: a tag classifier (the ViT's own pretraining), the class of the nearest training picture by
pixels, and chance.

usage: python benchmarks/emoji100.py [FOLDER]     (default: runs/emoji100, which the example fills)
"""

import json
import pathlib
import statistics
import sys

import jax
import numpy as np
import report

from xmcap.data import images
from xmcap.data.records import RecordSource, read_tags
from xmcap.families.tagging.vit_objective import Tagger
from xmcap.models import model_json
from xmcap.training.checkpoints.read import load_params

_TESTS = {
  "noto": "Noto, unseen scenes",
  "twemoji": "Twemoji, unseen artist",
  "openmoji": "OpenMoji, unseen artist",
  "held_out": "Noto, held-out classes",
}
_SLOTS = 3  # of runs/pretrain_tags.gin
_NEAREST = 5_000  # training pictures of one emoji


def main() -> None:
  """Prints and keeps a row a test."""
  folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "runs/emoji100")
  tags = {tag: number for number, tag in enumerate(read_tags(folder / "data"))}
  vit = model_json.read(folder / "tags" / model_json.NAME).config("vit")
  tagger = Tagger(vit, len(tags), _SLOTS)
  params = load_params(folder / "tags")
  labels = jax.jit(lambda batch: tagger.apply({"params": params}, batch)[1])
  seen, classes = _pictures(folder / "data", "train", tags, vit.image_size, _NEAREST)
  rows = []
  for split, heading in _TESTS.items():
    top1 = {code: row["top1"] for code, row in _scores(folder / "eval" / split).items()}
    pictures, wanted = _pictures(folder / "data", split, tags, vit.image_size)
    known = np.unique(wanted)
    by_tags = known[np.asarray(labels(pictures))[:, known].argmax(axis=1)] == wanted
    nearest = classes[_distances(pictures, seen).argmin(axis=1)] == wanted
    is_new = split == "held_out"
    rows.append(
      (
        heading,
        f"{statistics.mean(top1.values()):.1%}",
        f"{top1['en']:.1%}",
        "{1:.1%} ({0})".format(*min(top1.items(), key=lambda item: item[1])),
        "" if is_new else f"{by_tags.mean():.1%}",
        "" if is_new else f"{nearest.mean():.1%}",
        f"{1 / len(known):.1%}",
      )
    )
  retrieval = _scores(folder / "eval" / "retrieval").values()
  mean = {name: statistics.mean(row[name] for row in retrieval) for name in ("t2i_r1", "i2t_r1")}
  count = int(max(row["images"] for row in retrieval))
  for row in rows:
    print("  ".join(row))
  report.write(
    "emoji100",
    "Zero-shot classification of emoji in 101 languages",
    rows,
    columns=(
      "top-1", "mean of languages", "English", "lowest language", "tag classifier", "nearest pixels", "chance",
    ),
    notes=[
      f"Retrieval among {count:,} unseen scenes, mean of the languages: R@1 {mean['t2i_r1']:.1%} text to "
      f"image, {mean['i2t_r1']:.1%} image to text; chance is {1 / count:.1%}.",
      "A language is tested on the classes whose name differs from the English one. Chance is for all classes.",
    ],
  )  # fmt: skip


def _scores(folder: pathlib.Path) -> dict[str, dict[str, float]]:
  """Language -> column -> value of a table, without intervals."""
  rows = json.loads((folder / "table.json").read_text(encoding="utf-8"))["languages"]
  return {
    code: {name: value["score"] if isinstance(value, dict) else value for name, value in row.items()}
    for code, row in rows.items()
  }


def _pictures(folder, split, tags, size, most=None) -> tuple[np.ndarray, np.ndarray]:
  """The pictures of one emoji, uint8 [N, size, size, 3], and their classes [N]."""
  pixels, classes = [], []
  for record in RecordSource(folder, split):
    if len(record.tags) == 1:
      pixels.append(images.load(record.image, record.key, size))
      classes.append(tags[record.tags[0]])
    if most and len(pixels) == most:
      break
  return np.stack(pixels), np.array(classes)


def _distances(pictures: np.ndarray, others: np.ndarray) -> np.ndarray:
  """Squared distances, but for what is the same in a row: float32 [N, M]."""
  flat, other = (of.reshape(len(of), -1).astype(np.float32) / 255 for of in (pictures, others))
  return np.sum(other * other, axis=1) - 2 * flat @ other.T


if __name__ == "__main__":
  main()
