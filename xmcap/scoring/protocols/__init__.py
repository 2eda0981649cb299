"""How published scores of captions were made: one data file a protocol, which `--protocol=NAME` follows.

A file has
  title, source: whose protocol it is, and the papers or the public code that it was read from.
  tokenizer, words: the name of the tokeniser, and what it does in words.
  metrics, scale, decimals, means: what is printed, and how.
  languages: `any`, `36`, or codes.
  pictures: `any`; `all` images of the references; or in words, which of them, so that `--subset` has to name them.
  faults, not_public: what is known to be wrong with it, and what of it cannot be reproduced.
  refused: why xmcap cannot follow it; absent if it can.
"""

import functools
from importlib import resources

import msgspec

from xmcap import languages as languages_lib
from xmcap import wording
from xmcap.errors import UsageError

DEFAULT = "xmcap"
"""The protocol that is followed if none is named; the only one that may be combined with any option."""

SCALES = (1, 100)
"""The factors at which scores are shown and written."""


class Protocol(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
  """A protocol, with its name and the fields of its file."""

  name: str
  title: str
  source: str
  tokenizer: str
  words: str
  metrics: tuple[str, ...]
  languages: str
  pictures: str
  scale: int
  decimals: int
  means: tuple[str, ...]
  faults: tuple[str, ...]
  not_public: tuple[str, ...]
  refused: str = ""

  @property
  def codes(self) -> tuple[str, ...]:
    """The codes of its languages; () for any."""
    groups = {"any": (), "36": tuple(languages_lib.LANGUAGES)}
    return groups[self.languages] if self.languages in groups else tuple(self.languages.split())

  def notes(self, of_all: bool) -> tuple[str, ...]:
    """Returns what the readers of a table must know; `of_all` is whether all images of the references are scored."""
    if self.name == DEFAULT:
      return ()
    about = f"protocol {self.name}"
    notes = [f"{about}: {'; '.join(self.faults)}"] if self.faults else []
    if self.not_public:
      notes.append(f"{about}, not public: {'; '.join(self.not_public)}")
    if self.pictures not in ("all", "any") and of_all:
      notes.append(f"{about} is for {self.pictures} pictures, but these are all of the references")
    return tuple(notes)


@functools.cache
def names() -> tuple[str, ...]:
  """Returns the names of all protocols, sorted."""
  folder = resources.files(__name__)
  return tuple(
    sorted(file.name.removesuffix(".toml") for file in folder.iterdir() if file.name.endswith(".toml"))
  )


@functools.cache
def get(name: str) -> Protocol:
  """Reads a protocol; UsageError if there is none of this name."""
  import tomllib

  if name not in names():
    raise wording.unknown_name("protocol", name, names())
  fields = tomllib.loads(resources.files(__name__).joinpath(f"{name}.toml").read_text(encoding="utf-8"))
  return msgspec.convert({"name": name, **fields}, Protocol)


def check_scale(scale: int | None) -> None:
  """Raises UsageError if a scale is neither None nor one of `SCALES`."""
  if scale is not None and scale not in SCALES:
    raise UsageError(f"--scale={scale}: must be {' or '.join(map(str, SCALES))}")
