"""Tags in the prompt of a captioner, after the LangId: those that people gave an image, or those of a tagger.

Li et al., "COCO-CN for Cross-Lingual Image Tagging, Captioning and Retrieval" (2019), Table 13, give their captioner
the image's own tags. Tags are known when an image is captioned only if a tagger predicts them.
"""

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence

import gin
import numpy as np

from xmcap import languages as languages_lib
from xmcap import wording
from xmcap.data.mixture import StreamPart
from xmcap.data.vocabulary import PAD_ID, Vocabulary
from xmcap.errors import UsageError
from xmcap.reading import tag_files
from xmcap.terminal import shown

OWN = "own"

Tags = Mapping[str, Mapping[str, Sequence[str]]]
"""Image key -> language code -> tags."""


@gin.configurable
@dataclasses.dataclass(frozen=True)
class TagPrompts:
  """The tags that follow the LangId in the prompts of a split.

  Attributes:
    tags: `own`, the tags of the records; or a file as for `xmcap score tags`: predictions, or what `xmcap data tags`
      writes for a split. Several files are joined, for the images of several splits.
    language: code of the language of the tags, for captions of any language; "": that of the caption.
    most: largest number of tags per image: the first ones, or those with the highest scores.
  """

  tags: str | Sequence[str] = gin.REQUIRED
  language: str = ""
  most: int = 5

  def __post_init__(self):
    if self.most < 1:
      raise UsageError(f"TagPrompts.most is {self.most}: give at least 1")
    if self.language:
      languages_lib.get(self.language)

  @property
  def is_own(self) -> bool:
    """Whether the tags are those of the records."""
    return self.tags == OWN

  def read(self, own: Tags | None) -> "PromptTags":
    """Returns the tags of all images; `own` has the records' tags, None if there are no records.

    Raises:
      UsageError: a file cannot be read, or the records' own tags are wanted without records.
    """
    if self.is_own:
      if own is None:
        raise UsageError(
          "TagPrompts.tags is 'own', but these pictures are not records: name a file that xmcap data tags wrote"
        )
      return PromptTags(own, "the records", self.language, self.most)
    paths = [self.tags] if isinstance(self.tags, str) else list(self.tags)
    return PromptTags(read(*paths, language=self.language), ", ".join(paths), self.language, self.most)


def read(*paths: str, language: str = "") -> Tags:
  """Reads the tags of images, best first, from files as for `TagPrompts`; UsageError if a file cannot be read.

  `language` is that of files of text, which name none.
  """
  tags: dict[str, dict[str, list[str]]] = {}
  for path in paths:
    for code, of_language in tag_files.read(path, language or None).items():
      for key, scores in of_language.items():
        of_image = tags.setdefault(key, {})
        if code in of_image:
          raise UsageError(f"{path}: '{shown(key)}' has '{code}' tags in another file too: keep one")
        of_image[code] = sorted(scores, key=lambda tag, scores=scores: -scores[tag])
  return tags


def own_tags(parts: Sequence[StreamPart]) -> Tags:
  """Reads the tags of all records of a stream once; keys are those of its batches."""
  return {part.prefix + record.key: record.tags_by_language for part in parts for record in part.source}


class PromptTags:
  """The tags of images as prompt tokens.

  Args:
    tags: the tags, best first.
    origin: names their origin in messages.
    language, most: as in `TagPrompts`.
  """

  def __init__(self, tags: Tags, origin: str, language: str, most: int):
    self._tags = tags
    self._origin = origin
    self._language = language
    self._most = most
    self._tokens: dict[str, list[int]] = {}

  def check(self, keys: Iterable[str], languages: Iterable[str] = ()) -> None:
    """Raises UsageError if an image is missing here, or has no list of tags for captions in one of the languages.

    An image with an empty list is fine.
    """
    keys = list(keys)
    missing = [key for key in keys if key not in self._tags]
    if missing:
      raise UsageError(
        f"{self._origin}: no tags of {wording.count(len(missing), 'picture')} ({wording.first_few(missing)}): "
        "predict them first"
      )
    for language in dict.fromkeys(self._language or language for language in languages):
      missing = [key for key in keys if language not in self._tags[key]]
      if missing:
        raise UsageError(
          f"{self._origin}: no '{language}' tags of {wording.count(len(missing), 'picture')} "
          f"({wording.first_few(missing)}), only in other languages: predict them, or set TagPrompts.language"
        )

  def check_length(
    self, vocabulary: Vocabulary, languages: Sequence[str], length: int, name: str = "prompt_length",
    keys: Iterable[str] | None = None,
  ) -> None:  # fmt: skip
    """Raises UsageError if the prompt of an image with tags has more than `length` tokens, the value of `name`.

    `keys` are those of the images to check; None: all.
    """
    for key, language, needed in self._lengths(self._tags if keys is None else keys, vocabulary, languages):
      if needed > length:
        raise UsageError(
          f"picture '{shown(key)}': the prompt of '{language}' with tags has {needed} tokens: raise {name}, which is "
          f"{length}, or lower TagPrompts.most"
        )

  @property
  def sha256(self) -> str:
    """Hash of everything that determines the prompts."""
    content = (self._tags, self._language, self._most)
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

  def width(self, keys: Iterable[str], vocabulary: Vocabulary, languages: Sequence[str]) -> int:
    """The number of tokens of the longest prompt with tags."""
    return max(needed for _, _, needed in self._lengths(keys, vocabulary, languages))

  def _lengths(
    self, keys: Iterable[str], vocabulary: Vocabulary, languages: Sequence[str]
  ) -> Iterator[tuple[str, str, int]]:
    """Yields (key, language, tokens of its prompt with tags); one language is enough if all share the tags."""
    prompts = {language: len(vocabulary.prompt(language)) for language in languages}
    if self._language:
      longest = max(prompts, key=lambda language: prompts[language])
      prompts = {longest: prompts[longest]}
    for key in keys:
      for language, tokens in prompts.items():
        yield key, language, tokens + len(self._ids(key, language, vocabulary))

  def extend(
    self, prompts: np.ndarray, keys: Sequence[str], languages: np.ndarray, vocabulary: Vocabulary
  ) -> np.ndarray:
    """Returns prompts int32 [B, K, P] with the tags of their images after the LangId; errors as in `check`.

    Args:
      prompts: int32 [B, K, P], padded with 0.
      keys: the keys of the B images.
      languages: language codes, strings [B, K]; "" for prompts that stay as they are.
      vocabulary: the vocabulary of the prompts.
    """
    self.check(keys)
    prompts = prompts.copy()
    for key, rows, of_image in zip(keys, prompts, languages, strict=True):
      for row, language in zip(rows, of_image, strict=True):
        if language:
          ids = self._ids(key, str(language), vocabulary)
          start = int(np.count_nonzero(row != PAD_ID))
          row[start : start + len(ids)] = ids
    return prompts

  def _ids(self, key: str, language: str, vocabulary: Vocabulary) -> list[int]:
    tags = self._tags[key].get(self._language or language, ())[: self._most]
    ids: list[int] = []
    for tag in tags:
      if tag not in self._tokens:
        self._tokens[tag] = vocabulary.encode(tag)
      ids += self._tokens[tag]
    return ids
