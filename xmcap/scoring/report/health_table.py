"""The health of captions, language by language: what no overlap with references would tell."""

from collections.abc import Mapping

from xmcap.scoring.health import MEASURES, Health
from xmcap.scoring.report import elements, sortable

_REFERENCES = {"wrong_language": "wrong_language_references", "truncated": "truncated_references"}
_STRONGEST = 0.25  # the share, above that of the references, from which on a cell is not tinted any stronger
_WEAKEST = 0.02  # below that, the tint would only mark noise


def section(healths: Mapping[str, Mapping[str, Health]]) -> str:
  """Returns the section; "" if no system's health is known.

  Args:
    healths: system -> language code -> health of its captions.
  """
  known = [(name, of_languages) for name, of_languages in healths.items() if of_languages]
  if not known:
    return ""
  panels = {
    str(place): _table(f"health-{place}", name, of_languages)
    for place, (name, of_languages) in enumerate(known)
  }
  explanations = "".join(
    f"<div><dt>{measure.heading}</dt><dd>{elements.escape(measure.explanation)}</dd></div>"
    for measure in MEASURES.values()
  )
  return elements.section(
    "health",
    "Health of the captions",
    elements.panels("system", panels)
    + f'<details class="explanations"><summary>What is counted</summary><dl>{explanations}</dl></details>',
    "What is wrong with captions that no overlap with references would tell. The stronger the tint, the larger "
    "the share, less that of the references where it is measured.",
    elements.choice(
      "health-system", "System", [(str(place), name) for place, (name, _) in enumerate(known)], buttons=False
    ),
  )


def _table(name: str, system: str, healths: Mapping[str, Health]) -> str:
  headings = sortable.language_headings()
  headings += [sortable.heading(measure.heading, hint=measure.explanation) for measure in MEASURES.values()]
  rows = [[*sortable.language_cells(code), *_cells(health.as_dict())] for code, health in healths.items()]
  return sortable.table(name, headings, rows, label=f"Health of the captions of {system}")


def _cells(values: Mapping[str, float | None]) -> list[str]:
  cells = []
  for name, measure in MEASURES.items():
    value = values[name]
    text = measure.format(value).replace("-", "\u2013")
    if value is None or not measure.percent or name in _REFERENCES.values():
      cells.append(sortable.number(value, text, "soft"))
      continue
    excess = value - (values[_REFERENCES[name]] or 0.0) if name in _REFERENCES else value
    strength = min(1.0, max(0.0, excess) / _STRONGEST)
    style = f"--strength:{100 * strength:.0f}%" if strength >= _WEAKEST else ""
    cells.append(sortable.number(value, text, "tinted" if style else "", style))
  return cells
