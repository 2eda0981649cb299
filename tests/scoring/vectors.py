"""Small folders of vectors for tests, written as anybody's script would."""

import json
import pathlib

import numpy as np


def write_card(folder: pathlib.Path, **fields: str) -> pathlib.Path:
  folder.mkdir(parents=True, exist_ok=True)
  card = {"model": "drawn", "weights": "seed 0", "preprocessing": "none", **fields}
  (folder / "vectors.json").write_text(json.dumps(card))
  return folder


def write_captions(folder: pathlib.Path, code: str, texts, embeddings) -> None:
  folder.mkdir(parents=True, exist_ok=True)
  np.save(folder / f"{code}.npy", np.asarray(embeddings))
  lines = "".join(json.dumps({"caption": text}, ensure_ascii=False) + "\n" for text in texts)
  (folder / f"{code}.jsonl").write_text(lines, encoding="utf-8")


def write_pictures(folder: pathlib.Path, keys, embeddings) -> None:
  np.save(folder / "pictures.npy", np.asarray(embeddings))
  (folder / "keys.txt").write_text("".join(f"{key}\n" for key in keys), encoding="utf-8")
