"""Language health: faults of captions that overlap with references does not show.

`measure` looks at one language's captions; `copies` at the captions of one image in several languages, by `marks`.
"""

from xmcap.scoring.health.copies import copies, marks
from xmcap.scoring.health.identifier import load
from xmcap.scoring.health.measures import MEASURES, Health, Measure, measure

__all__ = ["MEASURES", "Health", "Measure", "copies", "load", "marks", "measure"]
