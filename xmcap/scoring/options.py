"""Checks the options of scoring before any file is read; strings are parsed like command-line options."""

import dataclasses
import functools
import numbers
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from xmcap import languages as languages_lib
from xmcap.arguments import check_fields
from xmcap.errors import UsageError
from xmcap.reading import subsets
from xmcap.reading.missing import check_missing
from xmcap.scoring import metrics as metrics_lib
from xmcap.scoring import protocols, residue, tokenizers
from xmcap.scoring import vectors as vectors_lib
from xmcap.scoring.metrics.document_frequency import DocumentFrequency
from xmcap.terminal import shown

MAX_RESAMPLES = 100_000
"""Largest number of resamples of the images; on all of XM3600 they take minutes."""

WRONG_LANGUAGE = ("keep", "zero")
"""What can be done with captions in another language: score them as they are, or as empty captions."""

MAX_SEED = 2**63 - 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settled:
  """The options that a protocol determines, unless they are given.

  Attributes:
    protocol: name for the signature; "" if the options follow none.
    languages: the codes that may be scored; () for all.
    notes: what the readers of a table must know about the protocol.
  """

  protocol: str
  tokenizer: str
  metrics: tuple[str, ...]
  scale: int
  languages: tuple[str, ...]
  notes: tuple[str, ...]


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScoringOptions:
  """The options of `score`, which says what they mean; `settled` is what the protocol makes of them.

  Attributes:
    document_frequencies: also the file that they will be read from.

  Raises:
    UsageError: an option has an invalid value, the file of a subset does not exist, or as `vectors.read`.
  """

  languages: str | Sequence[str] | None = None
  title: str = ""
  protocol: str | None = None
  metrics: str | Sequence[str] | None = None
  tokenizer: str | None = None
  normalize: str = ""
  document_frequencies: Mapping[str, DocumentFrequency] | str | os.PathLike | None = None
  subset: str | os.PathLike = ""
  missing: str = "refuse"
  clean: str | Sequence[str] = ""
  bootstrap: int = 0
  seed: int = 0
  scale: int | None = None
  wrong_language: str = "keep"
  health: bool = False
  vectors: str | os.PathLike | vectors_lib.Vectors = ""
  keep: str | Collection[str] = ()
  processes: int = 1

  def __post_init__(self):
    check_fields(self)
    settled = self.settled
    self.check_languages(self.scored_languages or ())
    for language in self.scored_languages or ("en",):
      tokenizers.get(settled.tokenizer, language, self.normalize)
    if self.subset:
      subsets.check(self.subset)
    check_missing(self.missing)
    if self.wrong_language not in WRONG_LANGUAGE:
      raise UsageError(
        f"--wrong_language={shown(self.wrong_language)}: must be {' or '.join(WRONG_LANGUAGE)}"
      )
    _ = self.embeddings
    check_count("bootstrap", self.bootstrap, MAX_RESAMPLES)
    check_count("seed", self.seed, MAX_SEED)

  def check_languages(self, languages: Collection[str]) -> None:
    """Raises UsageError if the protocol, a metric or the document frequencies lack one of the languages."""
    settled = self.settled
    if lacking := [
      language for language in languages if settled.languages and language not in settled.languages
    ]:
      raise UsageError(
        f"--protocol={settled.protocol} has no {', '.join(lacking)}, but {', '.join(settled.languages)}: score only "
        "those, with --languages"
      )
    for name in settled.metrics:
      own = metrics_lib.CAPTION_METRICS[name].languages or languages
      if others := [language for language in languages if language not in own]:
        raise UsageError(
          f"metric '{name}' is for {', '.join(own)} only, not for {', '.join(others)}; score only "
          f"--languages={','.join(own)}, or leave out the metric"
        )
    for language in languages:
      if isinstance(self.document_frequencies, Mapping) and language not in self.document_frequencies:
        raise UsageError(f"the file of document frequencies lacks '{language}'; score other --languages")

  @functools.cached_property
  def settled(self) -> Settled:
    """The options that the protocol determines."""
    chosen = () if self.metrics is None else metric_names(self.metrics)
    changes = {
      "normalize": self.normalize,
      "clean": ",".join(self.residue_kinds),
      "wrong_language": self.wrong_language.replace("keep", ""),
    }
    protocols.check_scale(self.scale)
    protocol = protocols.get(protocols.DEFAULT if self.protocol is None else self.protocol)
    if protocol.refused:
      raise UsageError(f"--protocol={self.protocol}: {protocol.refused}")
    if self.protocol is not None:
      self._check_agreement(protocol, chosen, changes)
    tokenizer = protocol.tokenizer if self.tokenizer is None else self.tokenizer
    return Settled(
      protocol=protocol.name if tokenizer == protocol.tokenizer else "",
      tokenizer=tokenizer,
      metrics=chosen or metric_names(protocol.metrics),
      scale=self.scale or protocol.scale,
      languages=protocol.codes,
      notes=protocol.notes(of_all=not self.subset),
    )

  def _check_agreement(
    self, protocol: protocols.Protocol, chosen: Sequence[str], changes: Mapping[str, str]
  ) -> None:
    """Raises UsageError if an option contradicts the protocol; `changes` are those that change captions or words."""
    about = f"--protocol={protocol.name}"
    if self.tokenizer is not None and self.tokenizer != protocol.tokenizer:
      words = protocol.tokenizer
      raise UsageError(f"{about} has its own words ({words}): leave out --tokenizer={self.tokenizer}")
    if others := [name for name in chosen if name not in protocol.metrics]:
      raise UsageError(
        f"{about} is {', '.join(protocol.metrics)}, not {', '.join(others)}: leave out --metrics"
      )
    if self.subset and protocol.pictures == "all":
      raise UsageError(f"{about} is for all pictures of the references: leave out --subset")
    if protocol.name == protocols.DEFAULT:
      return
    if self.document_frequencies:
      raise UsageError(f"{about} takes document frequencies from the scored references: leave out --df")
    if changed := [f"--{option}={value}" for option, value in changes.items() if value]:
      raise UsageError(f"{about} scores captions as they are: leave out {', '.join(changed)}")

  @functools.cached_property
  def embeddings(self) -> vectors_lib.Vectors | None:
    """The folder of `vectors`; None if no metric compares them."""
    return vectors_lib.read(
      self.settled.metrics, self.vectors, health=self.health, zero=self.empties_wrong_language
    )

  @property
  def scored_languages(self) -> tuple[str, ...] | None:
    """The codes of the languages to score; None: all that have references."""
    if self.languages is None:
      return None
    if isinstance(self.languages, str):
      return languages_lib.parse(self.languages)
    names = _names("languages", self.languages, languages_lib.LANGUAGES)
    return tuple(languages_lib.get(language).code for language in names)

  @property
  def residue_kinds(self) -> tuple[str, ...]:
    """The kinds of residue to remove."""
    return residue.parse(self.clean)

  @property
  def empties_wrong_language(self) -> bool:
    """Whether a caption in another language is scored as an empty one."""
    return self.wrong_language == "zero"

  @property
  def judges_languages(self) -> bool:
    """Whether the language of each caption is told."""
    return self.health or self.empties_wrong_language

  @property
  def signature(self) -> dict[str, str]:
    """The parts of the signature that are options; those of the captions and the words are not."""
    protocol, scale = self.settled.protocol, self.settled.scale
    return {
      "missing": self.missing,
      **({"protocol": protocol} if protocol else {}),
      **({"scale": str(scale)} if scale != 1 else {}),
      **({"clean": residue.signature(self.residue_kinds)} if self.residue_kinds else {}),
    }


def metric_names(
  names: str | Sequence[str], metrics: Mapping[str, metrics_lib.Metric] = metrics_lib.CAPTION_METRICS
) -> tuple[str, ...]:
  """Returns the named metrics in the order of the columns of a table; UsageError as `metrics.parse`."""
  return metrics_lib.parse(",".join(_names("metrics", names, metrics)), metrics)


def check_count(name: str, value: Any, highest: int) -> None:
  """Raises UsageError if the option is not an integer from 0 to the highest."""
  if not isinstance(value, numbers.Integral) or not 0 <= int(value) <= highest:
    raise UsageError(f"--{name}: must be a whole number from 0 to {highest:,}")


def _names(option: str, names: str | Sequence[str], choices: Iterable[str]) -> tuple[str, ...]:
  names = tuple(part.strip() for part in names.split(",")) if isinstance(names, str) else tuple(names)
  if not names or not all(isinstance(name, str) for name in names):
    raise UsageError(f"{option}: {shown(repr(names))} is not a list of names; there are {', '.join(choices)}")
  return names
