"""A page on which people describe pictures, by one of the procedures of `annotation_procedures`.

COCO-CN's annotators see five recommended tags and five sentences, copy them by clicks, and edit them, all of which is
logged (Li et al. 2019, section "Annotation"); those of Crossmodal-3600 first rate captions of a model, and then write
without them (Thapliyal et al. 2022, section 2.3). The tool of COCO-CN is a web server for Chinese; this is a file for
any language.
"""

import dataclasses
import hashlib
import itertools
import json
import os
import pathlib
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import msgspec

from xmcap import wording
from xmcap.errors import UsageError
from xmcap.files import files
from xmcap.human import page_texts, rating_page
from xmcap.human.annotation_procedures import Procedure
from xmcap.pages.report import elements, pictures
from xmcap.progress import Say
from xmcap.reading import label_words, tag_files
from xmcap.reading.references import read_references
from xmcap.terminal import shown

PAGE, FOLDER = "annotate.html", "pictures"
"""The names, in the output folder, of the page and of the folder of its pictures."""

MOST_EMBEDDED = 300
"""Pictures that a page holds, some 25 MB; more lie in a folder beside it."""

LIMITS = {"sentence": 2_000, "tag": 200, "tags": 1_000, "reason": 200, "events": 10_000, "log": 1_000_000}
"""What the page writes about a picture at most: UTF-16 units of a text, tags, events, and UTF-16 units of all events,
whose last one is replaced from there on. `annotations.read` takes more, as NFC may lengthen a text to three times."""

_MOST_SUGGESTIONS = 5
_SIDE, _QUALITY = 640, 80

Suggestions = dict[str, list[str]]
"""Image key -> sentences or tags, the best first."""


@dataclasses.dataclass(frozen=True)
class AnnotationItem:
  """A picture to describe.

  `image` is the path of its file in the folder of pictures, and `read` gives the contents of the file. `rated` is the
  machine caption that is rated, if the procedure has a screen for that; `sentences` and `tags` are suggested.
  """

  key: str
  image: str
  read: Callable[[], bytes]
  sentences: Sequence[str] = ()
  tags: Sequence[str] = ()
  rated: str = ""


def read_sentences(paths: Sequence[str | os.PathLike], language: str) -> Suggestions:
  """Reads up to five different sentences a picture, the first of each file, then the second of each, and so on.

  Files are JSONL of image/key, language and caption, with as many lines a picture as need be, or what else
  `read_references` reads. UsageError as there, and for a file without a sentence in the language.
  """
  suggestions = []
  for path in paths:
    read = read_references(path, [language], language)
    suggestions.append({key: of_picture[language] for key, of_picture in read.items() if of_picture})
    _check(suggestions[-1], path, "sentence", language)
  return _merged(suggestions)


def read_tags(paths: Sequence[str | os.PathLike], language: str, say: Say = lambda line: None) -> Suggestions:
  """Reads up to five different tags a picture, the best first, as `tag_files.read` does; else as sentences."""
  suggestions = []
  for path in paths:
    read = tag_files.read(path, language, say=say).get(language, {})
    suggestions.append(
      {key: label_words.words(sorted(tags, key=lambda tag: -tags[tag])) for key, tags in read.items() if tags}
    )
    _check(suggestions[-1], path, "tag", language)
  return _merged(suggestions)


def remove_others(folder: str | os.PathLike, written: Collection[pathlib.Path]) -> list[pathlib.Path]:
  """Removes the page and pictures of an earlier call that were not written now; returns the page if it was there."""
  page = pathlib.Path(folder, PAGE)
  for path in sorted(pathlib.Path(folder, FOLDER).glob("[0-9]*.jpg")):
    if path not in written:
      files.remove(path)
  if page in written or not page.exists():
    return []
  files.remove(page)
  return [page]


def _check(suggestions: Suggestions, path: str | os.PathLike, noun: str, language: str) -> None:
  if not suggestions:
    raise UsageError(f"{path}: no {noun} in {language}; give a file that has some, or another --language")
  for key, texts in suggestions.items():
    longest = max(len(text.encode("utf-16-le", "surrogatepass")) // 2 for text in texts)
    if longest > LIMITS[noun]:
      raise UsageError(
        f"{path}: a {noun} of '{shown(key)}' has {longest:,} characters; the page takes {LIMITS[noun]:,}: shorten it, "
        "or leave it out"
      )


def _merged(of_files: Sequence[Suggestions]) -> Suggestions:
  merged: Suggestions = {}
  for key in dict.fromkeys(itertools.chain.from_iterable(of_files)):
    turns = itertools.zip_longest(*(of_file.get(key, []) for of_file in of_files), fillvalue="")
    texts = (" ".join(text.split()) for turn in turns for text in turn)
    merged[key] = list(dict.fromkeys(filter(None, texts)))[:_MOST_SUGGESTIONS]
  return merged


def write_annotation_page(
  out: str | os.PathLike,
  language: str,
  items: Sequence[AnnotationItem],
  procedure: Procedure,
  annotator: str = "",
) -> set[pathlib.Path]:
  """Writes `annotate.html` into a folder, with the pictures in it, or in `pictures/` if there are many.

  With the name of an annotator the page is for them alone, and does not ask for a name. The same input gives the same
  bytes. Returns the files. UsageError names pictures that cannot be read, or have no caption where captions are rated.
  """
  out = pathlib.Path(out)
  link = len(items) > MOST_EMBEDDED
  lacking = [item.image for item in items if procedure.ratings and not item.rated]
  if lacking:
    raise UsageError(
      f"{len(lacking):,} of {wording.count(len(items), 'picture')} have no caption in "
      f"{procedure.rated_language} to rate "
      f"({wording.first_few(lacking)}); add them to --sentences: xmcap caption writes them"
    )
  sources, broken = [], []
  for number, item in enumerate(items):
    picture = pictures.thumbnail(item.read, _SIDE, _QUALITY)
    if picture is None:
      broken.append(f"{item.image}: {pictures.problem(item.read())}")
    elif link:
      sources.append(f"{FOLDER}/{number:06}.jpg")
      with files.whole(out / sources[-1]) as file:
        file.write(picture)
    else:
      sources.append(elements.picture_uri(picture))
  if broken:
    raise UsageError(
      f"{len(broken):,} of {wording.count(len(items), 'picture')} cannot be read ({'; '.join(broken[:3])}"
      f"{'; ...' if broken[3:] else ''})"
    )
  style = elements.resource("annotation_page.css", "xmcap.human")
  data = _page_data(language, items, sources, procedure, annotator)
  scripts = ["annotation_show.js"]
  code, title = data["texts"]["code"], data["texts"]["title"]
  text = rating_page.fill_page("annotation_page", code, title, data, link, style, scripts)
  files.write_text(out / PAGE, text)
  return {out / PAGE, *(out / source for source in sources if link)}


def _page_data(
  language: str,
  items: Sequence[AnnotationItem],
  sources: Sequence[str],
  procedure: Procedure,
  annotator: str,
) -> Mapping[str, Any]:
  shown = [
    {
      "key": item.key,
      "image": item.image,
      "sentences": list(item.sentences),
      "tags": list(item.tags),
      "rated": item.rated,
    }
    for item in items
  ]
  code = page_texts.language_for(language)
  levels = procedure.levels(code)
  title, guidelines = procedure.texts(code)
  # Not the guidelines: annotators keep what they wrote when a misprint in them is mended.
  content = json.dumps([language, shown, list(levels), procedure.batch, annotator]).encode()
  return {
    "page": hashlib.sha256(content).hexdigest()[:12],
    "language": elements.language(language),
    "texts": {
      **page_texts.of_page(code, "annotate"),
      "title": title,
      "guidelines": guidelines,
      "own_guidelines": not procedure.guidelines,
      "levels": [
        {"value": value, "word": word, "meaning": meaning} for value, (word, meaning) in levels.items()
      ],
    },
    "is_own": True,
    "rated_language": elements.language(procedure.rated_language or language),
    "procedure": msgspec.to_builtins(procedure),
    "annotator": annotator,
    "limits": LIMITS,
    "items": [{**item, "picture": source} for item, source in zip(shown, sources, strict=True)],
  }
