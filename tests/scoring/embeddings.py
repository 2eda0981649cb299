"""Small sets of embeddings for tests, written as anybody's would be."""

import pathlib

import numpy as np

from tests.make import files


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
  files.json(folder / "labels.json", labels)
  files.lines(folder / "targets.txt", *targets)
  names = {"pictures": "pictures.npy", "targets": "targets.txt", "labels": "labels.json", "texts": "texts"}
  return [f"--{name}={folder / file}" for name, file in names.items()]


def retrieval(folder: pathlib.Path, seed: int = 0) -> list[str]:
  """Writes 20 pictures with one to three captions each in en and th; returns the options."""
  rng = np.random.default_rng(seed)
  pictures = rng.normal(size=(20, 8))
  (folder / "texts").mkdir(parents=True)
  np.save(folder / "pictures.npy", pictures.astype(np.float32))
  rows, texts = [], {"en": [], "th": []}
  for number, picture in enumerate(pictures):
    row = {"image/key": f"k{number}"}
    for code, vectors in texts.items():
      count = 1 + (number + len(code) + len(vectors)) % 3
      row[code] = {"caption": [f"{code} {number} {i}" for i in range(count)]}
      vectors += [picture + 1.5 * rng.normal(size=8) for _ in range(count)]
    rows.append(row)
  files.jsonl(folder / "captions.jsonl", *rows)
  for code, vectors in texts.items():
    np.save(folder / f"texts/{code}.npy", np.array(vectors, np.float32))
  names = {"pictures": "pictures.npy", "captions": "captions.jsonl", "texts": "texts"}
  return [f"--{name}={folder / file}" for name, file in names.items()]
