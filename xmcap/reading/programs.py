"""Rows that programs write and data sets have, known by their fields: a table of whose they are and what is read."""

import dataclasses
from collections.abc import Callable, Set
from typing import Any

from xmcap.errors import UsageError
from xmcap.reading import batch_files, layouts

Get = Callable[[dict[str, Any], str], Any]
"""Reads a value from a row and its place in messages."""


@dataclasses.dataclass(frozen=True)
class Program:
  """The rows of a program or a data set.

  Attributes:
    whose: their name, for a note.
    fields: the fields that show them; all must be there.
    key: the field of the key; "": rows have none and are refused.
    predictions, references: the field of the captions, or (field, language) of several; "": rows have none.
    language, repeats: as in `Layout`; of references.
    shows: what else of a row shows them.
    get_key, get_predictions, get_references: read the value; None: it stands in the field as it is.
  """

  whose: str
  fields: Set[str]
  key: str
  predictions: str = ""
  references: str | tuple[tuple[str, str], ...] = ""
  language: str = "language"
  repeats: bool = False
  shows: Callable[[dict[str, Any]], Any] = bool
  get_key: Get | None = None
  get_predictions: Get | None = None
  get_references: Get | None = None


def find(row: dict[str, Any]) -> Program | None:
  """Returns the first program whose fields a row has."""
  return next((program for program in PROGRAMS if program.fields <= row.keys() and program.shows(row)), None)


def layout(first: dict[str, Any], role: str, where: str) -> layouts.Layout | None:
  """Returns the layout of a program's rows, given the first; None for other rows.

  UsageError if the rows have no key of an image, or none of their `role`, `references` or `predictions`.
  """
  program = find(first)
  if program is None:
    return None
  is_reference = role == "references"
  captions = program.references if is_reference else program.predictions
  if not program.key:
    raise UsageError(f"{where}: {program.whose}, which do not name their images; add 'image_id' to each row")
  if not captions:
    raise UsageError(f"{where}: {program.whose}, which have no {role}")
  of_language = f", the language its {program.language}" if program.language != "language" else ""
  return layouts.Layout(
    program.key,
    ((captions, ""),) if isinstance(captions, str) else captions,
    (f"{program.whose}: the key of an image is its {program.key}{of_language}",),
    language=program.language,
    repeats=program.repeats and is_reference,
    get_key=program.get_key,
    get_captions=program.get_references if is_reference else program.get_predictions,
  )


def _metrics(row: dict[str, Any]) -> list[dict[str, Any]]:
  """Returns the objects of lmms-eval's metrics, which all name the image."""
  return [value for value in row.values() if isinstance(value, dict) and "image_id" in value]


def _metrics_id(row: dict[str, Any], where: str) -> str:
  ids = {layouts.id_of(of_metric, "image_id", where) for of_metric in _metrics(row)}
  if len(ids) != 1:
    raise UsageError(f"{where}: its metrics name {len(ids)} images as 'image_id'; keep the row's own")
  return ids.pop()


def _metrics_answer(row: dict[str, Any], where: str) -> list[str]:
  answers = [of_metric["answer"] for of_metric in _metrics(row) if "answer" in of_metric]
  return _answer({"answer": answers[0] if answers else row.get("target")}, where)


def _answer(row: dict[str, Any], where: str) -> list[str]:
  """Returns `answer`, a list, a list that was written as Python does, or a single text."""
  value = layouts.listed(row.get("answer"), where)
  if isinstance(value, str) and value.lstrip().startswith("["):
    raise UsageError(f"{where}: 'answer' is a broken list; write it as ['a dog', 'the dog']")
  answers = [value] if isinstance(value, str) else layouts.texts(value)
  if not answers:
    raise UsageError(f"{where}: 'answer' is missing or not a list of texts; these rows hold no references")
  return answers


def _response(row: dict[str, Any], where: str) -> Any:
  value = row.get("filtered_resps")
  while isinstance(value, list) and len(value) == 1 and isinstance(value[0], list):
    value = value[0]
  return value


def _only_image(row: dict[str, Any], where: str) -> str:
  """Returns the path of the only image of a row of ms-swift, a path or an object with one."""
  images = row.get("images")
  several = images if isinstance(images, list) else [images]
  paths = [image.get("path") if isinstance(image, dict) else image for image in several]
  if len(paths) != 1 or not isinstance(paths[0], str) or not paths[0]:
    raise UsageError(f"{where}: 'images' must be one picture with its path, which is the key of the image")
  return paths[0]


def _is_answer(row: dict[str, Any]) -> bool:
  return "response" in row or "error" in row


_LMMS_EVAL = Program(
  "lmms-eval's samples",
  {"doc_id", "filtered_resps"},
  "doc_id",
  "filtered_resps",
  "answer",
  get_predictions=_response,
  get_references=_metrics_answer,
)

_BATCH = Program("OpenAI's batch", {"custom_id"}, "custom_id", "response", get_predictions=batch_files.answer)

PROGRAMS = (
  # evaluation_tracker.py; tasks/coco_cap/utils.py has `image_id` and `answer` in the objects of its metrics.
  dataclasses.replace(_LMMS_EVAL, key="image_id", shows=_metrics, get_key=_metrics_id),
  _LMMS_EVAL,
  # dataset/image_caption.py: `answer` is a list written as Python does.
  Program(
    "VLMEvalKit's table", {"index", "prediction"}, "index", "prediction", "answer", get_references=_answer
  ),
  # src/baseline_eval/main.py.
  Program(
    "Centurio's outputs",
    {"output_text", "image_id", "text_label"},
    "image_id",
    "output_text",
    language="text_label",
  ),
  # OpenAI's, Anthropic's and Gemini's batches: see `batch_files`.
  dataclasses.replace(_BATCH, shows=_is_answer),
  dataclasses.replace(_BATCH, whose="Anthropic's batch", fields={"custom_id", "result"}),
  dataclasses.replace(
    _BATCH,
    whose="Gemini's batch",
    fields={"key"},
    key="key",
    shows=lambda row: "caption" not in row and _is_answer(row) and not isinstance(row.get("response"), str),
  ),
  # llava/eval/model_vqa_loader.py.
  Program("LLaVA's answers", {"question_id", "text", "model_id"}, "question_id", "text"),
  # swift infer: the images of a row, each with bytes or a path.
  Program(
    "ms-swift's results",
    {"response", "labels", "images"},
    "images",
    "response",
    "labels",
    get_key=_only_image,
  ),
  # train/sft/metric.py and scripts/vllm_infer.py.
  Program("LLaMA-Factory's predictions", {"predict", "label"}, "", "predict", "label"),
  # Each of the five rows of an image has its own `caption_str` and all five `reference_strs`.
  Program("TextCaps", {"image_id", "reference_strs"}, "image_id", "", "reference_strs", repeats=True),
  # What people said of a system's captions, or wrote: it stands beside the caption, which is not scored by mistake.
  Program("ratings of captions by people", {"rater", "language"}, "image/key"),
  Program("what annotators saved", {"annotator", "events"}, "image/key"),
  # ActivityNet, YouCook2: the sentence of a segment is no caption of the whole.
  Program("sentences of segments with timestamps", {"timestamps", "sentences"}, "id"),
  Program("VATEX", {"videoID", "enCap"}, "videoID", references=(("enCap", "en"), ("chCap", "zh"))),
)
