"""What annotators saved on annotation pages, and the files that are made of it for training and scoring."""

import collections
import json
import os
import pathlib
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from xmcap import languages, spreadsheet
from xmcap.arguments import checked
from xmcap.errors import UsageError
from xmcap.files import files, outputs
from xmcap.human import fields
from xmcap.reading import jsonl, label_words
from xmcap.terminal import shown

Rating = Literal["EXCELLENT", "GOOD", "MEDIUM", "BAD", "NOT-ENOUGH-INFO"]
"""What an annotator says about a machine caption (Thapliyal et al., "Crossmodal-3600", EMNLP 2022, section 2.3)."""

_Name = Annotated[str, Meta(min_length=1, max_length=1_000)]
_Text = Annotated[str, Meta(max_length=10_000)]
_Texts = Annotated[list[_Text], Meta(max_length=1_000)]
_Tags = Annotated[list[_Name], Meta(max_length=1_000)]


class Event(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
  """A click or an edit.

  Attributes:
    time: milliseconds since 1970.
    event: what was done; `open`, or `open_rating` on the screen that rates a caption, and `done` are the ends of a
      visit to the picture, and typing without a pause by another event is one `edit_sentence`.
    text: the sentence, tag, rating or reason after it.
    before: of `edit_tag`, the tag before it.
  """

  time: Annotated[int, Meta(ge=0, le=2**53)]
  event: Literal[
    "open", "open_rating", "rate", "copy_sentence", "edit_sentence", "copy_tag", "add_tag", "edit_tag", "remove_tag",
    "skip", "done"
  ]  # fmt: skip
  text: _Text = ""
  before: _Text = ""


class Suggested(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
  """What was suggested for a picture, in the order shown."""

  sentences: _Texts
  tags: _Tags

  @property
  def tag_words(self) -> list[str]:
    """The different tags, as they are compared."""
    return label_words.words(self.tags)


class Rated(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
  """The machine caption that an annotator rated before; `rating` is "" if they have not yet."""

  language: str
  caption: _Text
  rating: Rating | Literal[""]


class Annotation(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
  """What an annotator wrote about a picture.

  Attributes:
    key: of the picture; `image/key` in files.
    image: path of its file in the folder of pictures; "" if unknown.
    rated: None where the procedure has no captions that are rated.
    caption: "" if only tags, or a rating, were given.
    skipped: why the picture was skipped; "" if it was not.
    events: in the order in which they happened.
  """

  key: _Name = msgspec.field(name="image/key")
  image: _Text = ""
  language: str
  annotator: _Name
  rated: Rated | None = None
  caption: _Text
  tags: _Tags
  skipped: _Text = ""
  suggested: Suggested
  events: Annotated[list[Event], Meta(max_length=100_000)]

  @property
  def tag_words(self) -> list[str]:
    """The different tags, as they are compared."""
    return label_words.words(self.tags)

  @property
  def described(self) -> bool:
    """Whether there is a sentence, and the picture was not skipped."""
    return bool(self.caption.strip()) and not self.skipped

  @property
  def is_empty(self) -> bool:
    """Whether all that was written has been taken back."""
    rating = self.rated.rating if self.rated else ""
    return not (self.caption.strip() or self.tags or self.skipped or rating)

  @property
  def begun_from(self) -> str | None:
    """The suggestion that the sentence was begun from: the last one copied, unless the field was emptied after it."""
    begun = None
    for event in self.events:
      if event.event == "copy_sentence":
        begun = event.text
      elif event.event == "edit_sentence" and not event.text.strip():
        begun = None
    return begun

  @property
  def last_time(self) -> int:
    """When the annotator last did something."""
    return max((event.time for event in self.events), default=0)

  def continues(self, other: "Annotation") -> bool:
    """Whether both are of one page in one browser, whose log only grows."""
    return bool(self.events) and self.events[:1] == other.events[:1]


@checked
def read(paths: Sequence[str | os.PathLike]) -> tuple[list[Annotation], int]:
  """Reads the files that annotators saved, several of one annotator too.

  Of an annotator's annotations of a picture in a language the one with the latest event counts, then the one with more
  events; among equals the one that is read last. It may be empty: its annotator has taken all back.

  Returns:
    The annotations, in the order of their first lines, and how many others were replaced.

  Raises:
    UsageError: a line is no annotation, a language is unknown, an annotator is called `all`, a clock that ran ahead
      leaves open which of two annotations is the latest, or there is no annotation; names file and line.
  """
  tomorrow = 1000 * (time.time() + 24 * 3600)
  latest: dict[tuple[str, str, str], Annotation] = {}
  replaced = 0
  for path in paths:
    for number, row in jsonl.read(path):
      where = f"{path}, line {number}"
      try:
        annotation = msgspec.convert(row, Annotation)
      except msgspec.ValidationError as error:
        raise UsageError(f"{where}: no annotation ({shown(error)}); mend or remove it") from None
      for language in filter(None, (annotation.language, annotation.rated and annotation.rated.language)):
        languages.check(language, where)
      annotator = fields.tidy(annotation.annotator)
      if fields.folded(annotator) in ("", fields.ALL):
        raise UsageError(f"{where}: '{shown(annotator)}' is no name of an annotator; name the person there")
      annotation = msgspec.structs.replace(annotation, annotator=annotator)
      place = (annotation.key, annotation.language, annotator)
      earlier = latest.setdefault(place, annotation)
      # A page saves all that it holds, so its later files repeat what the earlier ones had.
      replaced += earlier != annotation
      order, before = ((saved.last_time, len(saved.events)) for saved in (annotation, earlier))
      if earlier != annotation and max(order, before)[0] > tomorrow and not annotation.continues(earlier):
        raise UsageError(
          f"{where}: '{shown(annotator)}' has two annotations of '{shown(annotation.key)}', and a clock that ran "
          "ahead, so that none is known to be the latest; leave one out"
        )
      if order >= before:
        latest[place] = annotation
  if not latest:
    raise UsageError(
      f"{', '.join(map(str, paths))}: no annotation in it; save on the page, then give what it saved"
    )
  return list(latest.values()), replaced


def corpus_files(
  out: str | os.PathLike, annotations: Iterable[Annotation]
) -> dict[pathlib.Path, Iterator[str]]:
  """Returns the files of a corpus and their lines.

  `captions.jsonl` is for `xmcap data build folder`, a line a sentence; `tags.jsonl` for `xmcap score tags`, a line a
  picture and language with the tags of all annotators, those first that most chose, if anybody gave one;
  `LANGUAGE.tsv` what COCO-CN's tool exports: image, user, sentence, tags, in which a comma is a space. Pictures that
  were skipped, or have no sentence, are in none.
  """
  described = [entry for entry in annotations if entry.described]
  by_path = {pathlib.Path(out, "captions.jsonl"): _jsonl(map(_caption, described))}
  if any(entry.tags for entry in described):
    by_path[pathlib.Path(out, "tags.jsonl")] = _jsonl(_tags(described))
  for language in languages.ordered(entry.language for entry in described):
    by_path[pathlib.Path(out, f"{language}.tsv")] = as_tsv(
      [entry for entry in described if entry.language == language]
    )
  return by_path


def write_corpus(out: str | os.PathLike, annotations: Iterable[Annotation]) -> None:
  """Writes the files of `corpus_files` together; XmcapError if they cannot be written."""
  with outputs.together(out):
    written = corpus_files(out, annotations)
    for path, lines in written.items():
      files.write_lines(path, lines)
    if pathlib.Path(
      out, "annotations.json"
    ).exists():  # of an earlier call, whose languages may have been others
      names = ("tags.jsonl", *(f"{language}.tsv" for language in languages.LANGUAGES))
      for path in {pathlib.Path(out, name) for name in names} - written.keys():
        files.remove(path)


def _caption(annotation: Annotation) -> dict[str, object]:
  image = {"image": annotation.image} if annotation.image else {}
  return {
    "image/key": annotation.key, **image, "language": annotation.language, "caption": annotation.caption
  }  # fmt: skip


def _tags(described: Iterable[Annotation]) -> Iterator[dict[str, object]]:
  votes: dict[tuple[str, str], collections.Counter[str]] = {}
  for entry in described:
    chosen = dict.fromkeys(label_words.words(entry.tags), 1)
    votes.setdefault((entry.key, entry.language), collections.Counter()).update(chosen)
  for (key, language), counter in votes.items():
    yield {"image/key": key, "language": language, "tags": [tag for tag, _ in counter.most_common()]}


def _jsonl(rows: Iterable[dict[str, object]]) -> Iterator[str]:
  return (json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def as_tsv(described: Iterable[Annotation]) -> Iterator[str]:
  """Yields image, user, sentence and tags, as COCO-CN's tool exports them."""
  yield spreadsheet.tab_table(
    (
      entry.key, entry.annotator, entry.caption,
      ", ".join(" ".join(tag.replace(",", " ").split()) for tag in entry.tags),
    )
    for entry in described
  )  # fmt: skip
