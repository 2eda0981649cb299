"""The outputs and references of COCO-CN's captioning, beside this checkout."""

import pathlib

import pytest

FOLDER = pathlib.Path(__file__).parents[3] / "shared" / "coco_cn"
REFERENCES = FOLDER / "merged_captions_coco-cn_test.json"

needs_files = pytest.mark.skipif(
  not REFERENCES.is_file(), reason="COCO-CN's outputs are not beside this checkout (../shared/coco_cn)"
)
