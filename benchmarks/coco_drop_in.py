"""`xmcap.scoring.coco.COCOEvalCap` against pycocoevalcap's own, on Multi30K: 1,000 images, 4 references each.

Each side runs as a process of its own, in turns, with SPICE left out of both (its parser is a download). The process
also prints its scores, which must agree to 12 digits.

usage: python benchmarks/coco_drop_in.py [MULTI30K]     (its folder, by default ../shared/multi30k)
"""

import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import report

_MULTI30K = pathlib.Path(__file__).parents[2] / "shared" / "multi30k"
_REPEATS = 3
_SCRIPT = """
import contextlib, json, sys
from pycocotools.coco import COCO
module, references, results = sys.argv[1:]
if module == "pycocoevalcap.eval":
  import pycocoevalcap.eval as peer
  class Spice:
    def method(self): return "SPICE"
    def compute_score(self, gts, res): return 0.0, [0.0] * len(gts)
  peer.Spice = Spice
with contextlib.redirect_stdout(sys.stderr):
  coco = COCO(references)
  scored = __import__(module, fromlist=["x"]).COCOEvalCap(coco, coco.loadRes(results))
  scored.evaluate()
print(json.dumps({name: float(value) for name, value in scored.eval.items() if name != "SPICE"}))
"""


def main() -> None:
  """Prints what the docstring says."""
  folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else _MULTI30K
  times: dict[str, list[float]] = {"pycocoevalcap.eval": [], "xmcap.scoring.coco": []}
  with tempfile.TemporaryDirectory() as scratch:
    count = _write(folder, pathlib.Path(scratch))
    for _ in range(_REPEATS):
      scores = {}
      for module, seconds in times.items():
        files = [f"{scratch}/references.json", f"{scratch}/results.json"]
        began = time.perf_counter()
        done = subprocess.run(
          [sys.executable, "-c", _SCRIPT, module, *files], capture_output=True, text=True, check=True
        )
        seconds.append(time.perf_counter() - began)
        scores[module] = json.loads(done.stdout)
      theirs, ours = scores.values()
      if any(abs(ours[name] - score) > 1e-12 for name, score in theirs.items()):
        raise SystemExit(f"the scores differ: {scores}")
  medians = {module: statistics.median(seconds) for module, seconds in times.items()}
  base = next(iter(medians.values()))
  for module, median in medians.items():
    print(f"{median:8.1f} s  {base / median:6.2f} x  {module}")
  report.write(
    "coco_drop_in",
    "COCOEvalCap of xmcap compared with pycocoevalcap's",
    [
      (f"{module}.COCOEvalCap", f"{median:.1f}", f"{base / median:.2f}") for module, median in medians.items()
    ],
    columns=(f"{count:,} images x (1 result + 4 references), without SPICE", "seconds", "speed-up"),
    notes=[
      f"Medians of {_REPEATS} alternating runs on {os.cpu_count()} cores; all scores agree to 12 digits. Most of the "
      "time METEOR's Java program loads its paraphrases."
    ],
  )


def _write(folder: pathlib.Path, scratch: pathlib.Path) -> int:
  """Writes COCO files: the first of five people is the system, the others are the references; returns the images."""
  people = [
    (folder / f"task2_test_2016.{person}.en").read_text("utf-8").splitlines() for person in range(1, 6)
  ]
  ids = range(1, len(people[0]) + 1)
  annotations = [
    {"image_id": image, "id": 10 * image + number, "caption": captions[image - 1]}
    for image in ids
    for number, captions in enumerate(people[1:])
  ]
  results = [{"image_id": image, "caption": people[0][image - 1]} for image in ids]
  references = {"images": [{"id": image} for image in ids], "annotations": annotations, "info": {}}
  (scratch / "references.json").write_text(json.dumps(references), "utf-8")
  (scratch / "results.json").write_text(json.dumps(results), "utf-8")
  return len(ids)


if __name__ == "__main__":
  main()
