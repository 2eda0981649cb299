"""Layouts of caption files, by the names of their fields: whose they are, and where key, language and captions stand.

Release: one line per image with `image/key`, `image/locale` (optional) and, for each language code, an object with the
list `caption`, and the list `caption/tokenized` with the same captions split into words by the release.
Plain: one row per caption, `{"image/key": ..., "language": ..., "caption": ...}`; the key may also be called `key`,
`image_id` or `id`, and the language `lang`, `language_code` or `lang_code`.
COCO: annotations are `{"images": [{"id": ...}, ...], "annotations": [{"image_id": ..., "caption": ...}, ...]}`, results
`[{"image_id": ..., "caption": ...}, ...]` (https://cocodataset.org/#format-data). Neither names a language. The key of
an image is its id as a string, so the ids 7, 7.0 and "7" are the same image.
big_vision: `_preds.json` and `_annotations.json` are COCO results whose ids are KEY_CODE (coco_caption.py); storepreds
writes `id` instead of `image_id`.
lmms-eval: `*_samples_*.jsonl` has a row per sample (evaluation_tracker.py), with `image_id` and `answer` in the objects
of its metrics (tasks/coco_cap/utils.py); its results for COCO's test hold a list of one caption.
VLMEvalKit: a table of `index`, `prediction` and `answer`, a list written as Python does (dataset/image_caption.py).
Centurio: rows of `output_text`, `image_id` and `text_label`, which is the language (src/baseline_eval/main.py).
Hugging Face: floschne/xm3600 has a row per image in a file per language, with the list `captions`.
OpenAI's, Anthropic's and Gemini's batches: see `batch_files`.
Flickr8k, Flickr30k, COCO-CN: lines of KEY#N, a tab and a caption. Also tables: `image,caption`, even in a `.txt`, and
`image_name| comment_number| comment`, whose key is the name of the picture.
Karpathy: `{"images": [{"cocoid": ..., "split": ..., "sentences": [{"raw": ...}, ...]}, ...]}`.
"""

import ast
import dataclasses
import re
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from xmcap import languages
from xmcap.errors import UsageError
from xmcap.scoring import files
from xmcap.scoring.reading import batch_files
from xmcap.scoring.reading.inputs import Input
from xmcap.terminal import shown

Report = Callable[[str, str, str], object]
"""Called with kind, place and message of a problem in a line; if it returns, that part of the line is skipped."""

_FIRST = re.compile(rb'\s*\{\s*"(info|licenses|images|annotations|categories|type)"\s*:')
_LATER = re.compile(rb'"(images|annotations)"\s*:\s*\[')
_KEYS = ("image/key", "key", "image_id", "id")
_LANGUAGES = ("language", "lang", "language_code", "lang_code")  # a `locale` may be the region of the image
LINE_KEY = "KEY#N"
"""The field of the key in lines of text that begin with it."""

_FLICKR = {
  ("image", "caption"): "the key of an image is its 'image'",
  ("image_name", "comment"): "the key of an image is its 'image_name'",
  (LINE_KEY, "caption"): "each line begins with the key of its image",
}
_LONGEST_LIST = 1 << 20
_STRINGS = frozenset({str})
_TABLE_INDEX = ("", "Unnamed: 0", "__index_level_0__")  # how pandas calls its row numbers


@dataclasses.dataclass(frozen=True)
class Layout:
  """Where rows have the key of their image and its captions.

  Attributes:
    key: the field of the key; "" if rows have none.
    captions: the field of the captions.
    whose: whose layout it is and what is read, for a note; "" for the layouts that the documentation asks for.
    tokenized, locale: the fields of the captions in words, and of the region.
    language: the field of the language, which rows need not have.
    get_key, get_captions: read the value from a row and its place; None: it stands in the field as it is.
  """

  key: str
  captions: str = "caption"
  whose: str = ""
  tokenized: str = "caption/tokenized"
  locale: str = "image/locale"
  language: str = "language"
  get_key: Callable[[dict[str, Any], str], Any] | None = None
  get_captions: Callable[[dict[str, Any], str], Any] | None = None


def of_rows(first: dict[str, Any], what: str, where: str, ordered: bool = False) -> Layout:
  """Returns the layout of rows, given the first.

  Args:
    first: the first row.
    what: `references` or `predictions`.
    where: its place in messages.
    ordered: whether rows without a key are in the order of the references.

  Raises:
    UsageError: the fields are those of no layout; the message has the fields found and wanted.
  """
  names = first.keys()
  is_reference = what == "references"
  if {"doc_id", "filtered_resps"} <= names:
    key = "image_id" if _metrics(first) else "doc_id"
    return Layout(
      key,
      "answer" if is_reference else "filtered_resps",
      f"lmms-eval's samples: the key of an image is its {key}",
      get_key=_metrics_id if key == "image_id" else None,
      get_captions=_metrics_answer if is_reference else _response,
    )
  if {"index", "prediction"} <= names:
    field, get = ("answer", _answer) if is_reference else ("prediction", None)
    return Layout("index", field, "VLMEvalKit's table: the key of an image is its index", get_captions=get)
  if {"output_text", "image_id", "text_label"} <= names and not is_reference:
    return Layout(
      "image_id", "output_text", "Centurio's outputs: the language is their text_label", language="text_label"
    )
  if not is_reference and (batch := batch_files.whose(names)):
    key, whose = batch
    note = f"{whose} batch: the key of an image is its {key}"
    return Layout(key, "response", note, get_captions=batch_files.answer)
  keys = [name for name in _KEYS if name in names]
  if keys == ["image_id", "id"]:
    keys = ["image_id"]  # as in COCO, where `id` is the caption's
  if len(keys) == 1 and is_reference and "captions" in names and "caption" not in names:
    whose = "Hugging Face's rows, a picture each"
    return Layout(keys[0], "captions", whose, "captions_tokenized", "image_locale")
  language = next((name for name in _LANGUAGES if name in names), "language")
  others = names - {"caption", language, *_TABLE_INDEX}
  if "caption" in names and len(keys) == 1:
    whose = "the key of an image is its id" if keys == ["id"] else ""
    return Layout(keys[0], whose=whose, language=language)
  if "caption" in names and ordered and not others:
    return Layout("", language=language)
  for (key, captions), whose in _FLICKR.items():
    if not keys and {key, captions} <= names:
      return Layout(key, captions, whose, language=language)
  found = shown(", ".join(names)) or "empty"
  wanted = "captions" if is_reference else "a caption"
  raise UsageError(
    f"{where}: the columns are '{found}'; wanted are 'caption' ({wanted}), one of {', '.join(_KEYS)}, and "
    "'language' or --language=CODE; rename or remove columns"
  )


def _metrics(row: dict[str, Any]) -> list[dict[str, Any]]:
  """Returns the objects of lmms-eval's metrics, which all name the image."""
  return [value for value in row.values() if isinstance(value, dict) and "image_id" in value]


def _metrics_id(row: dict[str, Any], where: str) -> str:
  found = {id_of(of_metric, "image_id", where) for of_metric in _metrics(row)}
  if len(found) != 1:
    raise UsageError(f"{where}: its metrics name {len(found)} images as 'image_id'; keep the row's own")
  return found.pop()


def _metrics_answer(row: dict[str, Any], where: str) -> list[str]:
  answers = [of_metric["answer"] for of_metric in _metrics(row) if "answer" in of_metric]
  return _list({"answer": answers[0]} if answers else {"answer": row.get("target")}, where)


def _answer(row: dict[str, Any], where: str) -> list[str]:
  return _list(row, where)


def _list(row: dict[str, Any], where: str) -> list[str]:
  """Returns `answer`, a list, a list that was written as Python does, or a single text."""
  value = row.get("answer")
  if isinstance(value, str) and value.lstrip().startswith("[") and len(value) <= _LONGEST_LIST:
    try:
      value = ast.literal_eval(value.strip())  # literals only: it runs no code
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
      raise UsageError(f"{where}: 'answer' is a broken list; write it as ['a dog', 'the dog']") from None
  found = [value] if isinstance(value, str) else texts(value)
  if not found:
    raise UsageError(f"{where}: 'answer' is missing or not a list of texts; these rows hold no references")
  return found


def _response(row: dict[str, Any], where: str) -> Any:
  value = row.get("filtered_resps")
  while isinstance(value, list) and len(value) == 1 and isinstance(value[0], list):
    value = value[0]
  return value


def key_of(row: dict[str, Any], layout: Layout, where: str) -> str:
  """Returns the key of the image of a row; UsageError if it has none."""
  value = layout.get_key(row, where) if layout.get_key else row.get(layout.key)
  return value if isinstance(value, str) and value else id_of({layout.key: value}, layout.key, where)


def is_annotations(head: bytes) -> bool:
  """Whether the first bytes of a file show COCO annotations rather than a line of captions."""
  if _FIRST.match(head):
    return True
  return head.lstrip()[:1] == b"{" and b'"image/key"' not in head and _LATER.search(head) is not None


def is_header(line: str) -> bool:
  """Whether the first line of a text shows one of Flickr's tables."""
  names = {name.strip() for name in re.split(r"[,|]", line)}
  return any(names.issuperset(pair) for pair in _FLICKR)


def is_results(head: bytes) -> bool:
  """Whether the first bytes of a file show a JSON list."""
  return head.lstrip()[:1] == b"["


def refuse(kind: str, where: str, problem: str) -> NoReturn:
  """The strict `Report`: raises a UsageError."""
  del kind
  raise UsageError(f"{where}: {problem}")


def text(row: dict[str, Any], member: str, where: str, hint: str = "") -> str:
  """Returns a field that must be a string; UsageError if it is not."""
  value = row.get(member)
  if not isinstance(value, str):
    raise UsageError(f"{where}: '{member}' is missing or not a string{hint}")
  return value


def texts(value: Any) -> list[str] | None:
  """Returns `value` if it is a list of strings, else None."""
  return value if isinstance(value, list) and _STRINGS.issuperset(map(type, value)) else None


def released(
  row: dict[str, Any], where: str, report: Report = refuse
) -> Iterator[tuple[str, list[str], Any]]:
  """Yields (language, captions, unchecked `caption/tokenized`) of a line of the release."""
  for name, value in row.items():
    if name.startswith("image/"):
      continue
    if not languages.is_known(name):
      report("unknown_language", where, files.unknown_language(name))
      continue
    captions = texts(value.get("caption")) if isinstance(value, dict) else None
    if captions is None:
      report("missing_field", where, f"'{name}' must be an object whose 'caption' is a list of strings")
      continue
    yield name, captions, value.get("caption/tokenized")


def annotations(source: Input) -> tuple[dict[str, list[str]], dict[str, str], list[str]]:
  """Returns image key -> captions, in the order of `images`, or of the annotations if there is no `images`.

  Also returns image key -> split, if it is Karpathy's file, and notes about what was counted: annotations that repeat
  the `id` of an earlier one, and images that are listed twice, as in some files of other programs. UsageError if a
  field is missing or has the wrong type, an image occurs twice and differs, or the image of a caption is unknown.
  """
  document = source.document()
  if not isinstance(document, dict):
    raise UsageError(f"{source.name}: must be an object, as COCO's annotations are")
  if "annotations" not in document and _is_karpathy(document.get("images")):
    return _karpathy(document["images"], source.name)
  captions: dict[str, list[str]] = {}
  listed: dict[str, dict[str, Any]] = {}
  twice = 0
  for where, image in _objects(document.get("images", []), f"{source.name}, images"):
    key = id_of(image, "id", where)
    if listed.setdefault(key, image) != image:
      raise UsageError(f"{where}: id {shown(key)} occurs twice; keep one")
    twice += key in captions
    captions[key] = []
  ids: list[str] = []
  for where, annotation in _objects(document.get("annotations"), f"{source.name}, annotations"):
    key = id_of(annotation, "image_id", where)
    if "id" in annotation:
      ids.append(repr(annotation["id"]))
    if key not in captions and "images" in document:
      raise UsageError(f"{where}: image_id {shown(key)} is not among the images; add or remove it")
    captions.setdefault(key, []).append(text(annotation, "caption", where))
  notes = []
  if repeated := len(ids) - len(set(ids)):
    have = "has" if repeated == 1 else "have"
    notes.append(f"{repeated:,} of the annotations {have} the id of an earlier one; all captions count")
  if twice:
    notes.append(f"{files.count(twice, 'image')} listed twice in the same words; counted once")
  return captions, {}, notes


def _is_karpathy(images: Any) -> bool:
  return (
    isinstance(images, list) and bool(images) and isinstance(images[0], dict) and "sentences" in images[0]
  )


def _karpathy(images: list[Any], name: str) -> tuple[dict[str, list[str]], dict[str, str], list[str]]:
  captions: dict[str, list[str]] = {}
  splits: dict[str, str] = {}
  member = "cocoid" if "cocoid" in images[0] else "filename"
  for where, image in _objects(images, f"{name}, images"):
    key = id_of(image, member, where)
    if key in captions:
      raise UsageError(f"{where}: {member} {shown(key)} occurs twice; keep one")
    sentences = _objects(image.get("sentences"), f"{where}, sentences")
    captions[key] = [text(sentence, "raw", place) for place, sentence in sentences]
    splits[key] = text(image, "split", where)
  return captions, splits, [f"Karpathy's file: the key of an image is its {member}"]


def _objects(values: Any, where: str) -> Iterator[tuple[str, dict[str, Any]]]:
  if not isinstance(values, list):
    raise UsageError(f"{where}: must be a list of objects, as in COCO's JSON")
  for position, value in enumerate(values):
    if not isinstance(value, dict):
      raise UsageError(f"{where}[{position}]: must be an object")
    yield f"{where}[{position}]", value


def id_of(item: dict[str, Any], member: str, where: str) -> str:
  """Returns an id as a string; UsageError if it is neither a whole number nor a string."""
  value = item.get(member)
  if isinstance(value, float) and value.is_integer():
    value = int(value)  # as pandas writes whole numbers beside missing ones
  # In Python True is an int, but it is not a valid id.
  if not isinstance(value, int | str) or isinstance(value, bool) or value == "":
    raise UsageError(f"{where}: '{member}' is missing or neither a whole number nor a string")
  return str(value)
