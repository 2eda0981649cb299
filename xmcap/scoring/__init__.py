"""Scoring of captions: references and predictions in, a table of CIDEr for each language out.

Needs neither jax nor tensorflow, so that it serves captions that were made with any software:

  from xmcap.scoring import read_predictions, read_references, score
  print(score(read_references("captions.jsonl"), read_predictions("predictions.jsonl")).terminal())
"""

from xmcap.scoring.predictions import read_predictions, write_predictions
from xmcap.scoring.references import read_references
from xmcap.scoring.score import score, score_and_write, score_files, score_images, table_of
from xmcap.scoring.scores import Scores
from xmcap.scoring.tables import Table

__all__ = [
  "Scores",
  "Table",
  "read_predictions",
  "read_references",
  "score",
  "score_and_write",
  "score_files",
  "score_images",
  "table_of",
  "write_predictions",
]
