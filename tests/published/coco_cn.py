"""The outputs and references of COCO-CN's captioning, beside this checkout, as `xmcap score` reads them."""

import json
import pathlib

import pytest

FOLDER = pathlib.Path(__file__).parents[3] / "shared" / "coco_cn"
REFERENCES = FOLDER / "merged_captions_coco-cn_test.json"
SYSTEMS = ("coco-mt", "coco-cn", "seqlearn")

needs_files = pytest.mark.skipif(
  not REFERENCES.is_file(), reason="COCO-CN's outputs are not beside this checkout (../shared/coco_cn)"
)


def results(system: str) -> dict:
  """What the authors' evaluation wrote of a system: `overall`, and `imgToEval` by picture."""
  return json.loads((FOLDER / f"result_{system}.txt").read_text())


def references() -> dict[str, dict[str, list[str]]]:
  """Image key -> language -> captions."""
  found: dict[str, dict[str, list[str]]] = {}
  for annotation in json.loads(REFERENCES.read_text())["annotations"]:
    captions = found.setdefault(str(annotation["image_id"]), {"zh": []})
    captions["zh"].append(annotation["caption"])
  return found


def predictions(held: dict) -> dict[str, dict[str, str]]:
  """Image key -> language -> caption of a system's results."""
  return {key: {"zh": image["caption"][0]["caption"]} for key, image in held["imgToEval"].items()}
