"""PLuGS: a caption follows a stabilizer, the image's caption in a pivot language.

Thapliyal and Soricut, "Cross-modal Language Generation using Pivot Stabilization for Web-scale Language Coverage"
(2020). One model for all languages and the consistent form are those of a draft of Thapliyal et al., "Crossmodal-3600",
section 3. A target is

  stabilizer, separator, LangId, caption, EOS

and only the caption counts. A caption in the pivot language is the stabilizer itself: nothing follows its LangId. The
separator is the first row of the embedding above the pieces of the vocabulary, mT5's too, so that no text contains it.
"""

import dataclasses
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, ClassVar

import gin
import numpy as np
from msgspec import Meta

from xmcap import languages
from xmcap.models import limits
from xmcap.models.targets import Texts
from xmcap.terminal import shown

FORMS = ("plain", "consistent")
PAD_ID, EOS_ID = 0, 1  # as in t5.py, which would import jax


@gin.configurable
@dataclasses.dataclass(frozen=True)
class Stabilizer:
  """How a captioner uses stabilizers.

  Attributes:
    form: `plain`: the LangId is the encoder's prompt, and the decoder writes everything. `consistent`: the encoder does
      not see the language; the decoder is given the LangId after the separator. Then all languages of an image can
      share one stabilizer.
    language: code of the pivot language.
    length: largest number of tokens of a stabilizer that is decoded by itself, with the separator; a longer one ends
      there. Only for two phases.
    phases: of decoding, for `consistent`. 2: the best stabilizer of an image is found once, and held fixed while the
      captions of all its languages are searched ("consistent" beam search). 1: each language searches stabilizer and
      caption together, and may find another stabilizer ("inconsistent").

  Raises:
    UsageError: a value is unknown or out of range.
  """

  form: str = "consistent"
  language: str = "en"
  length: Annotated[int, Meta(ge=2, le=4096)] = 64
  phases: Annotated[int, Meta(ge=1, le=2)] = 2

  def __post_init__(self):
    limits.check(self)
    limits.check_names(self, form=FORMS)
    if not languages.is_known(self.language):
      raise limits.FieldError(
        "Stabilizer", "language", f"is {shown(self.language, 60)}: give a language code"
      )

  @property
  def is_consistent(self) -> bool:
    """Whether the encoder does not see the language."""
    return self.form == "consistent"

  def marks(self, separator: int, pivot: tuple[int, ...]) -> "Marks":
    """The tokens around a stabilizer, given the ids of the separator and of the pivot language's LangId."""
    return Marks(self, separator, pivot)


@dataclasses.dataclass(frozen=True)
class Marks:
  """The tokens of a vocabulary around a stabilizer.

  Attributes:
    stabilizer: the settings.
    separator: id of the separator.
    pivot: ids of the pivot language's LangId.
  """

  stabilizer: Stabilizer
  separator: int
  pivot: tuple[int, ...]
  kept_as: ClassVar[str] = "stabilizers.jsonl"

  @property
  def least_length(self) -> int:
    """The least length of a search: in two phases, a stabilizer's, the LangId and one token."""
    in_two = self.stabilizer.is_consistent and self.stabilizer.phases == 2
    return self.stabilizer.length + len(self.pivot) + 1 if in_two else 1

  def target(self, stabilizer: Sequence[int], prompt: Sequence[int], caption: Sequence[int]) -> list[int]:
    """The ids of a target; `prompt` is the LangId of the caption, and all are without EOS."""
    caption = () if tuple(prompt) == self.pivot else caption
    return [*stabilizer, self.separator, *prompt, *caption, EOS_ID]

  def is_given(self, targets: np.ndarray, prompts: np.ndarray) -> np.ndarray:
    """Whether each token of targets [..., T] is a LangId that the decoder is given, so that it need not be learnt."""
    if not self.stabilizer.is_consistent:
      return np.zeros(targets.shape, bool)
    after = np.cumsum(targets == self.separator, axis=-1)
    after = np.cumsum(after > 0, axis=-1) - 1  # 0 at the separator, -1 or 0 before it
    return (after > 0) & (after <= np.sum(prompts != PAD_ID, axis=-1, keepdims=True))

  def split(self, tokens: Any, prompts: Any, xp: Any = np) -> tuple[Any, Any]:
    """Splits what was decoded into stabilizers and captions.

    Args:
      tokens: int32 [..., T], padded with 0.
      prompts: int32 [..., P], the LangIds that were asked for, padded with 0.
      xp: numpy or jax.numpy.

    Returns:
      The stabilizers, without the separator, and the captions, both int32 [..., T], ended by EOS if they are complete,
      and padded with 0. Without a separator there is no caption, but in the pivot language. A LangId that was not
      asked for stays in the caption.
    """
    length, width = tokens.shape[-1], prompts.shape[-1]
    place = xp.arange(length)
    is_separator = tokens == self.separator
    has = xp.any(is_separator, axis=-1, keepdims=True)
    end = xp.where(has, xp.argmax(is_separator, axis=-1)[..., None], length)
    ended = xp.where(place == end, EOS_ID, tokens)
    stabilizers = xp.where(place <= end, ended, PAD_ID)

    def after(start):
      taken = xp.take_along_axis(tokens, xp.clip(start + place, 0, length - 1), axis=-1)
      return xp.where(start + place < length, taken, PAD_ID)

    count = xp.sum(prompts != PAD_ID, axis=-1, keepdims=True)
    following = after(end + 1)[..., :width]
    expected = prompts[..., : following.shape[-1]]
    matches = xp.all((following == expected) | (expected == PAD_ID), axis=-1, keepdims=True)
    captions = after(end + 1 + xp.where(matches, count, 0))
    pivot = xp.asarray([*self.pivot, *[PAD_ID] * (width - len(self.pivot))][:width])
    is_pivot = xp.all(prompts == pivot, axis=-1, keepdims=True) & (count == len(self.pivot))
    return stabilizers, xp.where(is_pivot, stabilizers, captions)

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
    """Searches in the form `consistent`; see `TargetFormat.search`."""
    from xmcap.families.plugs import decoding  # imports jax, which processes that make batches do without

    if self.stabilizer.phases == 1:
      return decoding.one_phase(apply, search, self, cross, cache, prompts, max_length, keys[1])
    return decoding.two_phases(apply, search, self, cross, cache, prompts, max_length, keys)

  def rows(self, stabilizers: Texts, prefix: str) -> Iterator[tuple[str, str, float]]:
    """Yields an evaluator's row: the mean number of distinct stabilizers of an image."""
    counts = distinct(stabilizers)
    mean = sum(number * count for number, count in counts.items()) / counts.total()
    yield "mean", f"{prefix}distinct_stabilizers", mean

  def text(self, stabilizers: Texts) -> str:
    """A line with the share of images for each number of distinct stabilizers."""
    counts = distinct(stabilizers)
    shares = ", ".join(f"{number}: {count / counts.total():.1%}" for number, count in sorted(counts.items()))
    return f"distinct stabilizers of a picture, and the share of pictures with so many: {shares}"


def distinct(stabilizers: Texts) -> Counter[int]:
  """Returns number of distinct stabilizers -> number of images with so many.

  A draft of Thapliyal et al., "Crossmodal-3600", Figure 4 and Table 3: whether the captions of an image's languages
  say the same. Consistent stabilizers are the same for all of them, so their number is 1.
  """
  return Counter(len(set(of_image.values())) for of_image in stabilizers.values())
