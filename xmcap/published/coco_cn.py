"""Recomputes the captioning table of the COCO-CN paper from the outputs of five systems that its authors released.

Source: Li et al., "COCO-CN for Cross-Lingual Image Tagging, Captioning and Retrieval" (2019), Table 8, stored as
printed in this folder. The outputs are `Data/Systems/result_SYSTEM.txt` and
`Data/COCO/merged_captions_coco-cn_test.json` of the repository COCO-CN-Results-Viewer; each `result_SYSTEM.txt` also
has the authors' scores of each image. No other system of the table has released outputs.
"""

import itertools
import os
import pathlib

import msgspec
import numpy as np

from xmcap import papers
from xmcap.errors import UsageError
from xmcap.published.findings import RecomputedNumber, RecomputedTable
from xmcap.reading import jsonl
from xmcap.reading.references import read_references
from xmcap.scoring.result import Result
from xmcap.scoring.score import score

_REFERENCES = "merged_captions_coco-cn_test.json"
_FOLDERS = {"references": "Data/COCO", "outputs": "Data/Systems"}  # in the repository
_SYSTEMS = {
  "flickr8k-cn": "Flickr8k-CN",
  "aic-icc": "AIC-ICC",
  "coco-mt": "COCO-MT",
  "coco-cn": "COCO-CN",
  "seqlearn": "Sequential Learning",
}
# Metric -> its column in the printed table, its name in the files, and its factor to per cent.
_METRICS = {
  "bleu_4": ("bleu4", "Bleu_4", 1),
  "meteor_char": ("meteor", "METEOR", 100),
  "rouge_l": ("rouge_l", "ROUGE_L", 100),
  "cider_d": ("cider", "CIDEr", 100),
}
_OF_FILES = "the authors' file of the system prints the same as the paper"
_REASONS = {"meteor_char": "METEOR's own search finds another alignment than meteor_char"}
_OF_PICTURES = ("cider_d", "rouge_l", "meteor_char")  # BLEU of an image is smoothed in another way there


class _Caption(msgspec.Struct):
  caption: str


class _ScoredImage(msgspec.Struct):
  caption: tuple[_Caption]  # exactly one
  cider_d: float = msgspec.field(name="CIDEr")
  rouge_l: float = msgspec.field(name="ROUGE_L")
  meteor_char: float = msgspec.field(name="METEOR")


class _File(msgspec.Struct):
  pictures: dict[str, _ScoredImage] = msgspec.field(name="imgToEval")


def recompute(results: str | os.PathLike) -> RecomputedTable:
  """Recomputes those rows of Table 8 whose outputs are in the folder, and the score of each image.

  Args:
    results: the repository COCO-CN-Results-Viewer as it is, or a folder with its files side by side.

  Raises:
    UsageError: the folder has no outputs, or a file is malformed.
  """
  folders = {kind: pathlib.Path(results, folder) for kind, folder in _FOLDERS.items()}
  if not folders["outputs"].is_dir():
    folders = dict.fromkeys(_FOLDERS, pathlib.Path(results))
  paths = {system: folders["outputs"] / f"result_{stem}.txt" for stem, system in _SYSTEMS.items()}
  present = {system: path for system, path in paths.items() if path.is_file()}
  if not present or not (folders["references"] / _REFERENCES).is_file():
    raise UsageError(
      f"{results}: no outputs of COCO-CN, such as {_REFERENCES} and result_seqlearn.txt; give the repository "
      "COCO-CN-Results-Viewer, or a folder that has its files"
    )
  references = read_references(folders["references"] / _REFERENCES, language="zh")
  printed = {row["training"]: row for row in papers.read("cococn_table8_captioning_auto")}
  hint = "fetch it again from COCO-CN-Results-Viewer"
  rows, of_images = [], {name: [] for name in _OF_PICTURES}
  for system, path in present.items():
    images = jsonl.read_document(path, _File, "no results of COCO-CN", hint).pictures
    predictions = {key: {"zh": image.caption[0].caption} for key, image in images.items()}
    result = score(references, predictions, metrics=tuple(_METRICS), tokenizer="split")
    for name, (column, heading, factor) in _METRICS.items():
      recomputed = factor * result.table.rows["zh"][name]
      label = f"{system}, {heading}"
      rows.append(RecomputedNumber("Table 8", label, printed[system][column], recomputed, reason=_OF_FILES))
    for name in _OF_PICTURES:
      of_images[name] += _pictures(system, name, images, result)
  absent = tuple(f"{path} ({system})" for system, path in paths.items() if system not in present)
  return RecomputedTable("COCO-CN", (*rows, *itertools.chain.from_iterable(of_images.values())), absent)


def _pictures(
  system: str, name: str, images: dict[str, _ScoredImage], result: Result
) -> list[RecomputedNumber]:
  statistics = result.statistics["zh"]
  scores: np.ndarray = 100 * statistics.image_scores(name)
  table = f"{_METRICS[name][1]} of each picture"
  return [
    RecomputedNumber(
      table,
      f"{system}, picture {key}",
      f"{100 * getattr(images[key], name):.1f}",
      score,
      reason=_REASONS.get(name, ""),
    )
    for key, score in zip(statistics.keys, scores.tolist(), strict=True)
  ]
