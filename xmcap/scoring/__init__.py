"""Scores captions: takes references and predictions, and gives a table of languages with confidence intervals.

It needs neither jax nor tensorflow, so it can score the captions of any software:

    from xmcap.scoring import read_predictions, read_references, score

    references = read_references("captions.jsonl")
    result = score(references, read_predictions("ours.jsonl", references=references), bootstrap=1000)
    print(result.table.terminal())
    result.table.rows["el"]["cider_d"], result.table.intervals["el"]["cider_d"]

Comparing two systems with significance tests:

    from xmcap.scoring import compare

    theirs = score(references, read_predictions("theirs.jsonl", references=references))
    print(compare({"theirs": theirs, "ours": result}).terminal())

Using a metric directly, on tokenised captions:

    from xmcap.scoring import Cider, Corpus

    corpus = Corpus([["a", "dog"], ["two", "cats"]], [[["a", "dog"]], [["two", "red", "cats"]]])
    Cider().statistics(corpus)[:, 0]  # the score of each image
"""

from typing import TYPE_CHECKING, Any

from xmcap.reading.predictions import read_predictions, write_predictions
from xmcap.reading.references import References, read_references
from xmcap.scoring.comparing.comparison import Comparison, Difference
from xmcap.scoring.comparing.significance import compare, read_system
from xmcap.scoring.metrics import METRICS, Cider, CiderD, Corpus, Metric
from xmcap.scoring.result import Result
from xmcap.scoring.score import score
from xmcap.scoring.statistics.sufficient import Statistics
from xmcap.scoring.tables.score_table import Table
from xmcap.scoring.tables.signature import Signature

if TYPE_CHECKING:
  from xmcap.pages.output import score_files, write

__all__ = [
  "METRICS",
  "Cider",
  "CiderD",
  "Comparison",
  "Corpus",
  "Difference",
  "Metric",
  "References",
  "Result",
  "Signature",
  "Statistics",
  "Table",
  "compare",
  "read_predictions",
  "read_references",
  "read_system",
  "score",
  "score_files",
  "write",
  "write_predictions",
]


def __getattr__(name: str) -> Any:
  # What writes the files of a result stands above the scores; it is loaded by whoever asks for it here.
  if name in ("score_files", "write"):
    from xmcap.pages import output

    return getattr(output, name)
  raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
