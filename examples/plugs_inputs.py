"""Joins vectors of pictures and the labels of objects in them into the inputs that gin/models/plugs.gin reads.

usage: python examples/plugs_inputs.py VECTORS TAGS LABELS OUT
  VECTORS  stored features of the pictures, such as vectors.safetensors
  TAGS     English tags, best first, such as `xmcap tag` writes: tags.jsonl
  LABELS   all labels, one a line, in the order of their embeddings
  OUT      the inputs, inputs.safetensors
"""

import pathlib
import sys

from xmcap.data import features, tag_prompts
from xmcap.families.plugs import image_inputs


def main(vectors: str, tags: str, labels: str, out: str) -> None:
  english = {key: of_image.get("en", []) for key, of_image in tag_prompts.read(tags).items()}
  names = pathlib.Path(labels).read_text(encoding="utf-8").splitlines()
  features.write(out, image_inputs.with_labels(features.read(vectors), english, names))


if __name__ == "__main__":
  if len(sys.argv) != 5:
    sys.exit(__doc__)
  main(*sys.argv[1:])
