"""What a server offers: a model, its searches, and the languages in which requests may ask for captions."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from xmcap import languages, wording
from xmcap.errors import UsageError
from xmcap.evaluation import familiarity
from xmcap.serving.limits import Refused


@dataclasses.dataclass(frozen=True)
class ServedModel:
  """A served model, with its searches by the names that requests use; the first is the default.

  Attributes:
    name: for the page.
    image_size: side of the pictures that the model sees, in pixels.
    own: codes of the languages that the model was trained on; (): unknown.
    chosen: codes that the server offers instead; (): `own`.
    known: how probable captions of familiar pictures are; {}: unknown.
  """

  name: str
  image_size: int
  searches: Mapping[str, Any]
  own: tuple[str, ...] = ()
  chosen: tuple[str, ...] = ()
  known: familiarity.Known = dataclasses.field(default_factory=dict)

  @property
  def offered(self) -> tuple[str, ...]:
    """The languages of a request for all."""
    return self.chosen or self.own or tuple(languages.LANGUAGES)

  @property
  def trained(self) -> tuple[str, ...]:
    """The offered languages that the model was trained on, as far as that is known."""
    return tuple(language for language in self.offered if not self.own or language in self.own)

  @property
  def untrained(self) -> tuple[str, ...]:
    """Further languages that requests may name, with a warning."""
    own = self.own or self.offered
    return tuple(language for language in self.chosen or languages.LANGUAGES if language not in own)

  @property
  def unasked(self) -> tuple[str, ...]:
    """The languages of a request that names none."""
    return languages.unasked(self.trained or self.offered)

  @property
  def drawing(self) -> list[str]:
    """The names of the searches that sample captions."""
    return [name for name, search in self.searches.items() if hasattr(search, "temperature")]

  def languages_of(self, text: str) -> tuple[str, ...]:
    """The languages of a request, from its parameter; Refused for one that is unknown or not offered."""
    if text == "all":
      return self.offered
    if text == "trained":
      if not self.trained:
        raise Refused(400, f"the model was trained on none of {', '.join(self.offered)}: name some of them")
      return self.trained
    allowed = dict.fromkeys((*self.trained, *self.untrained))
    codes = tuple(code.strip() for code in text.split(","))
    others = [code for code in codes if code not in allowed]
    try:
      # Of what may be thousands, one is looked up: a tag outside the table takes a millisecond of the event loop.
      languages.parse(others[0] if others else text)
    except UsageError as error:
      raise Refused(400, str(error)) from None
    if others:
      raise Refused(
        400,
        f"this server does not caption in {wording.first_few(others)}: give some of {', '.join(allowed)}",
      )
    return codes

  def warning(self, codes: Sequence[str]) -> str:
    """What `xmcap caption` warns of for these languages: that the model was not trained on some; "" if it was."""
    others = [language for language in codes if language not in self.own]
    return languages.trained_on(self.own, others) if self.own and others else ""

  def unlike(self, candidates: Mapping[str, Any]) -> str:
    """What it warns of for a picture, from its candidates {language: `Candidate`}: that it may be unfamiliar; or ""."""
    warning = familiarity.unlike(
      self.known, {language: one.probability for language, one in candidates.items()}
    )
    return f"the picture {warning}" if warning else ""
