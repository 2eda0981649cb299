"""Tables of papers as data, exactly as printed: those of the XM3600 paper, and captioning scores on XM3600.

Source of the former: Thapliyal, Pont-Tuset, Chen, Soricut, "Crossmodal-3600: A Massively Multilingual Multimodal
Evaluation Dataset" (EMNLP 2022), Tables 1 and 5 to 11. `README.md` in this folder lists the files.
"""

import csv
from collections.abc import Iterable
from importlib import resources

from xmcap import digests, languages

MODELS: tuple[str, ...] = ("BB+CC", "BB", "Bg", "Lg")
"""The models of Tables 8 to 11, in the paper's order (see its Table 3)."""

XM3600_IMAGES = "3600#12b0c3d5389df82f"
"""The value of `images` in the signature of a table over all 3,600 images of XM3600."""


def is_xm3600(keys: Iterable[str]) -> bool:
  """Returns whether these are exactly the keys of XM3600's images."""
  return digests.of_images(keys) == XM3600_IMAGES


def read(name: str) -> tuple[dict[str, str], ...]:
  """Returns the rows of a CSV file in this folder, as column -> printed value."""
  text = resources.files(__name__).joinpath(f"{name}.csv").read_text(encoding="utf-8")
  return tuple(csv.DictReader(text.splitlines()))


_OTHER_NAMES = {"OpenCLIP XLMR B-32": "OpenCLIP XLMR-B B-32"}


def cells(name: str) -> dict[tuple[str, str], float]:
  """Returns the numbers of a table of Babel-ImageNet, whose models are its rows or its columns, by (model, language).

  Models have the names of the paper's Tables 8 and 9, languages those that are printed (Geigle et al., ACL 2024).
  """
  numbers: dict[tuple[str, str], float] = {}
  for row in read(name):
    (kind, of_row), *others = row.items()
    for of_column, value in others:
      model, language = (of_row, of_column) if kind == "model" else (of_column, of_row)
      numbers[_OTHER_NAMES.get(model, model), language] = float(value)
  return numbers


def rows(name: str) -> dict[tuple[str, str], dict[str, str]]:
  """Returns a table whose columns are languages: (model, kind of the row) -> language code -> printed value, if any."""
  return {
    (_OTHER_NAMES.get(row["model"], row["model"]), row["row"]): {
      language: value for language, value in row.items() if language not in ("model", "row") and value
    }
    for row in read(name)
  }


ROWS: tuple[str, ...] = ("centurio", "paligemma")
"""The protocols with scores in other papers, for `protocol_rows`."""


def protocol_rows(protocol: str) -> tuple[dict[str, str | float], ...]:
  """Returns the printed CIDEr of models that were scored by one of the protocols `ROWS`.

  A row has the texts `model`, `paper` and `table`, and the scores of English, `en`, and of the mean `all but en`, in
  [0, 10] (the papers multiply by 100).
  """
  texts = ("model", "paper", "table")
  return tuple(
    {
      name: value if name in texts else float(value) / 100
      for name, value in row.items()
      if name != "fidelity"
    }
    for row in read(f"{protocol}_xm3600")
  )


def table_rows(model: str) -> dict[str, float]:
  """Returns language code -> CIDEr on XM3600 of one of `MODELS`, in [0, 10], for the 35 training languages."""
  rows = read("xm3600_tables8_11_cider")
  return {row["lang"]: float(row["xm3600"]) for row in rows if row["model"] == model}


LANGUAGE_ROWS: dict[str, str] = {"centurio": "centurio_table26_xm3600", "gemini": "gemini_table9_xm3600"}
"""Baseline -> the file with the CIDEr of its models on XM3600 in each language, for `language_rows`."""


def language_rows(baseline: str) -> dict[str, dict[str, float]]:
  """Returns model -> language code -> printed CIDEr of a baseline of `LANGUAGE_ROWS`, in [0, 10]."""
  return {
    row["model"]: {
      language: float(value) / 100 for language, value in row.items() if language in languages.LANGUAGES
    }
    for row in read(LANGUAGE_ROWS[baseline])
  }
