"""Keeps the placeholder `{}` of a template through a translator, which may drop or translate it.

As Babel-ImageNet's authors did (Geigle et al., 2024, appendix B.2; data_scripts/prompt_translation.py of their
repository): it is written in several forms, and the first that comes back counts. If none does, it is appended.
"""

import re

from xmcap.ranked.prompts import PLACE
from xmcap.scoring import residue

_TAGS = ("a", "b", "i", "div")
FORMS = (
  "{c}", *(f"<{tag}>{{c}}</{tag}>" for tag in _TAGS), *(f"<{tag}>{PLACE}</{tag}>" for tag in _TAGS),
  "\N{DEGREE SIGN}", "*", "#", "\N{SECTION SIGN}", "\N{REFERENCE MARK}",
)  # fmt: skip
"""In the order of the authors."""

_REASONING = ("think", "tokens")


def put(text: str, form: str) -> str:
  """Returns a template with a form of the placeholder; as it is without a form."""
  return text.replace(PLACE, form) if form else text


def restored(answer: str, form: str) -> str:
  """Returns an answer with the placeholder where the form stands first, and not where it stands again; "" without."""
  text = _written(answer)
  if form not in text:
    return ""
  before, _, after = text.partition(form)
  return _spaced(f"{before} {PLACE} {after.replace(form, ' ').replace(PLACE, ' ')}")


def appended(answer: str) -> str:
  """Returns an answer with the placeholder at its end."""
  return _spaced(f"{_written(answer).replace(PLACE, ' ')} {PLACE}")


def _written(answer: str) -> str:
  """The answer without what a model thought before it, which has the placeholder too."""
  return residue.clean([answer], (), _REASONING).captions[0]


def _spaced(text: str) -> str:
  return re.sub(" +", " ", text).strip()
