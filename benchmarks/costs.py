"""The tables of docs/corpora.md and docs/pods.md: what building and training the corpora of the paper takes.

They are computed from results/build_rates.json, plan_captions_per_image.json and gpu_training.json, and from two
prices, which are stated beside them. `.ci/tables.py` puts them into the built pages.
"""

import all as benchmarks

from xmcap.planning import corpora

CHIP_PRICE = 3.22
"""Dollars for an hour of a TPU v4 chip on demand in us-central2: cloud.google.com/tpu/pricing."""
CORE_PRICE = 0.05
"""Dollars for an hour of a core: an assumption, about that of a general-purpose machine on demand."""

_BATCH = 2_048
_CHIPS = 64
_STEPS = 100_000
"""Of gin/runs/pretrain_cc3m35l.gin and train_coco35l.gin."""


def building() -> str:
  """The table of docs/corpora.md."""
  both = list(corpora.CORPORA.values())
  grids = [corpora.building(corpus, price=CORE_PRICE) for corpus in both]
  rows = [("to build", *(corpus.name for corpus in both))]
  rows.append(("pictures, if none is gone", *(f"{corpus.pictures:,}" for corpus in both)))
  rows += [(f"{label} on 2 cores" if label == "hours" else label, cell, grids[1].body[number][1])
           for number, (label, cell) in enumerate(grids[0].body)]  # fmt: skip
  return _table(rows).replace(f"at {CORE_PRICE:g}", f"in dollars, at {CORE_PRICE:g}")


def training() -> str:
  """The table of docs/pods.md."""
  results = benchmarks.results()
  plan = _cells(results["plan_captions_per_image"], 0)
  gpu = _fastest(results["gpu_training"])
  epoch = round(corpora.CORPORA["coco_35l"].epoch / _BATCH)
  runs = (("CC3M-35L", _STEPS), ("COCO-35L, one epoch", epoch), ("COCO-35L", _STEPS))
  bounds = [float(plan[name]) / 3.6e6 for name in ("ms", "ms, communication exposed")]
  hours = [[steps * bound for bound in bounds] for _, steps in runs]
  rate = _rate(gpu)
  rows = [
    ("to train BB", *(name for name, _ in runs)),
    ("steps", *(f"{steps:,}" for _, steps in runs)),
    ("hours on a v4-128, planned", *(_span(both, ".2f") for both in hours)),
    ("chip-hours", *(_span([_CHIPS * one for one in both], ",.0f") for both in hours)),
    (
      f"cost in dollars, at {CHIP_PRICE:g} per chip-hour",
      *(_span([_CHIPS * CHIP_PRICE * one for one in both], ",.0f") for both in hours),
    ),
    ("GiB of a chip, planned", *[plan["GiB"]] * len(runs)),
    (
      "hours on one H200, at its measured rate",
      *(f"{steps * _BATCH / rate / 3600:.1f}" for _, steps in runs),
    ),
    ("GiB of the H200, measured", *[gpu["GiB at most"]] * len(runs)),
  ]
  return _table(rows)


def _fastest(result) -> dict[str, str]:
  """The fastest of xmcap's steps at K = 1."""
  steps = [_cells(result, row) for row in range(len(result["rows"]))]
  measured = [step for step in steps if step["captions per second"] != "-"]
  return max((step for step in measured if step[""].startswith("xmcap") and step["K"] == "1"), key=_rate)


def _rate(step: dict[str, str]) -> float:
  return float(step["captions per second"].replace(",", ""))


def _cells(result, row: int) -> dict[str, str]:
  return dict(zip(result["columns"], result["rows"][row], strict=True))


def _span(both, form: str) -> str:
  return " to ".join(format(one, form) for one in both)


def _table(rows) -> str:
  lines = [f"| {' | '.join(row)} |\n" for row in rows]
  lines.insert(1, f"| --- |{' ---: |' * (len(rows[0]) - 1)}\n")
  return "".join(lines)
