"""Language fidelity beside the scores of a table: the share of captions in the right language."""

import dataclasses
from collections.abc import Mapping, Sequence

from xmcap import wording
from xmcap.digests import digest
from xmcap.reading.references import References
from xmcap.scoring.health import Health, Vocabularies, fidelity, named
from xmcap.scoring.tables import score_table

HEADING = "fidelity"
OF_REFERENCES = "fidelity of references"
HEADINGS = (HEADING, OF_REFERENCES)
SAMPLE = 1000
"""Number of images whose references are read in each language, evenly spaced; of fewer, several references each."""


def read(references: References, gathered: Mapping[str, Sequence[Sequence[str]]]) -> Vocabularies:
  """Returns the words of the references of all languages.

  `gathered` is language code -> the references of each image that has some, by sorted key; of some languages.
  """
  of_language, keys = dict(gathered), sorted(references)
  for code in set().union(*references.values()) - gathered.keys():
    of_language[code] = [texts for key in keys if (texts := references[key].get(code))]
  return Vocabularies.of(
    {code: _sample(of_language[code]) for code in sorted(of_language) if of_language[code]}
  )


def _sample(references: Sequence[Sequence[str]]) -> list[str]:
  """Returns references of up to `SAMPLE` images, taken in turns from those of an image: their order has a meaning."""
  size = min(SAMPLE, len(references))
  of_image = SAMPLE // size
  chosen = [sorted(references[place * len(references) // size]) for place in range(size)]
  return [
    texts[(place + i) % len(texts)]
    for place, texts in enumerate(chosen)
    for i in range(min(of_image, len(texts)))
  ]


def signature(vocabularies: Vocabularies) -> str:
  """Returns the part of the signature of scores whose captions in another language count as empty."""
  samples = "\n".join(f"{code}:{text}" for code, texts in vocabularies.samples.items() for text in texts)
  return f"zero-{fidelity.version()}#{digest(samples)}"


def notes_on_emptied(counts: Mapping[str, int]) -> list[str]:
  """Returns the notes of a table on language code -> number of captions in another language scored as empty."""
  emptied = {code: count for code, count in counts.items() if count}
  if not emptied:
    return []
  where = ", ".join(f"{code} {count:,}" for code, count in emptied.items())
  captions = wording.count(sum(emptied.values()), "caption")
  return [f"{captions} in another language scored as empty captions: {where}"]


def with_fidelity(table: score_table.Table, healths: Mapping[str, Health]) -> score_table.Table:
  """Returns the table with the language fidelity of captions and references, and a note on undecided captions."""
  shares = {
    HEADING: {
      code: 1 - wrong for code, health in healths.items() if (wrong := health.wrong_language) is not None
    },
    OF_REFERENCES: {
      code: 1 - wrong
      for code, health in healths.items()
      if (wrong := health.wrong_language_references) is not None
    },
  }
  if not any(shares.values()):
    return table
  columns = {heading: score_table.column(table.rows, column) for heading, column in shares.items()}
  undecided = {code: health.undecided or 0.0 for code, health in healths.items()}
  most_first = sorted(undecided, key=lambda code: -undecided[code])
  shown = [f"{code} {undecided[code]:.1%}" for code in most_first if round(undecided[code], 3)]
  notes = table.notes
  if shown:
    notes += (
      f"{score_table.OF_COLUMNS}fidelity: without captions whose language cannot be told: {named(shown)}",
    )
  return dataclasses.replace(table, shares=columns, notes=notes)
