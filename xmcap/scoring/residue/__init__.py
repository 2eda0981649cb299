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

__all__ = [
  "BROKEN",
  "KINDS",
  "Cleaned",
  "clean",
  "clean_all",
  "clean_languages",
  "name_lost",
  "parse",
  "signature",
]
