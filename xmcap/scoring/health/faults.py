"""The faults of single captions, whose shares `measures.MEASURES` explains."""

from xmcap.scoring import residue
from xmcap.scoring.health.measures import MEASURES
from xmcap.scoring.residue.forms import FORMS

FAULTS: dict[str, tuple[str, str]] = {
  name: (MEASURES[name].heading, MEASURES[name].explanation)
  if name in MEASURES
  else (name.capitalize(), f"Captions with {FORMS[name].noun}, which --clean={name} removes.")
  for name in (
    "wrong_language", "wrong_script", *residue.KINDS, "copy", "empty", "no_letter", "most_frequent", "repetitive",
    "over_long", "truncated",
  )
}  # fmt: skip
"""Name of a fault, a measure or a kind of residue -> its heading and explanation. `Health.rows` has the captions."""
