"""The wrong file in the right place: what a file or folder is by its content, and where it belongs.

Asked when a command has failed, so that it costs nothing else, and cannot refuse what a reader takes; and before it
runs of the options whose readers take any line of text.
"""

import csv
import dataclasses
import io
import json
import os
import re
import shlex
from collections.abc import Callable, Collection, Mapping
from typing import Any

from xmcap.errors import UsageError
from xmcap.reading.inputs import Input
from xmcap.terminal import shown

_HEAD = 1 << 16  # bytes of a file that are looked at
_NAMES = re.compile(r'"((?:[^"\\]|\\.)*)"\s*:')
_BINARY = {b"\x93NUMPY": "array", b"\x89PNG": "picture", b"\xff\xd8\xff": "picture"}
_ENDINGS = {".safetensors": "array", ".gin": "gin"}
_MARKUP = re.compile(rb"\s*<(!doctype|html)", re.IGNORECASE)
_PICTURES = (".png", ".jpg", ".jpeg", ".webp")
_IMAGE_PARTS, _LANGUAGE_MODELS = {"vit", "stored", "vector_and_labels"}, {"t5", "lstm"}


@dataclasses.dataclass(frozen=True)
class Content:
  """What is seen of a file or folder.

  Attributes:
    form: `json`, `table` with a header, `folder`, `model`, `markup`, `array`, `picture` or `gin`.
    names: the fields of the first row or of the document, the header; the files of a folder, the parts of a model.
    first: the first row, or the document; {} if there is none, or it is larger than what is seen of it.
  """

  form: str
  names: frozenset[str] = frozenset()
  first: Mapping[str, Any] = dataclasses.field(default_factory=dict)


Shows = Callable[[Content], Any]


@dataclasses.dataclass(frozen=True)
class Kind:
  """A kind of file or folder: what it is, the command for it (`{0}`: its path, `{1}`: its folder), what shows it."""

  name: str
  belongs: str
  shows: Shows


def _of(form: str, *names: str, any_of: tuple[str, ...] = ()) -> Shows:
  """Shows one of the forms, with all of these names, and with any of others."""
  return lambda content: (
    content.form in form.split("|")
    and content.names.issuperset(names)
    and (not any_of or content.names.intersection(any_of))
  )


def _has_lists(content: Content) -> bool:
  """Whether a row has lists of captions, for itself or for each language."""
  values = [content.first.get(name) for name in ("caption", "captions", "references", "sentences")]
  values += [of.get("caption") for of in content.first.values() if isinstance(of, dict)]
  return any(isinstance(value, list) for value in values)


def _has_classes(content: Content) -> bool:
  """Whether a document has [[index, ...], [label, ...]] of languages, as babel_imagenet.json."""
  return any(
    isinstance(of, list) and len(of) == 2 and all(isinstance(part, list) for part in of)
    for of in content.first.values()
  )


def _has_prompts(content: Content) -> bool:
  """Whether a document has prompts of languages, with {} for the class."""
  return any(
    isinstance(of, list) and any("{}" in str(prompt) for prompt in of) for of in content.first.values()
  )


def _is_captioner(content: Content) -> Any:
  return content.form == "model" and content.names & _IMAGE_PARTS and content.names & _LANGUAGE_MODELS


def _has_pictures(content: Content) -> bool:
  return content.form == "folder" and any(name.lower().endswith(_PICTURES) for name in content.names)


_ROWS = "json|table"
KINDS: dict[str, Kind] = {
  "sxs": Kind(
    "these are ratings side by side", "xmcap human sxs --ratings={0}",
    _of(_ROWS, "image/key", "left", "right", "rating"),
  ),
  "thumb": Kind(
    "these are ratings by THumB", "xmcap human thumb --ratings={0}", _of(_ROWS, "SYS", "seg_id", "hyp")
  ),
  "quality": Kind(
    "these are ratings of quality", "xmcap human quality --ratings={0}",
    # That of a user's own rubric is a number.
    lambda content: _of(_ROWS, "rater", "quality")(content) and isinstance(content.first.get("quality", ""), str),
  ),
  "rubric": Kind(
    "these are ratings by a rubric", "xmcap human rubric --ratings={0}", _of(_ROWS, "rater", "system")
  ),
  "saved": Kind(
    "this was saved by a rater's page, and is to be joined with its key", "xmcap human rate --join=KEY {0}",
    _of("json", "item", "rater"),
  ),
  "key": Kind(
    "this is the key of a rating page", "xmcap human rate --join={0} RATINGS", _of("json", "item", "protocol")
  ),
  "annotations": Kind(
    "this was saved by an annotator's page", "xmcap human annotations {0}", _of("json", "annotator", "events")
  ),
  "comparisons": Kind(
    "these are comparisons of systems", "xmcap human sxs --comparisons=GROUP={0}",
    _of("table", "m1", "m2", "delta_sxs"),
  ),
  "judgements": Kind(
    "these are human judgements of captions", "xmcap human judgements --judgements={0}",
    lambda content: _of(_ROWS, "refs", any_of=("mt", "cand"))(content) or "human_judgement" in content.names,
  ),
  "rubric_file": Kind(
    "this is a rubric", "xmcap human rate --protocol={0}", _of("json", "name", "task", "criteria")
  ),
  "frequencies": Kind(
    "these are document frequencies", "xmcap score --df={0}", _of("json", "tokenizer", "vocabulary", "orders")
  ),
  "tags": Kind("these are tags", "xmcap score tags, as --references or --predictions", _of("json", "tags")),
  "references": Kind(
    "these are references", "xmcap score --references={0}",
    lambda content: _has_lists(content) or _of("json", "images", "annotations")(content),
  ),
  "prompts": Kind("these are prompts", "xmcap embed --labels=FILE --prompts={0}", _has_prompts),
  "captions": Kind("these are captions", "xmcap score --predictions={0}", _of(_ROWS, "caption")),
  "scores": Kind(
    "this is a table of scores; its folder is for", "xmcap compare {1} OTHER",
    lambda content: _of("table", "language", any_of=("images", "pictures", "classes"))(content)
    or _of("json", "signature", "languages")(content),
  ),
  "counts": Kind(
    "these are counts of languages", "xmcap score correlation --counts={0}", _of("table", "language", "count")
  ),
  "metrics": Kind("these are the metrics of a run", "xmcap runs {1}", _of("json", "step", "time")),
  "classes": Kind("these are names of classes", "xmcap score zero-shot --labels={0}", _has_classes),
  "assignment": Kind(
    "this says who annotates what", "xmcap human annotations --assignment={0}", _of("json", "image/key", "annotator")
  ),
  "gin": Kind("this is a configuration", "xmcap train --gin_file={0}", _of("gin")),
  "page": Kind("this is a page", "open it in a browser", _of("markup")),
  "array": Kind(
    "these are numbers, such as embeddings", "xmcap score retrieval or zero-shot", _of("array")
  ),
  "picture": Kind("this is a picture", "xmcap caption --model_dir=DIR {0}", _of("picture")),
  "tagger": Kind("this is a tagger", "xmcap tag --model_dir={0}", _of("model", "tagger")),
  "dual": Kind("this is a dual tower", "xmcap embed --model_dir={0}", _of("model", "dual")),
  "words": Kind("this is a Word2VisualVec", "xmcap embed --model_dir={0}", _of("model", "words")),
  "captioner": Kind("this is a captioner", "xmcap caption --model_dir={0}", _is_captioner),
  "language_model": Kind(
    "this is a language model, from which a run may start", "xmcap train --gin.PRETRAINED=\"'{0}'\"",
    _of("model", any_of=tuple(_LANGUAGE_MODELS)),
  ),
  "tower": Kind("this is an image tower", "xmcap features --model_dir={0}", _of("model", any_of=tuple(_IMAGE_PARTS))),
  "exported": Kind("this is an exported captioner", "docs/export.md runs it", _of("folder", "captioner.json")),
  "corpus": Kind(
    "this is a corpus", "xmcap data show {0}", _of("folder", any_of=("dataset_info.json", "annotations.jsonl"))
  ),
  "embedded": Kind(
    "this is a folder of xmcap embed", "xmcap score retrieval --pictures={0}/pictures.npy --texts={0}/captions",
    _of("folder", "embeddings.json"),
  ),
  "scored": Kind("this is a folder of scores", "xmcap compare {0} OTHER", _of("folder", "table.json")),
  "checked": Kind("this is a folder of xmcap check", "read its check.md", _of("folder", "check.md")),
  "compared": Kind("this is a folder of xmcap compare", "read its comparison.md", _of("folder", "comparison.json")),
  "by_language": Kind(
    "these are embeddings of texts", "xmcap score retrieval or zero-shot, as --texts={0}",
    lambda content: content.form == "folder" and any(name.endswith(".npy") for name in content.names),
  ),
  "labelled": Kind(
    "this is a folder of labels, for a tagger's training", "LabelStream.labels", _of("folder", "labels.txt")
  ),
  "hub": Kind("this is a model of Hugging Face", "xmcap convert --input={0} --out=DIR", _of("folder", "config.json")),
  "pictures": Kind("this is a folder of pictures", "xmcap caption --model_dir=DIR {0}", _has_pictures),
}  # fmt: skip
"""The kinds, of which the first that shows counts."""

_CAPTIONS = {"captions", "references"}
_MODELS = {"captioner", "tagger", "dual", "words", "language_model", "tower"}
_TAKES: dict[str, set[str]] = {
  "human sxs ratings": {"sxs"}, "human thumb ratings": {"thumb"}, "human quality ratings": {"quality"},
  "human rubric ratings": {"rubric"}, "human rate ratings": {"saved"}, "join": {"key"},
  "files": {"annotations"}, "comparisons": {"comparisons"}, "judgements": {"judgements"}, "counts": {"counts"},
  "references": _CAPTIONS, "captions": _CAPTIONS, "sentences": _CAPTIONS, "predictions": {"captions"},
  "check systems": {"captions"}, "human rate predictions": {"captions", "tags"}, "tags": {"tags"},
  "score tags references": {"tags"}, "score tags predictions": {"tags"}, "score tags labels": set(),
  "score zero-shot labels": {"classes"}, "embed labels": {"classes"}, "compare systems": {"scored"},
  "scores": {"scored", "array"}, "silver": {"scored"}, "zero_shot": {"scored"}, "retrieval": {"scored"},
  "score baseline": {"scored"}, "targets": {"array"}, "score zero-shot pictures": {"array"},
  "score retrieval pictures": {"array"}, "candidates": {"array", "embedded"}, "queries": {"array", "embedded"},
  "texts": {"by_language"}, "df": {"frequencies"}, "prompts": {"prompts"}, "assignment": {"assignment"},
  "gin_file": {"gin"}, "human rate protocol": {"rubric_file"}, "validation_scores": {"array"}, "against": {"corpus"},
  "data labels labels": {"classes"}, "score vectors": {"embedded"}, "data words vectors": {"array"},
  "features": {"array"},
  **dict.fromkeys(("subset", "watch_list", "map", "classes", "guidelines", "keys", "data tags labels"), set()),
  "model_dir": {"captioner"}, "eval model_dir": _MODELS, "features model_dir": _MODELS,
  "tag model_dir": {"tagger"}, "embed model_dir": {"dual", "words"}, "corpus": {"corpus", "references"},
  "dir": {"corpus"}, "runs dirs": _MODELS, "images": {"picture", "pictures"},
  "features pictures": {"picture", "pictures"}, "adapters": set(), "input": {"hub", *_MODELS},
}  # fmt: skip
"""Option, or command and option -> the kinds that it takes; of options that are not here, nothing is known."""

_POSITIONAL = ("dir", "dirs", "files", "systems", "caption images", "features pictures", "human rate ratings")


def explained(arguments: Any, options: Collection[str] | None = None) -> str | None:
  """Returns what an input of a command is, and where it belongs; None if each is where it belongs.

  `options` are those to look at; None: all.
  """
  command = arguments.prog.removeprefix("xmcap ")
  for option, values in vars(arguments).items():
    of_command = f"{command} {option}"
    takes = _TAKES.get(of_command, _TAKES.get(option))
    if takes is None or (options is not None and option not in options):
      continue
    for value in values if isinstance(values, list) else [values]:
      path = _path(value)
      name = recognised(path) if path else None
      if name is not None and name not in takes:
        kind = KINDS[name]
        belongs = kind.belongs.format(shlex.quote(path), shlex.quote(os.path.dirname(path) or "."))
        where = value if option in _POSITIONAL or of_command in _POSITIONAL else f"--{option}={value}"
        return f"{shown(where)}: {kind.name}: {belongs}"
  return None


def recognised(path: str) -> str | None:
  """Returns the name in `KINDS` of what a file or folder is; None if that cannot be seen."""
  try:
    content = _of_folder(path) if os.path.isdir(path) else _of_file(path)
  except (OSError, UsageError, ValueError, RecursionError, csv.Error):
    return None
  return next((name for name, kind in KINDS.items() if content and kind.shows(content)), None)


def _path(value: Any) -> str:
  """Returns the path in PATH or NAME=PATH; "" if it is no regular file and no folder."""
  texts = (value, value.partition("=")[2]) if isinstance(value, str) else ()
  return next((text for text in texts if os.path.isfile(text) or os.path.isdir(text)), "")


def _of_folder(path: str) -> Content:
  names = frozenset(os.listdir(path))
  if "model.json" not in names:
    return Content("folder", names)
  with open(os.path.join(path, "model.json"), "rb") as file:
    return Content("model", frozenset(json.loads(file.read(_HEAD))))


def _of_file(path: str) -> Content | None:
  with open(path, "rb") as file:
    head = file.read(_HEAD)
  form = next((form for magic, form in _BINARY.items() if head.startswith(magic)), "")
  form = form or _ENDINGS.get(os.path.splitext(path)[1], "")
  if form:
    return Content(form)
  if _MARKUP.match(head):
    return Content("markup")
  with Input(path) as source:  # which unpacks
    text = source.head[:_HEAD].decode("utf-8", "replace").lstrip()
  return _of_json(text) if text[:1] in ("{", "[") else _of_table(text)


def _of_json(text: str) -> Content | None:
  try:
    first, _ = json.JSONDecoder().raw_decode(text.lstrip("[ \r\n\t"))
  except ValueError:
    return Content("json", frozenset(_NAMES.findall(text)))
  return Content("json", frozenset(first), first) if isinstance(first, dict) else None


def _of_table(text: str) -> Content | None:
  header = text.partition("\n")[0]
  cells = next(csv.reader(io.StringIO(header), delimiter=max(",;\t", key=header.count)), [])
  return Content("table", frozenset(map(str.strip, cells))) if len(cells) > 1 else None
