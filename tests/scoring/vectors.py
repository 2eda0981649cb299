"""Small folders of vectors for tests, written as anybody's script would."""

import pathlib

import numpy as np

from tests.make import files


def write_card(folder: pathlib.Path, **fields: str) -> pathlib.Path:
  card = {"model": "drawn", "weights": "seed 0", "preprocessing": "none", **fields}
  return files.json(folder / "vectors.json", card).parent


def write_captions(folder: pathlib.Path, code: str, texts, embeddings) -> None:
  folder.mkdir(parents=True, exist_ok=True)
  np.save(folder / f"{code}.npy", np.asarray(embeddings))
  files.jsonl(folder / f"{code}.jsonl", *({"caption": text} for text in texts))


def write_pictures(folder: pathlib.Path, keys, embeddings) -> None:
  np.save(folder / "pictures.npy", np.asarray(embeddings))
  files.lines(folder / "keys.txt", *keys)
