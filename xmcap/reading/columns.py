"""Finds the layout of rows by the names of their fields.

Plain: one row per caption, `{"image/key": ..., "language": ..., "caption": ...}`, with `KEYS` and `LANGUAGES` for other
names. Captions may stand in a field per language (`caption_ko`), references in numbered fields (`caption_1`).
big_vision: `_preds.json` and `_annotations.json` are COCO results whose ids are KEY_CODE (coco_caption.py); storepreds
writes `id` instead of `image_id`.
Hugging Face: floschne/xm3600 has a row per image in a file per language, with the list `captions`.
Flickr8k, Flickr30k, COCO-CN: lines of KEY#N, a tab and a caption. Also tables: `image,caption`, even in a `.txt`, and
`image_name| comment_number| comment`, whose key is the name of the image.
"""

import dataclasses
import re
from collections.abc import Iterable, Mapping
from typing import Any

from xmcap import languages
from xmcap.errors import UsageError
from xmcap.reading import programs
from xmcap.reading.layouts import LINE_KEY, Layout, texts
from xmcap.terminal import shown

KEYS = ("image/key", "key", "image_id", "img_id", "cocoid", "video_id", "videoID", "youtube_id")
FILE_NAMES = (
  "image", "image_path", "file_name", "filename", "file", "path", "filepath", "file_path", "img", "img_path", "fname",
  "image_name", "image_file", "image_file_name", "photo", "picture",
)  # fmt: skip
"""Usual names of the field with the name of the image; of several the first counts."""
LANGUAGES = ("language", "lang", "language_code", "lang_code")  # a `locale` may be the region of the image
LISTS = ("captions", "sentences_raw", "sentences", "annotations_captions", "raw")
TEXTS = ("text", "texts", "sentence", "description", "translation", "caption_str")
"""Usual names of fields with captions, after `caption` and `LISTS`."""
OUTPUTS = (
  "prediction", "predicted_caption", "generated_caption", "generated_text", "model_output", "output", "response",
)  # fmt: skip
"""Usual names of fields with what a model wrote."""
REFERENCES = ("reference", "references", "reference_caption", "ground_truth", "gt_caption", "gt")
"""Usual names of fields with what people wrote, beside a model's."""
OF_KEYS = frozenset((*KEYS, "id", *FILE_NAMES, "image_urls", "custom_id", "doc_id", "index"))
"""Names of fields of keys, which show an object to be a row."""
FIELDS = OF_KEYS | {*LANGUAGES, *LISTS, LINE_KEY, "caption"}

_PREFIX = re.compile(
  r"^(captions?|caps?|texts?|sentences?|descriptions?)[ _:/.-]+"
  r"|(?<![ _:/.-])[ _:/.-]++(captions?|caps?|texts?|sentences?|descriptions?)$",
  re.IGNORECASE,
)
NUMBERED = re.compile(r"(captions?|caps?|references?|refs?|sentences?|comments?)[\s_.-]*\d+", re.IGNORECASE)
_OF_A_ROW = re.compile(r"\d+|https?://.*|.*\.(jpe?g|png|wav|mp4)|\[\{.*", re.IGNORECASE | re.DOTALL)
_BASE64 = re.compile(
  r"data:image/[a-z+.-]+;base64,|(/9j/|iVBORw0KGgo|R0lGOD|UklGR|Qk0|SUkq|TU0A|AAAA)[A-Za-z0-9+/=\s]{64}"
)
"""The beginning of a picture in base64, as VLMEvalKit's and OFA's tables have them: JPEG, PNG, GIF, WebP, BMP, TIFF,
AVIF or HEIC."""
_TABLE_INDEX = ("", "Unnamed: 0", "__index_level_0__")  # how pandas calls its row numbers


@dataclasses.dataclass(frozen=True)
class ColumnNames:
  """Names of columns that the user asked for, in any case; "" and () mean the usual names.

  Attributes:
    image: the column with the name of the image, its key, or the image itself.
    captions: columns with captions, `NAME`, or `LANGUAGE=NAME` for a column in one language.
    language: the column with the language of a row.
    split: the column with its split.
    default_language: language of captions that do not name one.
  """

  image: str = ""
  captions: tuple[str, ...] = ()
  language: str = ""
  split: str = ""
  default_language: str = ""

  @property
  def by_caption(self) -> dict[str, str]:
    """Column with captions -> the language that the user or the name says, or ""; UsageError for an unknown one."""
    elements = [element.partition("=") for element in self.captions]
    return dict(
      (name, _code(first)) if equals else (first, language_in(first)) for first, equals, name in elements
    )

  @property
  def all(self) -> list[str]:
    """All names."""
    return [name for name in (self.image, *self.by_caption, self.language, self.split) if name]


def _code(written: str) -> str:
  return languages.named(written) or languages.canonical(written) or languages.get(written.strip()).code


def is_base64(text: str) -> bool:
  """Whether a text is an image in base64, by its first characters."""
  return _BASE64.match(text) is not None


def language_in(name: str) -> str:
  """Returns the language in the name of a column: `th` for `th`, `caption_th`, `Thai` and `Thai caption`; else ""."""
  bare = bare_of(name)
  return languages.named(str(name)) or (languages.named(bare) if bare else "") or ""


def bare_of(name: str) -> str:
  """Returns the name of a column without `caption_` and the like."""
  return _PREFIX.sub("", str(name).strip())


def layout(
  first: dict[str, Any],
  role: str,
  where: str,
  ordered: bool = False,
  language: str | None = None,
  asked: ColumnNames = ColumnNames(),
) -> Layout:
  """Returns the layout of rows, given the first.

  Args:
    first: the first row.
    role: `references` or `predictions`.
    where: its place in messages.
    ordered: whether rows without a key are in the order of the references.
    language: of captions that come without one; None: not known.
    asked: names of columns; those that the row lacks may be another file's.

  Raises:
    UsageError: the fields are those of no layout; the message has the fields found and wanted.
  """
  folded = {str(name).strip().casefold(): name for name in reversed(first)}
  key, of_language = (folded.get(name.casefold(), "") for name in (asked.image, asked.language))
  captions = tuple(
    (folded[name.casefold()], code) for name, code in asked.by_caption.items() if name.casefold() in folded
  )
  is_asked = bool(key or of_language or captions)
  of_program = None if is_asked else programs.layout(first, role, where)
  if of_program is not None:
    return of_program
  keys = [name for name in _there(KEYS, folded) if name != key] or _there(("id", LINE_KEY), folded)
  file_names = [
    name
    for name in _there(FILE_NAMES, folded)
    if isinstance(value := first.get(name), str) and not is_base64(value)
  ]
  keys = [key] if key else keys
  key = next(iter([*keys, *file_names]), "")
  of_language = of_language or next(iter(_there(LANGUAGES, folded)), "")
  notes = [f"the captions are {shown(', '.join(dict(captions)))}, as --caption_columns says"]
  if not captions:
    captions, notes = _captions(first, folded, role, key, of_language, language, where)
  others = first.keys() - {*dict(captions), of_language, *_TABLE_INDEX}
  if captions and len(keys) < 2 and (key or (ordered and not others)):
    if key not in ("", *KEYS[:3]):
      notes.insert(
        0,
        "each line begins with the key of its image"
        if key == LINE_KEY
        else f"the key of an image is its {key}",
      )
    released = captions == (("captions", ""),)
    return Layout(
      key,
      captions,
      tuple(notes),
      "captions_tokenized" if released else "caption/tokenized",
      "image_locale" if released else "image/locale",
      of_language or "language",
      next((name for name in file_names if name != key), "") if keys else "",
    )
  names = shown(", ".join(first)) or "empty"
  noun = "captions" if role == "references" else "a caption"
  is_row = ordered and any(map(_OF_A_ROW.fullmatch, first))
  cure = "put a line of names above it" if is_row else "rename or remove columns"
  raise UsageError(
    f"{where}: the columns are '{names}'; wanted are 'caption' ({noun}), one of {', '.join(KEYS[:3])}, id, and "
    f"'language' or --language=CODE; {cure}"
  )


def is_header(line: str) -> bool:
  """Whether the first line of a text shows one of Flickr's tables."""
  names = {name.strip() for name in re.split(r"[,|]", line)}
  return {"image", "caption"} <= names or {"image_name", "comment"} <= names


def _there(names: Iterable[str], folded: Mapping[str, str]) -> list[str]:
  """Returns the fields that have one of these names, in any case, in the order of the names."""
  return [folded[name.casefold()] for name in names if name.casefold() in folded]


def _captions(
  first: dict[str, Any],
  folded: Mapping[str, str],
  role: str,
  key: str,
  of_language: str,
  language: str | None,
  where: str,
) -> tuple[tuple[tuple[str, str], ...], list[str]]:
  """Returns the fields of the captions with their languages, as in `Layout`, and notes on them.

  UsageError if both `caption` and a field of `OUTPUTS` or `REFERENCES` may be it.
  """
  is_reference = role == "references"
  sure = ("caption", *(REFERENCES if is_reference else OUTPUTS))
  names = (*sure, *LISTS, *TEXTS) if is_reference else (*sure, *TEXTS)
  names = ("comment", *names) if key == "image_name" else names
  usual = _there(names, folded)
  several = _there(sure, folded)
  if len(several) > 1:
    raise UsageError(
      f"{where}: '{several[0]}' and '{several[1]}' may both be the {role}: choose one with --caption_columns="
      f"{several[1]}"
    )
  plain = [name for name in usual if name != key][:1]
  by_language = {} if of_language else _by_language(first, key)
  if by_language:
    chosen = {field: code for field, code in by_language.items() if is_reference or language in (None, code)}
    if language is not None and language not in by_language.values():
      chosen |= dict.fromkeys(plain, language)
    notes = [
      f"captions by language: {', '.join(f'{shown(field)} ({code})' for field, code in chosen.items())}"
    ]
    if left := [field for field in (*by_language, *plain) if field not in chosen]:
      notes.append(f"columns of other languages are left out: {shown(', '.join(left))}")
    return tuple(chosen.items()), notes
  numbered = [name for name in first if NUMBERED.fullmatch(name)]
  of_references = [name for name in numbered if name.lower().startswith("ref")]
  if of_references:
    numbered = of_references if is_reference else [name for name in numbered if name not in of_references]
    plain = [] if is_reference else plain
  notes = [f"the list {name} has the captions of an image" for name in plain if name in LISTS]
  notes += [
    f"the captions are its {name}" for name in plain if name.lower() in (*TEXTS, *OUTPUTS, *REFERENCES)
  ]
  if numbered:
    notes = [f"the captions of an image are {shown(', '.join((*plain, *numbered)))}"]
  return tuple((name, "") for name in (*plain, *numbered)), notes


def _by_language(first: dict[str, Any], key: str) -> dict[str, str]:
  """Returns the fields that are named after a language, and its code: `caption_ko`, `ko`, `Korean`."""
  codes = {}
  for field, value in first.items():
    captions = [value] if isinstance(value, str) else texts(value)
    if field == key or (field in FIELDS and field != "id") or captions is None:
      continue
    if not (language := language_in(field)):
      continue
    has_letters = any(map(str.isalpha, "".join(captions))) or not "".join(captions)
    # `id` and `caption_no` are numbers or names elsewhere.
    if has_letters and (language not in ("id", "no") or any(" " in caption.strip() for caption in captions)):
      codes[field] = language
  return codes
