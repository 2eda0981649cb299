"""What `bash examples/coco_cn.sh` reached: tagging, captioning and retrieval in Chinese on emoji_tags, over its seeds.

usage: python benchmarks/coco_cn.py [FOLDER]     (default: runs/coco_cn, which the example fills)
"""

import json
import pathlib
import statistics
import sys
from collections.abc import Sequence

import report

_GROUPS = {  # folder -> metric, and folder of a system -> heading; the first system is tested against the others
  "tags": (
    "tags_p5",
    {
      "cascade": "cascade: English tags first",
      "mono": "people's tags",
      "multitask": "multi-task: Chinese and English",
      "mt": "words of machine-translated captions",
    },
  ),
  "captions": (
    "cider_d",
    {
      "sequential": "sequential: machine-translated, then people's",
      "mixed": "both together",
      "human": "people's",
      "mt": "machine-translated",
    },
  ),
  "captions_tags": (
    "cider_d",
    {
      "human": "people's, no tags in the prompt",
      "predicted_tags": "the cascade's tags in the prompt",
      "own_tags": "the picture's own tags in the prompt",
    },
  ),
  "retrieval": (
    "mrr",
    {"clm": "CLM", "cl": "CL: the query with the English sentence", "cm": "CM: the query with the picture"},
  ),
}
_HEADINGS = {"tags_p5": "tagging, P@5", "cider_d": "captions, CIDEr-D", "mrr": "retrieval, MRR"}
_FOLDERS = {"captions_tags": "captions"}
_SIGNIFICANT = 0.05


def main() -> None:
  """Prints and keeps a row per system and baseline."""
  folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "runs/coco_cn")
  seeds = sorted(folder.glob("seed*"))
  rows = []
  for group, (metric, systems) in _GROUPS.items():
    tests = [_read(seed / "compare" / group / "comparison.json")["differences"] for seed in seeds]
    for name, heading in systems.items():
      tables = [_read(seed / _FOLDERS.get(group, group) / name / "table.json") for seed in seeds]
      scores = [_score(table["languages"]["zh"][metric]) for table in tables]
      differences = [row for test in tests for row in test if (row["system"], row["name"]) == (name, "zh")]
      rows.append((_HEADINGS[metric], heading, *_figures(scores), *_tested(differences)))
    if group == "tags":
      rows += _baselines(tables)
  for row in rows:
    print("  ".join(row))
  weights = [_read(seed / "scores/clm_test.json")["w"] for seed in seeds]
  report.write(
    "coco_cn",
    "COCO-CN's experiments on emoji_tags, in Chinese",
    rows,
    columns=("task, metric", "system", "mean", "each seed", "beside the task's first system", "significant"),
    notes=[
      f"{len(seeds)} seeds, 1,000 test pictures of unseen combinations. Significant: seeds in which the paired "
      f"randomisation test has p < {_SIGNIFICANT:g}, Holm-corrected. No test picture was used to choose a checkpoint, "
      f"a word or w ({', '.join(f'{weight:.2f}' for weight in weights)} for CLM, by validation).",
      "Captioners train for 400 steps of 64 captions; the sequential one has 200 more after its 400 on "
      "machine-translated captions. The numbers of steps were set while test scores of seed 0 were visible.",
      f"{_minutes(folder):.1f} minutes from the first step of the ViT to the last comparison.",
    ],
  )


def _minutes(folder: pathlib.Path) -> float:
  """How long a run of the example took that was not stopped in between, but for building the corpus."""
  with open(folder / "tags/metrics.jsonl", encoding="utf-8") as lines:
    began = json.loads(next(lines))["time"]
  ended = max(path.stat().st_mtime for path in folder.glob("seed*/compare/*/comparison.json"))
  return (ended - began) / 60


def _read(path: pathlib.Path) -> dict:
  return json.loads(path.read_text(encoding="utf-8"))


def _score(value: float | dict[str, float]) -> float:
  return value["score"] if isinstance(value, dict) else value


def _figures(scores: Sequence[float]) -> tuple[str, str]:
  return f"{statistics.mean(scores):.3f}", ", ".join(f"{score:.3f}" for score in scores)


def _tested(differences: Sequence[dict]) -> tuple[str, str]:
  """The mean difference to the first system, and in how many seeds it is significant."""
  if not differences:
    return "", ""
  significant = sum(row["p_holm"] < _SIGNIFICANT for row in differences)
  mean = statistics.mean(row["difference"] for row in differences)
  return f"{mean:+.3f}", f"{significant} of {len(differences)}"


def _baselines(tables: Sequence[dict]) -> list[tuple[str, ...]]:
  """Rows of the baselines that the evaluator of tags scores."""
  rows = []
  for name in tables[0]["beside"]:
    scores = [table["beside"][name]["zh"] for table in tables]
    rows.append((_HEADINGS["tags_p5"], name.removesuffix(" (P@5)"), *_figures(scores), "", ""))
  return rows


if __name__ == "__main__":
  main()
