"""Tables of the XM3600 paper as data, exactly as printed.

Source: Thapliyal, Pont-Tuset, Chen, Soricut, "Crossmodal-3600: A Massively Multilingual Multimodal Evaluation
Dataset" (EMNLP 2022), Tables 1 and 5 to 11. `README.md` beside this file says which file is which table.
"""

import csv
import io
from collections.abc import Iterable
from importlib import resources

from xmcap.errors import UsageError
from xmcap.scoring import signature

TABLES: tuple[str, ...] = (
  "xm3600_table1_caption_stats",
  "xm3600_table5_core_sxs",
  "xm3600_table6_correlations",
  "xm3600_table7_ext_sxs",
  "xm3600_tables8_11_cider",
)
"""The names that `read` takes."""

MODELS: tuple[str, ...] = ("BB+CC", "BB", "Bg", "Lg")
"""The models of Tables 8 to 11, in the paper's order (see its Table 3)."""


XM3600_IMAGES = "3600#12b0c3d5389df82f"
"""The part `images` of a signature over the 3,600 pictures of XM3600, of which the tables tell."""


def is_xm3600(keys: Iterable[str]) -> bool:
  """Returns whether these are the keys of XM3600's pictures, all of them and no other."""
  return signature.of_images(keys) == XM3600_IMAGES


def text(name: str) -> str:
  """Returns a table as CSV with a header line; ValueError if there is none of the name."""
  if name not in TABLES:
    raise ValueError(f"no published table '{name}'; there are: {', '.join(TABLES)}")
  return resources.files(__name__).joinpath(f"{name}.csv").read_text(encoding="utf-8")


def read(name: str) -> tuple[dict[str, str], ...]:
  """Returns the rows of a table, column -> the value as it is printed; ValueError if there is none of the name."""
  return tuple(csv.DictReader(io.StringIO(text(name))))


def table_rows(model: str, split: str = "xm3600") -> dict[str, float]:
  """Returns language code -> CIDEr, in [0, 10] with three decimals, for the 35 languages of training.

  Args:
    model: one of `MODELS`.
    split: `xm3600` or `coco_dev`.

  Raises:
    UsageError: there is no such model or split.
  """
  if model not in MODELS:
    raise UsageError(f"no published model '{model}'; there are: {', '.join(MODELS)}")
  if split not in ("xm3600", "coco_dev"):
    raise UsageError(f"no published split '{split}'; there are: xm3600, coco_dev")
  return {row["lang"]: float(row[split]) for row in read("xm3600_tables8_11_cider") if row["model"] == model}
