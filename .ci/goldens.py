"""Makes the golden values that tests compare with: what other programs compute, with their names and versions.

usage: python .ci/goldens.py ROOM ...     such as scoring; writes tests/ROOM/goldens/*.json

Tests marked `full` run the other programs themselves, so that `--all` finds a golden value that is out of date.
"""

import contextlib
import importlib.metadata
import json
import pathlib
import sys
import tempfile
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))


def _write(room: str, name: str, packages: tuple[str, ...], values: dict[str, Any]) -> None:
  path = ROOT / "tests" / room / "goldens" / f"{name}.json"
  path.parent.mkdir(exist_ok=True)
  versions = {package: importlib.metadata.version(package) for package in packages}
  path.write_text(
    json.dumps({"versions": versions, **values}, ensure_ascii=False, indent=1) + "\n", encoding="utf-8"
  )


def coco_eval_cap() -> None:
  """pycocoevalcap's scores of a few captions, and what its Java programs answer to xmcap."""
  from pycocoevalcap.meteor.meteor import Meteor

  from tests.scoring import coco_files, replayed_java
  from xmcap.scoring.coco import COCOEvalCap
  from xmcap.scoring.metrics import METRICS

  references, hypotheses = coco_files.METEOR_REFERENCES, coco_files.METEOR_HYPOTHESES
  score, scores = Meteor().compute_score(
    dict(enumerate(references)), {place: [text] for place, text in enumerate(hypotheses)}
  )
  with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(sys.stderr):
    files = coco_files.pycocotools(pathlib.Path(folder), coco_files.CAPTIONS)
    theirs = coco_files.pycocoevalcap(*files)
    with replayed_java.recorded() as runs:
      METRICS["meteor"].statistics(coco_files.meteor_corpus())
      COCOEvalCap(*files).evaluate()
  _write(
    "scoring",
    "pycocoevalcap",
    ("pycocoevalcap", "pycocotools"),
    {
      "meteor": {"score": score, "scores": scores},
      "eval": {name: theirs.eval[name] for name in coco_files.METRICS},
      "evalImgs": [
        {name: scores[name] for name in ("image_id", *coco_files.METRICS)} for scores in theirs.evalImgs
      ],
      "runs": runs,
    },
  )


def schedules() -> None:
  """transformers' learning rates, by step, with the arguments of its functions; and TensorFlow's moving average."""
  import tensorflow as tf
  import torch
  import transformers

  def rates(make: Any, **arguments: Any) -> dict[str, Any]:
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    (rate,) = getattr(transformers, make)(optimizer, **arguments).lr_lambdas
    return {"arguments": arguments, "rates": [rate(step) for step in range(21)]}

  cosine, wsd = "get_cosine_with_min_lr_schedule_with_warmup", "get_wsd_schedule"
  count, weights = tf.Variable(0), tf.Variable(1.0)
  moving = tf.train.ExponentialMovingAverage(0.5, num_updates=count)
  moving.apply([weights])
  values, averages = [(-1.0) ** step * step for step in range(12)], []
  for step, value in enumerate(values):
    count.assign(step)
    weights.assign(value)
    moving.apply([weights])
    averages.append(float(moving.average(weights)))
  length = {"num_warmup_steps": 4, "num_training_steps": 20}
  _write(
    "training",
    "schedules",
    ("transformers", "torch", "tensorflow"),
    {
      "get_cosine_schedule_with_warmup": rates("get_cosine_schedule_with_warmup", **length),
      cosine: rates(cosine, **length, min_lr_rate=0.1),
      wsd: [
        rates(wsd, **length, num_decay_steps=8, decay_type=shape, min_lr_ratio=ratio)
        for shape in ("linear", "cosine", "1-sqrt")
        for ratio in (0.0, 0.1)
      ],
      "ExponentialMovingAverage": {"decay": 0.5, "first": 1.0, "values": values, "averages": averages},
    },
  )


ROOMS = {"scoring": (coco_eval_cap,), "training": (schedules,)}

if __name__ == "__main__":
  if not sys.argv[1:] or not ROOMS.keys() >= {*sys.argv[1:]}:
    sys.exit(f"usage: python .ci/goldens.py ROOM ..., of {', '.join(ROOMS)}")
  for room in sys.argv[1:]:
    for make in ROOMS[room]:
      make()
