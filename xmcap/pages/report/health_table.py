"""The health of captions by language: faults that overlap with references does not show."""

from collections.abc import Mapping
from typing import Any

from xmcap.pages.report import elements
from xmcap.scoring.health import MEASURES, Health

_REFERENCES = {name: f"{name}_references" for name in MEASURES if f"{name}_references" in MEASURES}
_STRONGEST = 0.25  # excess over the share of the references at which the tint is strongest
_ABOUT = "about-health-"
_WEAKEST = 0.02  # a weaker tint would only mark noise


def section(healths: Mapping[str, Mapping[str, Health]]) -> str:
  """Returns the section for system -> language code -> health of its captions; "" if there is none."""
  measured = [(name, of_languages) for name, of_languages in healths.items() if of_languages]
  if not measured:
    return ""
  panels = {
    str(i): elements.table_holder(f"Health: {name}", id=f"health-{i}") for i, (name, _) in enumerate(measured)
  }
  explanations = "".join(
    elements.tag(
      "div",
      f"<dt>{measure.heading}</dt><dd>{elements.escape(measure.explanation)}</dd>",
      id=_ABOUT + name,
    )
    for name, measure in MEASURES.items()
  )
  systems = [(str(i), name) for i, (name, _) in enumerate(measured)]
  return elements.section(
    "health",
    "Health of the captions",
    elements.panels("system", panels)
    + f'<details class="explanations"><summary>Definitions</summary><dl class="entries">{explanations}</dl></details>'
    + elements.script_json("health-data", [data(of_languages) for _, of_languages in measured]),
    "Faults of captions that overlap with references does not show. A stronger tint means a larger share, minus the "
    "share of the references where that is measured.",
    elements.choice("health-system", "System", systems, buttons=False),
  )


def data(healths: Mapping[str, Health]) -> dict[str, Any]:
  """Returns the measures, and for each language code a list of (value, text, tint in percent) per measure."""
  return {
    "measures": [
      {"text": measure.heading, "hint": measure.explanation, "about": _ABOUT + name}
      for name, measure in MEASURES.items()
    ],
    "rows": {language: _cells(health.as_dict()) for language, health in healths.items()},
  }


def _cells(values: Mapping[str, float | None]) -> list[tuple[float | None, str, int]]:
  cells = []
  for name, measure in MEASURES.items():
    value = values[name]
    strength = 0.0
    if value is not None and measure.percent and name not in _REFERENCES.values():
      excess = value - (values[_REFERENCES[name]] or 0.0) if name in _REFERENCES else value
      strength = min(1.0, max(0.0, excess) / _STRONGEST)
    tint = round(100 * strength) if strength >= _WEAKEST else 0
    cells.append((value, measure.format(value).replace("-", "\u2013"), tint))
  return cells
