"""Prints the tables of benchmarks/results/*.json, below one of headline figures; the built docs/benchmarks.md has them.

usage: python benchmarks/all.py
Each script beside this one measures one thing and writes its table as JSON; modules that they share are named below in
_SHARED.
"""

import json
import pathlib
from collections.abc import Mapping
from typing import Any, NamedTuple

ROOT = pathlib.Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"

_SHARED = (
  "all", "captions", "common", "costs", "decoding_peer", "photographs", "report", "t5x_train_step",
  "torch_train_step", "turns", "xmcap_train_step",
)  # fmt: skip
"""Modules of this folder that are no benchmark of their own."""


class Headline(NamedTuple):
  """A row of that table. In `figure` and `beside`, `{1[seconds]}` is the cell of row 1, counted from 0, in that column.

  Attributes:
    result: name of the JSON.
    measured: what was measured.
    figure: xmcap's figure.
    beside: what it is compared with.
  """

  result: str
  measured: str
  figure: str
  beside: str = ""


HEADLINES = (
  Headline("scoring", "`xmcap score`, 129,600 captions in 36 languages, CIDEr-D", "{1[seconds]} s",
           "pycocoevalcap {0[seconds]} s"),
  Headline("scoring", "the same with all metrics, checks and the report", "{4[seconds]} s"),
  Headline("coco_drop_in", "`COCOEvalCap`, 1,000 pictures, all metrics but SPICE", "{1[seconds]} s",
           "pycocoevalcap {0[seconds]} s"),
  Headline("protocols", "the same captions in Thai, CIDEr-D times 100", "{0[th]}",
           "words of `--protocol=paligemma` {1[th]}"),
  Headline("embedding_memory", "`score zero-shot`, 1,000,000 pictures, memory", "{6[peak, MB]} MB",
           "their file {6[file, MB]} MB"),
  Headline("quickstart", "`bash quickstart.sh`, with installing", "{0[figure]} minutes"),
  Headline("quickstart", "its captioner, CIDEr-D", "{1[figure]}", "nearest picture {4[figure]}"),
  Headline("gpu_goals", "BB's training step, captions a second, K = 1", "{3[measured]} times",
           "transformers, torch.compile"),
  Headline("gpu_goals", "the same, K = 8", "{5[measured]} times", "transformers, a picture encoded for each caption"),
  Headline("train_step", "training step of mT5-base's widths, examples a second", "{0[figure]} times", "t5x"),
  Headline("train_step", "the same", "{2[figure]} times", "transformers and torch"),
  Headline("plan_captions_per_image", "BB's step planned for 64 TPU v4 chips, K = 1",
           "{0[ms]} to {0[ms, communication exposed]} ms"),
  Headline("plan_captions_per_image", "the same, K = 8", "{1[ms]} to {1[ms, communication exposed]} ms"),
  Headline("stream", "pictures a second that a core reads", "{0[figure]}", "decoding and resizing alone {2[figure]}"),
  Headline("stream_peers", "the same with a caption each, in turns with other loaders", "{0[pictures per second]}",
           "torch's DataLoader {1[pictures per second]}"),
  Headline("bucket_reads", "reads of a bucket for 37,000 pictures, joined", "{6[reads a second for 37,000 pictures]}",
           "one by one {2[reads a second for 37,000 pictures]}"),
  Headline("lengths", "padding with length buckets", "{3[padded]}", "without {0[padded]}"),
  Headline("decoding", "BB, captions a second in 36 languages", "{0[captions per second]}",
           "transformers {2[captions per second]}; one language after the other {3[captions per second]}"),
  Headline("serve", "`xmcap serve`, 64 clients, captions a second", "{3[captions per second]}",
           "one picture per call {2[captions per second]}"),
  Headline("emoji100", "zero-shot emoji, mean of 101 languages, top-1", "{0[mean of languages]}",
           "tag classifier {0[tag classifier]}"),
  Headline("coco_cn", "Chinese captions, people's after machine-translated, CIDEr-D", "{6[mean]}",
           "people's alone {8[mean]}"),
  Headline("fuzz", "commands with damaged inputs, wrong ends", "{19[wrong]} of {19[cases]}"),
)  # fmt: skip
"""The rows of the table of headline figures."""


def results() -> dict[str, dict[str, Any]]:
  """All results by name, in alphabetical order."""
  return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(RESULTS.glob("*.json"))}


def headlines() -> str:
  """The table of headline figures."""
  tables = results()
  head = [_row(["measured", "xmcap", "beside it", "script"]), _row(["---", "---:", "---", "---"])]
  return "\n".join([*head, *(_headline(headline, tables[headline.result]) for headline in HEADLINES)])


def all_tables() -> str:
  """The tables of all results, each below a heading."""
  return "\n".join(map(_table, results().values()))


def _headline(headline: Headline, result: Mapping[str, Any]) -> str:
  # Without the details that some cells have in brackets.
  rows = [[cell.partition(" (")[0] for cell in row] for row in result["rows"]]
  cells = [dict(zip(result["columns"], row, strict=True)) for row in rows]
  machine = result["machine"]
  host = machine.get("gpu") or f"{machine['cores']} cores"
  where = "" if host == "2 cores" else f" ({host})"
  script = result["command"].removeprefix("python ").removeprefix("benchmarks/")
  return _row([
    headline.measured + where, headline.figure.format(*cells), headline.beside.format(*cells), f"`{script}`",
  ])  # fmt: skip


def _table(result: Mapping[str, Any]) -> str:
  columns, machine = result["columns"], result["machine"]
  align = ["---", *["---:"] * (len(columns) - 1)]
  lines = [f"### {result['title']}", "", f"`{result['command']}`", ""]
  lines += [_row(columns), _row(align), *map(_row, result["rows"]), ""]
  lines += [line for note in result["notes"] for line in (note, "")]
  facts = [f"{machine['cores']} CPU cores", f"{machine['memory_gib']} GiB of memory"]
  versions = ("gpu", "python", "jax", "torch", "transformers")
  facts += [f"{name} {machine[name]}" for name in versions if name in machine]
  return "\n".join([*lines, f"Measured on {result['date']}: {', '.join(facts)}.", ""])


def _row(cells: list[str]) -> str:
  return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"


if __name__ == "__main__":
  print(headlines(), all_tables(), sep="\n\n")
