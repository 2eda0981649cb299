"""Small sets of embeddings for tests, written as anybody's would be."""

import json
import pathlib

import numpy as np


def zero_shot(folder: pathlib.Path, noise: float = 0.6, seed: int = 0) -> list[str]:
  """Writes 120 pictures of 12 classes, with names in en and de (8 of the classes); returns the options."""
  rng = np.random.default_rng(seed)
  centres = np.random.default_rng(7).normal(size=(12, 16))
  targets = np.arange(120) % 12
  pictures = centres[targets] + noise * rng.normal(size=(120, 16)) * 3
  (folder / "texts").mkdir(parents=True)
  np.save(folder / "pictures.npy", pictures.astype(np.float32))
  np.save(folder / "texts/en.npy", centres.astype(np.float32))
  np.save(folder / "texts/de.npy", centres[[0, 2, 3, 5, 7, 8, 10, 11]].astype(np.float16))
  labels = {
    "EN": [list(range(12)), [f"thing {i}" for i in range(12)]],
    "DE": [[0, 2, 3, 5, 7, 8, 10, 11], [f"Ding {i}" for i in range(8)]],
  }
  (folder / "labels.json").write_text(json.dumps(labels))
  (folder / "targets.txt").write_text("\n".join(map(str, targets)) + "\n")
  return [
    f"--{name}={folder / file}"
    for name, file in (
      ("pictures", "pictures.npy"),
      ("targets", "targets.txt"),
      ("labels", "labels.json"),
      ("texts", "texts"),
    )
  ]


def retrieval(folder: pathlib.Path, seed: int = 0) -> list[str]:
  """Writes 20 pictures with one to three captions each in en and th; returns the options."""
  rng = np.random.default_rng(seed)
  pictures = rng.normal(size=(20, 8))
  (folder / "texts").mkdir(parents=True)
  np.save(folder / "pictures.npy", pictures.astype(np.float32))
  lines, texts = [], {"en": [], "th": []}
  for number, picture in enumerate(pictures):
    row = {"image/key": f"k{number}"}
    for code, held in texts.items():
      count = 1 + (number + len(code) + len(held)) % 3
      row[code] = {"caption": [f"{code} {number} {i}" for i in range(count)]}
      held += [picture + 1.5 * rng.normal(size=8) for _ in range(count)]
    lines.append(json.dumps(row))
  (folder / "captions.jsonl").write_text("\n".join(lines) + "\n")
  for code, held in texts.items():
    np.save(folder / f"texts/{code}.npy", np.array(held, np.float32))
  return [
    f"--{name}={folder / file}"
    for name, file in (("pictures", "pictures.npy"), ("captions", "captions.jsonl"), ("texts", "texts"))
  ]
