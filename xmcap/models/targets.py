"""What a model may write before a caption, and how: the interface of `families/plugs`."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Protocol

import numpy as np

Texts = Mapping[str, Mapping[str, str]]
"""Image -> language -> what stands before its caption."""


class Stabilizing(Protocol):
  """Settings of a model that writes a stabilizer before each caption: a caption in a pivot language.

  Attributes:
    form: name of the layout of a target.
    language: code of the pivot language.
    length: largest number of tokens of a stabilizer.
  """

  @property
  def form(self) -> str: ...
  @property
  def language(self) -> str: ...
  @property
  def length(self) -> int: ...
  @property
  def is_consistent(self) -> bool:
    """Whether the encoder does not see the language of the caption."""
    ...

  def marks(self, separator: int, pivot: tuple[int, ...]) -> "TargetFormat":
    """Returns the format, given the ids of the separator and of the pivot language's LangId."""
    ...


class TargetFormat(Protocol):
  """Targets with a stabilizer, over a vocabulary; hashable, since programs are compiled for it.

  Attributes:
    kept_as: name of the file of stabilizers beside an evaluator's predictions.
    stabilizer: the settings.
    separator, pivot: as in `Stabilizing.marks`.
  """

  kept_as: ClassVar[str]

  @property
  def stabilizer(self) -> Stabilizing: ...
  @property
  def separator(self) -> int: ...
  @property
  def pivot(self) -> tuple[int, ...]: ...
  @property
  def least_length(self) -> int:
    """The least length of a search that leaves room for a caption."""
    ...

  def target(self, stabilizer: Sequence[int], prompt: Sequence[int], caption: Sequence[int]) -> list[int]:
    """Returns the ids of a target; `prompt` is the LangId of the caption, and all are without EOS."""
    ...

  def is_given(self, targets: np.ndarray, prompts: np.ndarray) -> np.ndarray:
    """Whether each token of targets [..., T] is given to the decoder, so that it need not be learnt."""
    ...

  def split(self, tokens: Any, prompts: Any, xp: Any = np) -> tuple[Any, Any]:
    """Splits what was decoded, int32 [..., T], into stabilizers and captions, by numpy or jax.numpy."""
    ...

  def search(
    self,
    apply: Any,
    search: Any,
    cross: Any,
    cache: Any,
    prompts: Any,
    max_length: int,
    keys: tuple[Any, Any],
  ) -> tuple[Any, Any]:
    """Searches stabilizers and captions of images, where the encoder does not see the language.

    Args:
      apply: applies a method of the captioner.
      search: the search.
      cross, cache: from `Decoder.start`, for B images.
      prompts: int32 [B, L, P], the LangIds.
      max_length: T.
      keys: random keys of the images, [B], and of their captions, [B * L].

    Returns:
      Tokens int32 [B * L, T] and scores [B * L].
    """
    ...

  def rows(self, stabilizers: Texts, prefix: str) -> Iterator[tuple[str, str, float]]:
    """Yields the rows of an evaluator about stabilizers."""
    ...

  def text(self, stabilizers: Texts) -> str:
    """Returns a line about stabilizers."""
    ...
