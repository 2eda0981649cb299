"""The published sizes of the corpora, for comparison with a built one."""

import json
from collections.abc import Mapping

from xmcap.languages import TRAINED
from xmcap.storage import addresses

Figures = Mapping[str, float]
"""Column of `statistics.Row`, or one of its means, -> the published figure."""

_COLUMNS = {
  "captions": "num_captions",
  "once": "repl1",
  "twice": "repl2",
  "more": "repl3plus",
  "mean_spaced_words": "words",
  "mean_characters": "chars",
}

# Images, and captions a language: 34 target languages in the files, whose lines README of the release counts
# (19,258,790; 850,000; 112,821,180; 538,560), and English as their source. CC3M: an image has one caption.
_SIZES = {
  ("coco35l", "train"): (113_287, 566_435),
  ("coco35l", "validation"): (5_000, 25_000),
  ("cc3m35l", "train"): (3_318_270, 3_318_270),
  ("cc3m35l", "validation"): (15_840, 15_840),
}

CORPORA = ("xm3600", "coco35l", "cc3m35l")
"""Those with published figures."""


def name(directory: addresses.Address) -> str:
  """The name of the data set that a folder of records holds, without underscores; "" if it has none."""
  try:
    info = json.loads(addresses.read_bytes(addresses.join(directory, "dataset_info.json")))
    return str(info["name"]).replace("_", "").lower()
  except (OSError, ValueError, KeyError, TypeError):
    return ""


def source(corpus: str) -> str:
  """The publication that the figures of a corpus are from."""
  return "Table 1 of the XM3600 paper" if corpus == "xm3600" else "the release's numbers of lines"


def figures(corpus: str, split: str) -> dict[str, Figures]:
  """Language code -> published figures of a split; {} where there are none."""
  if corpus == "xm3600":
    from xmcap.scoring import published  # the tables of the paper

    return {
      row["lang"]: {column: float(row[cell]) for column, cell in _COLUMNS.items()}
      for row in published.read("xm3600_table1_caption_stats")
    }
  if (corpus, split) not in _SIZES:
    return {}
  images, captions = _SIZES[corpus, split]
  return {code: {"images": images, "captions": captions} for code in TRAINED}
