"""Finds the layout of rows by the names of their fields.

Plain: one row per caption, `{"image/key": ..., "language": ..., "caption": ...}`, with `KEYS` and `LANGUAGES` for other
names. Captions may stand in a field per language (`caption_ko`), references in numbered fields (`caption_1`).
big_vision: `_preds.json` and `_annotations.json` are COCO results whose ids are KEY_CODE (coco_caption.py); storepreds
writes `id` instead of `image_id`.
Hugging Face: floschne/xm3600 has a row per image in a file per language, with the list `captions`.
Flickr8k, Flickr30k, COCO-CN: lines of KEY#N, a tab and a caption. Also tables: `image,caption`, even in a `.txt`, and
`image_name| comment_number| comment`, whose key is the name of the image.
"""

import re
from typing import Any

from xmcap import languages
from xmcap.errors import UsageError
from xmcap.reading import programs
from xmcap.reading.layouts import LINE_KEY, Layout, texts
from xmcap.terminal import shown

KEYS = ("image/key", "key", "image_id", "img_id", "cocoid", "video_id", "videoID", "youtube_id")
FILE_NAMES = (
  "file_name", "filename", "fname", "file_path", "filepath", "image_path", "image_name", "image", "img",
)  # fmt: skip
LANGUAGES = ("language", "lang", "language_code", "lang_code")  # a `locale` may be the region of the image
LISTS = ("captions", "sentences_raw", "sentences", "annotations_captions", "raw")
OF_KEYS = frozenset((*KEYS, "id", *FILE_NAMES, "image_urls", "custom_id", "doc_id", "index"))
"""Names of fields of keys, which show an object to be a row."""
FIELDS = OF_KEYS | {*LANGUAGES, *LISTS, LINE_KEY, "caption"}

_OF_CAPTIONS = r"(?:captions?|caps?|texts?|sentences?|descriptions?)"
_OF_LANGUAGE = re.compile(
  rf"{_OF_CAPTIONS}[\s_./:-]*\(?(.+?)\)?|\(?(.+?)\)?[\s_./:-]*{_OF_CAPTIONS}", re.IGNORECASE
)
NUMBERED = re.compile(r"(captions?|caps?|references?|refs?|sentences?|comments?)[\s_.-]*\d+", re.IGNORECASE)
_OF_A_ROW = re.compile(r"\d+|https?://.*|.*\.(jpe?g|png|wav|mp4)|\[\{.*", re.IGNORECASE | re.DOTALL)
_TABLE_INDEX = ("", "Unnamed: 0", "__index_level_0__")  # how pandas calls its row numbers


def layout(
  first: dict[str, Any], role: str, where: str, ordered: bool = False, language: str | None = None
) -> Layout:
  """Returns the layout of rows, given the first.

  Args:
    first: the first row.
    role: `references` or `predictions`.
    where: its place in messages.
    ordered: whether rows without a key are in the order of the references.
    language: of captions that come without one; None: not known.

  Raises:
    UsageError: the fields are those of no layout; the message has the fields found and wanted.
  """
  of_program = programs.layout(first, role, where)
  if of_program is not None:
    return of_program
  keys = [name for name in KEYS if name in first] or [name for name in ("id", LINE_KEY) if name in first]
  file_names = [name for name in FILE_NAMES if isinstance(first.get(name), str)]
  key = next(iter([*keys, *file_names]), "")
  of_language = next((name for name in LANGUAGES if name in first), "")
  captions, notes = _captions(first, role, key, of_language, language)
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
      next(iter(file_names), "") if keys else "",
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


def _captions(
  first: dict[str, Any], role: str, key: str, of_language: str, language: str | None
) -> tuple[tuple[tuple[str, str], ...], list[str]]:
  """Returns the fields of the captions with their languages, as in `Layout`, and notes on them."""
  is_reference = role == "references"
  names = ("caption", *LISTS) if is_reference else ("caption",)
  plain = [name for name in ("comment" if key == "image_name" else "", *names) if name and name in first][:1]
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
    match = _OF_LANGUAGE.fullmatch(field)
    language = languages.canonical((match[1] or match[2]) if match else field)
    if language not in languages.LANGUAGES and not (
      language and (languages.variety_base(language) or (match and match[1]))
    ):
      continue
    has_letters = any(map(str.isalpha, "".join(captions))) or not "".join(captions)
    # `id` and `caption_no` are numbers or names elsewhere.
    if has_letters and (language not in ("id", "no") or any(" " in caption.strip() for caption in captions)):
      codes[field] = language
  return codes
