"""What chat models and detectors leave around a caption, found by its form or by counting; and its removal."""

from xmcap.scoring.residue.characters import name_lost
from xmcap.scoring.residue.cleaning import (
  BROKEN,
  KINDS,
  Cleaned,
  clean,
  clean_all,
  clean_languages,
  parse,
  signature,
)
from xmcap.scoring.residue.forms import LINE_ENDS

__all__ = [
  "BROKEN",
  "KINDS",
  "LINE_ENDS",
  "Cleaned",
  "clean",
  "clean_all",
  "clean_languages",
  "name_lost",
  "parse",
  "signature",
]
