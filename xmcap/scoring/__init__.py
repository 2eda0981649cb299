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

from xmcap.reading.predictions import read_predictions, write_predictions
from xmcap.reading.references import References, read_references
from xmcap.scoring.metrics import METRICS, Cider, CiderD, Corpus, Metric
from xmcap.scoring.result import Result
from xmcap.scoring.score import score
from xmcap.scoring.statistics.comparison import Comparison, Difference
from xmcap.scoring.statistics.significance import compare, read_system
from xmcap.scoring.statistics.sufficient import Statistics
from xmcap.scoring.writing.output import score_files, write
from xmcap.scoring.writing.signature import Signature
from xmcap.scoring.writing.tables import Table

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
