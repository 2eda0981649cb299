"""Language health: faults of captions that n-gram overlap with references does not show.

`measure` looks at the captions of one language; `copies` compares the captions of an image across languages, and
`residual` finds what many captions share, within languages and across them.
"""

from xmcap.scoring.health.copies import copies, marks
from xmcap.scoring.health.findings import named, notes
from xmcap.scoring.health.identifier import begin, load
from xmcap.scoring.health.leftovers import Finding
from xmcap.scoring.health.measures import MEASURES, Health, Measure, measure
from xmcap.scoring.health.residual import Residual, residual
from xmcap.scoring.health.vocabularies import Vocabularies

__all__ = [
  "MEASURES",
  "Finding",
  "Health",
  "Measure",
  "Residual",
  "Vocabularies",
  "begin",
  "copies",
  "load",
  "marks",
  "measure",
  "named",
  "notes",
  "residual",
]
