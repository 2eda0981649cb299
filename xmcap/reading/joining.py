"""Several files as one: one file per reference, as nlg-eval and sacreBLEU take them, per language, or per part."""

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from xmcap import wording
from xmcap.errors import UsageError
from xmcap.reading.failed_requests import Failed
from xmcap.reading.inputs import Input
from xmcap.terminal import shown

Path = str | os.PathLike
Paths = Path | Sequence[Path]
"""A file or folder, or several."""


def listed(paths: Paths | Input) -> list[Any]:
  """Returns the paths as a list; UsageError for what is neither a path nor a list of paths."""
  several = [paths] if isinstance(paths, Path | Input) else paths
  if (
    not isinstance(several, list | tuple)
    or not several
    or not all(isinstance(path, Path | Input) for path in several)
  ):
    raise UsageError(f"{shown(repr(paths))} must be the path of a file or folder, or a list of paths")
  return list(several)


def named(paths: Iterable[Path]) -> str:
  """Returns the names of several files for a message."""
  return " and ".join(map(str, paths))


def note(counts: Iterable[tuple[str, int]]) -> str:
  """Returns the note on several files, given the number of captions of each."""
  parts = [f"{name} ({wording.count(count, 'caption')})" for name, count in counts]
  return f"{len(parts)} files joined: {', '.join(map(shown, parts))}"


def predictions(parts: Sequence[tuple[str, Mapping[str, Mapping[str, str]]]]) -> dict[str, dict[str, str]]:
  """Returns the predictions of several files (name, predictions) as those of one.

  A request that failed in one file may have its answer in another. UsageError if two files predict the same image in
  the same language.
  """
  joined: dict[str, dict[str, str]] = {}
  for place, (name, part) in enumerate(parts):
    twice = [
      (language, key)
      for key, captions in part.items()
      for language in captions
      if language in joined.get(key, ())
      and Failed not in (type(captions[language]), type(joined[key][language]))
    ]
    if twice:
      language, key = twice[0]
      first = next(other for other, earlier in parts[:place] if language in earlier.get(key, ()))
      raise UsageError(
        f"{first} and {name}: {wording.count(len(twice), 'caption')} of {name} predicted by another file too "
        f"({wording.first_few([f'{language} {shown(key)}' for language, key in twice])}); keep one per image and "
        "language"
      )
    for key, captions in part.items():
      earlier = joined.get(key, {})
      answered = {language: text for language, text in earlier.items() if type(text) is not Failed}
      joined[key] = {**earlier, **captions, **answered}
  return joined
