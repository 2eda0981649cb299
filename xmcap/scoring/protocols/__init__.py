"""How published scores of captions were made: one data file a protocol, which `--protocol=NAME` follows.

A file has
  title, source: whose protocol it is, and the papers or the public code that it was read from.
  tokenizer, words: the name of the tokeniser, and what it does in words.
  metrics, scale, decimals, means: what is printed, and how.
  languages: `any`, `36`, or codes.
  pictures: `any`; `all` pictures of the references; or in words, which of them, so that `--subset` has to name them.
  faults, not_public: what is known to be wrong with it, and what of it cannot be reproduced.
  refused: why xmcap cannot follow it; absent if it can.
"""

import dataclasses
import functools
from collections.abc import Collection, Mapping, Sequence
from importlib import resources

import msgspec

from xmcap import languages as languages_lib
from xmcap import wording
from xmcap.errors import UsageError
from xmcap.scoring import metrics

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
    known = {"any": (), "36": tuple(languages_lib.LANGUAGES)}
    return known[self.languages] if self.languages in known else tuple(self.languages.split())


@dataclasses.dataclass(frozen=True)
class Settled:
  """The options of a run after its protocol has filled in what was not given.

  Attributes:
    protocol: name for the signature; "" if the options follow none.
    languages: the codes that may be scored; () for all.
    notes: what the readers of a table must know about the protocol.
  """

  protocol: str
  tokenizer: str
  metrics: tuple[str, ...]
  scale: int
  languages: tuple[str, ...] = ()
  notes: tuple[str, ...] = ()

  def check_languages(self, codes: Collection[str]) -> None:
    """Raises UsageError if the protocol lacks a language."""
    lacking = [code for code in codes if self.languages and code not in self.languages]
    if lacking:
      raise UsageError(
        f"--protocol={self.protocol} has no {', '.join(lacking)}, but {', '.join(self.languages)}: score only those, "
        "with --languages"
      )


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
  held = tomllib.loads(resources.files(__name__).joinpath(f"{name}.toml").read_text(encoding="utf-8"))
  return msgspec.convert({"name": name, **held}, Protocol)


def check_scale(scale: int | None) -> None:
  """Raises UsageError if a scale is neither None nor one of `SCALES`."""
  if scale is not None and scale not in SCALES:
    raise UsageError(f"--scale={scale}: must be {' or '.join(map(str, SCALES))}")


def settle(
  name: str | None = None,
  *,
  tokenizer: str | None = None,
  chosen: Sequence[str] | None = None,
  subset: bool = False,
  document_frequencies: bool = False,
  scale: int | None = None,
  changes: Mapping[str, str] | None = None,
) -> Settled:
  """Returns the options that a protocol asks for.

  Args:
    name: name of the protocol; None: the default, with which any other option goes.
    tokenizer: name of a tokeniser; None: the protocol's.
    chosen: names of metrics; None: the protocol's.
    subset: whether only a subset of the pictures is scored.
    document_frequencies: whether they come from a file.
    scale: one of `SCALES`; None: the protocol's.
    changes: options that change captions or words -> value, "" if they are not given.

  Raises:
    UsageError: there is no such protocol or it cannot be followed, or an option contradicts it.
  """
  check_scale(scale)
  protocol = get(DEFAULT if name is None else name)
  if protocol.refused:
    raise UsageError(f"--protocol={name}: {protocol.refused}")
  if name is not None:
    _check_agreement(protocol, tokenizer, chosen or (), subset, document_frequencies)
    given = [f"--{option}={value}" for option, value in (changes or {}).items() if value]
    if given and protocol.name != DEFAULT:
      raise UsageError(
        f"--protocol={protocol.name} scores captions as they are: leave out {', '.join(given)}"
      )
  tokenizer = protocol.tokenizer if tokenizer is None else tokenizer
  followed = protocol.name if tokenizer == protocol.tokenizer else ""
  return Settled(
    followed,
    tokenizer,
    tuple(chosen or metrics.parse(",".join(protocol.metrics))),
    scale or protocol.scale,
    protocol.codes,
    _notes(protocol, subset),
  )


def _check_agreement(
  protocol: Protocol, tokenizer: str | None, chosen: Sequence[str], subset: bool, document_frequencies: bool
) -> None:
  about = f"--protocol={protocol.name}"
  if tokenizer is not None and tokenizer != protocol.tokenizer:
    raise UsageError(f"{about} has its own words ({protocol.tokenizer}): leave out --tokenizer={tokenizer}")
  others = [name for name in chosen if name not in protocol.metrics]
  if others:
    raise UsageError(
      f"{about} is {', '.join(protocol.metrics)}, not {', '.join(others)}: leave out --metrics"
    )
  if subset and protocol.pictures == "all":
    raise UsageError(f"{about} is for all pictures of the references: leave out --subset")
  if document_frequencies and protocol.name != DEFAULT:
    raise UsageError(f"{about} takes document frequencies from the scored references: leave out --df")


def _notes(protocol: Protocol, subset: bool) -> tuple[str, ...]:
  if protocol.name == DEFAULT:
    return ()
  about = f"protocol {protocol.name}"
  notes = [f"{about}: {'; '.join(protocol.faults)}"] if protocol.faults else []
  if protocol.not_public:
    notes.append(f"{about}, not public: {'; '.join(protocol.not_public)}")
  if protocol.pictures not in ("all", "any") and not subset:
    notes.append(f"{about} is for {protocol.pictures} pictures, but these are all of the references")
  return tuple(notes)
