"""Measures residue: markup, shared beginnings and ends, and several lines, in the captions and in the references."""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from xmcap.scoring import residue
from xmcap.scoring.health.leftovers import IN_REFERENCES, Finding
from xmcap.scoring.health.measures import Health
from xmcap.scoring.residue.affixes import Texts

_AFFIXES = ("prefix", "suffix")
_FORMS = tuple(kind for kind in residue.KINDS if kind not in _AFFIXES)
_MARKUP = tuple(kind for kind in [*_FORMS, "lost"] if kind != "lines")


@dataclasses.dataclass(frozen=True)
class Residual:
  """The measures by name, what is clearly above the references, and the rows of captions of each kind."""

  values: dict[str, float]
  findings: tuple[Finding, ...]
  rows: dict[str, np.ndarray] = dataclasses.field(default_factory=dict, compare=False, repr=False)

  def added(self, health: Health) -> Health:
    """Returns the health with these measures."""
    return dataclasses.replace(
      health, **self.values, findings=(*self.findings, *health.findings), rows={**health.rows, **self.rows}
    )


def residual(captions: Texts, references: Texts) -> dict[str, Residual]:
  """Measures the residue of each language; each has a caption, and perhaps references.

  The languages are looked at together, since what several share is residue in each.
  """
  cleaned = residue.clean_languages(captions, references)
  return {
    language: _measure(captions[language], references[language], *_found(changes))
    for language, changes in cleaned.items()
  }


def _measure(
  captions: Sequence[str],
  references: Sequence[str],
  rows: Mapping[str, Sequence[int]],
  examples: Mapping[str, tuple[str, ...]],
) -> Residual:
  of_references, reference_examples = _found(residue.clean(references, (), _FORMS))
  total, of_total = len(captions), len(references)
  findings = []
  for kind, having in rows.items():
    count = len(of_references.get(kind, ()))
    if kind in _AFFIXES:
      is_begun = str.startswith if kind == "prefix" else str.endswith
      count = sum(is_begun(text.strip(), examples[kind]) for text in references)
    findings.append(Finding(kind, len(having), total, count, of_total, examples[kind]))
  for kind in of_references.keys() & {*residue.BROKEN, "lost"}:
    count = len(of_references[kind]), of_total, len(rows.get(kind, ())), total
    findings.append(Finding(IN_REFERENCES + kind, *count, reference_examples[kind]))
  values = {
    "markup": _share(_MARKUP, rows, total),
    "markup_references": _share(_MARKUP, of_references, of_total),
    "prefix": _share(("prefix",), rows, total),
    "suffix": _share(("suffix",), rows, total),
    "lines": _share(("lines",), rows, total),
    "lines_references": _share(("lines",), of_references, of_total),
  }
  of_kinds = {kind: np.array(having, np.int64) for kind, having in rows.items()}
  return Residual(values, tuple(finding for finding in findings if finding.is_clear), of_kinds)


def _found(cleaned: residue.Cleaned) -> tuple[dict[str, list[int]], dict[str, tuple[str, ...]]]:
  """Returns the rows of each kind, and examples, with `lost` as a kind."""
  if not cleaned.lost:
    return cleaned.rows, cleaned.examples
  example = residue.name_lost(cleaned.captions[cleaned.lost[0]])
  return {**cleaned.rows, "lost": cleaned.lost}, {**cleaned.examples, "lost": (example,)}


def _share(kinds: Sequence[str], rows: Mapping[str, Sequence[int]], total: int) -> float:
  return len({row for kind in kinds for row in rows.get(kind, ())}) / max(total, 1)
