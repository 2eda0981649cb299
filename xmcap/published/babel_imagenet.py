"""Recomputes the tables of the Babel-ImageNet paper from the result files that its authors released.

Source: Geigle, Timofte, Glavas (ACL 2024), Tables 2, 5 and 8 to 12, stored as printed in `xmcap.papers`. The result
files are in `results/` of the paper's repository: `babel-imagenet/MODEL.json` and
`retrieval/{xm3600,xflickrco,xtd}/MODEL.json`. The other tables need none (`babel_imagenet_printed.py`).

Figure 5 shows what prompts gain over the bare labels. A figure prints no numbers, so that there is nothing to compare
with; of its two kinds of prompts, English templates around the labels are in no result file.
"""

import os
import pathlib
from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np

from xmcap import languages, papers
from xmcap.errors import UsageError
from xmcap.papers import babel_imagenet_languages
from xmcap.published import babel_imagenet_printed
from xmcap.published.babel_imagenet_printed import OF_A_MEAN, Cells
from xmcap.published.findings import RecomputedNumber, RecomputedTable
from xmcap.reading import jsonl

# File name -> the paper's name of the model; the other models of its tables have no file.
_MODELS = {
  "altclip-xlmrl-vitl14": "AltCLIP XLMR-L L-14",
  "mclip-mbert-vitb32": "M-CLIP mBERT B-32",
  "mclip-xlmrl-vitb16plus": "M-CLIP XLMR-L B-16+",
  "mclip-xlmrl-vitb32": "M-CLIP XLMR-L B-32",
  "mclip-xlmrl-vitl14": "M-CLIP XLMR-L L-14",
  "nllb-siglip-base": "NLLB-SigLIP-base",
  "nllb-siglip-large": "NLLB-SigLIP-large",
  "openclip-xlmrb-vitb32": "OpenCLIP XLMR-B B-32",
  "openclip-xlmrl-vith14": "OpenCLIP XLMR-L H-14",
  "siglip-vitb16": "mSigLIP",
}
_CODES = {"fil": "tl", "jp": "ja"}  # codes of the retrieval sets -> codes of Babel-ImageNet's labels
_PROMPTS, _LABEL = "nllb_dist13b_prompts", "label"
_RETRIEVAL = {
  "Table 11, XM3600": ("xm3600", "babel_imagenet_table11_xm3600_t2i_r1"),
  "Table 10, xFlickrCo": ("xflickrco", "babel_imagenet_table10_xflickrco_t2i_r1"),
  "Table 12, XTD": ("xtd", "babel_imagenet_table12_xtd_t2i_r1"),
}
_AVERAGE = "average"
_PRINTED_CORRELATIONS = {"xflickrco": "0.67", "xm3600": "0.75", "xtd": "0.66"}
_NOT_CORRELATED = {"mi", "quz"}  # in XM3600 but not in Babel-ImageNet


class _Accuracy(msgspec.Struct):
  lang: str
  prompt: str
  accuracy: float


class _Recall(msgspec.Struct):
  lang: str
  recall: float = msgspec.field(name="t2i_r@1")


class _Accuracies(msgspec.Struct):
  results: list[_Accuracy]


class _Recalls(msgspec.Struct):
  results: list[_Recall]


def recompute(results: str | os.PathLike) -> RecomputedTable:
  """Recomputes Tables 2 to 4 and 6 to 12, the correlations of zero-shot accuracy with retrieval, Figures 4, 5 and 7.

  A cell of Tables 8 and 9 is the accuracy with translated prompts, or with the bare label if there are none. Table 2
  and the correlations are computed from printed cells, because not all models of the paper have result files. The
  average of Table 11 includes English; those of Tables 10 and 12 do not.

  Raises:
    UsageError: the folder has no result files, or a file is malformed.
  """
  results = pathlib.Path(results)
  absent: list[str] = []
  accuracy = dict(_accuracies(results, absent))
  printed = papers.cells("babel_imagenet_tables8_9")
  rows = [*_cells("Tables 8 and 9", printed, accuracy), *_means_of_groups(printed)]
  correlations = []
  for table, (folder, name) in _RETRIEVAL.items():
    recalls = dict(_recalls(results / "retrieval" / folder, absent))
    of_table = papers.cells(name)
    cells = {place: value for place, value in of_table.items() if place[1] != _AVERAGE}
    rows += [*_cells(table, cells, recalls), *_averages(table, of_table, recalls, english=folder == "xm3600")]
    correlations.append(_correlation(folder, cells, printed))
  if len(absent) == len(_MODELS) * (1 + len(_RETRIEVAL)):
    raise UsageError(
      f"{results}: contains no result file of Babel-ImageNet, such as babel-imagenet/siglip-vitb16.json; give the "
      "folder 'results' of its repository"
    )
  return RecomputedTable(
    "Babel-ImageNet",
    (*rows, *babel_imagenet_printed.recompute(printed), *correlations, *gains(results)),
    tuple(absent),
  )


def gains(results: pathlib.Path) -> Iterator[RecomputedNumber]:
  """Yields by how many points of top-1 translated prompts are better than labels, for each model and group.

  Args:
    results: the folder `results` of the paper's repository. A mean is over the languages that have translated prompts.
  """
  for model, by_prompt in _accuracies_by_prompt(results, []):
    label, prompted = (
      {languages.canonical(language): accuracy for language, accuracy in by_prompt[name].items()}
      for name in (_LABEL, _PROMPTS)
    )
    for group, members in babel_imagenet_languages.groups().items():
      both = [language for language in members if language in label and language in prompted]
      if both:
        gain = float(np.mean([prompted[language] - label[language] for language in both]))
        heading = f"{model}, {group} ({len(both)} languages), gain by prompts"
        yield RecomputedNumber("Figure 5", heading, "", gain, reason="a figure prints no numbers")


def _row(
  table: str, model: str, name: str, printed: float, computed: float, slack: float = 0.0
) -> RecomputedNumber:
  # Two digits: some tables are printed without trailing zeros.
  return RecomputedNumber(table, f"{model}, {name}", f"{printed:.2f}", computed, slack)


def _cells(table: str, printed: Cells, computed: Cells) -> Iterator[RecomputedNumber]:
  for place, value in printed.items():
    if place in computed:
      yield _row(table, *place, value, computed[place])


def _means_of_groups(printed: Cells) -> Iterator[RecomputedNumber]:
  groups: dict[str, list[str]] = {}
  for row in papers.read("babel_imagenet_table5_languages"):
    groups.setdefault(row["group"], []).append(row["lang"])
  for row in papers.read("babel_imagenet_table2"):
    model = row["model"]
    for group, members in groups.items():
      mean = float(np.mean([printed[model, language] for language in members]))
      value = float(row[group.replace("-", "_")])
      yield _row("Table 2, means of groups", model, group, value, mean, OF_A_MEAN)
    yield _row("Table 2, English", model, "en", float(row["en"]), printed[model, "en"])


def _averages(table: str, printed: Cells, computed: Cells, english: bool) -> Iterator[RecomputedNumber]:
  scores: dict[str, list[float]] = {}
  for (model, language), score in computed.items():
    if english or language != "en":
      scores.setdefault(model, []).append(score)
  for (model, name), value in printed.items():
    if name == _AVERAGE and model in scores:
      mean = float(np.mean(scores[model]))
      yield _row(f"{table}, averages", model, name, value, mean, OF_A_MEAN)


def _correlation(folder: str, recalls: Cells, accuracies: Cells) -> RecomputedNumber:
  """Returns Pearson's coefficient over the models and languages in both tables."""
  pairs = [
    (recall, accuracies[model, _CODES.get(language, language)])
    for (model, language), recall in recalls.items()
    if language not in _NOT_CORRELATED
  ]
  coefficient = float(np.corrcoef(np.array(pairs).T)[0, 1])
  label = f"{folder} (n {len(pairs)})"
  return RecomputedNumber(
    "Pearson, text to picture and accuracy", label, _PRINTED_CORRELATIONS[folder], coefficient
  )


def _accuracies_by_prompt(
  results: pathlib.Path, absent: list[str]
) -> Iterator[tuple[str, dict[str, dict[str, float]]]]:
  """Yields a model, and prompts -> language code -> top-1 in per cent; `results` is as for `recompute`.

  Each model without a file becomes a line of `absent`.
  """
  for model, rows in _results(results / "babel-imagenet", _Accuracies, absent):
    of_prompt: dict[str, dict[str, float]] = {_LABEL: {}, _PROMPTS: {}}
    for row in rows:
      of_prompt.setdefault(row.prompt, {})[row.lang.lower()] = 100 * row.accuracy
    yield model, of_prompt


def _accuracies(results: pathlib.Path, absent: list[str]) -> Iterator[tuple[tuple[str, str], float]]:
  for model, of_prompt in _accuracies_by_prompt(results, absent):
    for language, accuracy in {**of_prompt[_LABEL], **of_prompt[_PROMPTS]}.items():
      yield (model, language), accuracy


def _recalls(folder: pathlib.Path, absent: list[str]) -> Iterator[tuple[tuple[str, str], float]]:
  for model, rows in _results(folder, _Recalls, absent):
    for row in rows:
      # xFlickrCo's file has ja, its table jp.
      language = "jp" if folder.name == "xflickrco" and row.lang == "ja" else row.lang
      yield (model, language), 100 * row.recall


def _results(folder: pathlib.Path, kind: Any, absent: list[str]) -> Iterator[tuple[str, list[Any]]]:
  for stem, model in _MODELS.items():
    path = folder / f"{stem}.json"
    if not path.is_file():
      absent.append(f"{path} ({model})")
      continue
    hint = "fetch it again from the paper's repository"
    yield model, jsonl.read_document(path, kind, "not a result file of Babel-ImageNet", hint).results
