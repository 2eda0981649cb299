"""The same captions under each protocol of `xmcap score --protocol`: how much their words decide.

Scores the captions of the quickstart (3,600 pictures in 36 languages), or any others, and prints CIDEr-D times 100 of
the languages without spaces, English, and the means.

usage: python benchmarks/protocols.py [REFERENCES PREDICTIONS]     (default: those of runs/quickstart; needs Java)
"""

import pathlib
import sys
import tempfile

import report

from xmcap.scoring import score_files

_SHOWN = ("en", "ja", "th", "zh", "35", "all but en", "36")
_PROTOCOLS = ("xmcap", "paligemma")


def main() -> None:
  """Prints what the docstring says."""
  run = pathlib.Path("runs/quickstart")
  references, predictions = sys.argv[1:3] or (
    run / "data/test/captions.jsonl",
    run / "eval/predictions.jsonl",
  )
  rows = []
  for protocol in _PROTOCOLS:
    with tempfile.TemporaryDirectory() as out:
      table = score_files(
        references, predictions, out, protocol=protocol, metrics=("cider_d",), only_tables=True, processes=2
      ).table
    scores = [100 * table.scores[name]["cider_d"] if name in table.scores else None for name in _SHOWN]
    rows.append([protocol, *("-" if score is None else f"{score:.1f}" for score in scores)])
    print(*rows[-1])
  report.write(
    "protocols",
    "The same captions under each protocol",
    rows,
    columns=("protocol", *_SHOWN[:4], "all but quz", "all but en", "all 36"),
    notes=["CIDEr-D times 100 of the quickstart's captions. Only the words differ between the rows."],
  )


if __name__ == "__main__":
  main()
