"""Captions by people, of releases beside this checkout: Multi30K, COCO-CN and a sample of XM3600."""

import functools
import json
import pathlib

import pytest

SHARED = pathlib.Path(__file__).parents[3] / "shared"
MULTI30K = SHARED / "multi30k"

needs_captions = pytest.mark.skipif(
  not MULTI30K.exists(), reason="captions by people are not on this machine"
)


def multi30k(name: str) -> list[str]:
  """Returns the lines of a file."""
  return (MULTI30K / name).read_text(encoding="utf-8").split("\n")[:-1]


def coco_cn() -> list[str]:
  """Returns Chinese captions without the spaces between words."""
  document = json.loads(
    (SHARED / "coco_cn" / "merged_captions_coco-cn_test.json").read_text(encoding="utf-8")
  )
  return [annotation["caption"].replace(" ", "") for annotation in document["annotations"]]


@functools.cache
def xm3600_sample() -> dict[str, list[str]]:
  """Returns the captions of one image: language -> captions."""
  row = json.loads((SHARED / "xm3600_sample" / "captions.jsonl").read_text(encoding="utf-8").split("\n")[0])
  return {code: field["caption"] for code, field in row.items() if not code.startswith("image/")}
