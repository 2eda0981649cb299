"""Seconds that training waits for an evaluation's scores: made by a process beside the steps, and in the loop.

36 languages x 3,600 images x (1 prediction + 2 references), scored by CIDEr and CIDEr-D. Decoding is not measured; it
takes the devices in both cases.

usage: python benchmarks/evaluation_wait.py [--images=N --repeats=N]
"""

import argparse
import statistics
import time

import captions
import report

from xmcap.evaluation import table_rows
from xmcap.reading.predictions import read_predictions
from xmcap.reading.references import read_references
from xmcap.scoring.options import ScoringOptions
from xmcap.training.deferred import Deferred, Evaluation, at_once


def main() -> None:
  """Prints what the docstring says."""
  parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
  parser.add_argument("--images", type=int, default=3_600)
  parser.add_argument("--repeats", type=int, default=3)
  options = parser.parse_args()
  references, predictions = captions.release(options.images)
  call = Deferred(
    table_rows.of_captions,
    (read_references(references), read_predictions(str(predictions)), ScoringOptions(), ""),
  )
  times: dict[str, list[float]] = {"loop": [], "beside": [], "scores": []}
  for _ in range(options.repeats):
    began = time.perf_counter()
    rows = list(at_once([call]))
    times["loop"].append(time.perf_counter() - began)
    evaluation = Evaluation(0, computes=True)
    began = time.perf_counter()
    evaluation.add("CaptionEvaluator", [call])
    times["beside"].append(time.perf_counter() - began)
    assert evaluation.outcome()["rows"] == rows
    times["scores"].append(time.perf_counter() - began)
  loop, beside, scores = (f"{statistics.median(seconds):.2f}" for seconds in times.values())
  report.write(
    "evaluation_wait",
    "How long training waits for the scores of an evaluation",
    [("scored in the loop", loop, loop), ("scored beside the steps", beside, scores)],
    columns=(
      f"36 languages x {options.images:,} images",
      "seconds that training waits",
      "seconds until the scores",
    ),
    notes=[f"Medians of {options.repeats} alternating runs; the rows are the same."],
  )


if __name__ == "__main__":
  main()
