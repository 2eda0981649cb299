"""The faults of single captions. What `MEASURES` has as shares, `Health.rows` has as rows."""

from xmcap.reading.request_forms import REFUSAL, UNSEEN
from xmcap.scoring import residue
from xmcap.scoring.health.measures import MEASURES
from xmcap.scoring.residue.forms import FORMS

ANSWERS = {UNSEEN: "no_picture", REFUSAL: "refusal"}
"""What `failed_requests.find_unseen` finds -> the fault."""

_NO_SHARE = {
  "no_picture": ("No picture seen", "Captions that say that no picture was seen."),
  "refusal": ("Refusal", "Captions that refuse the task."),
  "lost": ("Lost", "Captions with U+FFFD, or another sign of characters that nothing restores."),
  **{
    kind: (kind.capitalize(), f"Captions with {form.noun}, which --clean={kind} removes.")
    for kind, form in FORMS.items()
  },
}
_ORDER = (
  "no_picture", "refusal", "wrong_language", "wrong_script", *residue.KINDS, "lost", "copy", "empty", "no_letter",
  "most_frequent", "repetitive", "over_long", "truncated",
)  # fmt: skip

FAULTS: dict[str, tuple[str, str]] = {
  name: (MEASURES[name].heading, MEASURES[name].explanation) if name in MEASURES else _NO_SHARE[name]
  for name in _ORDER
}
"""Name of a fault, a measure or a kind of residue -> its heading and explanation."""
