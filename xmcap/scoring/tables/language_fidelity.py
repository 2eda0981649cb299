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
  for language in set().union(*references.values()) - gathered.keys():
    of_language[language] = [texts for key in keys if (texts := references[key].get(language))]
  return Vocabularies.of(
    {language: _sample(of_language[language]) for language in sorted(of_language) if of_language[language]}
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
  samples = "\n".join(
    f"{language}:{text}" for language, texts in vocabularies.samples.items() for text in texts
  )
  return f"zero-{fidelity.version()}#{digest(samples)}"


def notes_on_emptied(counts: Mapping[str, int]) -> list[str]:
  """Returns the notes of a table on language code -> number of captions in another language scored as empty."""
  emptied = {language: count for language, count in counts.items() if count}
  if not emptied:
    return []
  where = ", ".join(f"{language} {count:,}" for language, count in emptied.items())
  captions = wording.count(sum(emptied.values()), "caption")
  return [f"{captions} in another language scored as empty captions: {where}"]


def with_fidelity(table: score_table.Table, healths: Mapping[str, Health]) -> score_table.Table:
  """Returns the table with the language fidelity of captions and references, and a note on undecided captions."""
  shares = {
    HEADING: {
      language: 1 - wrong
      for language, health in healths.items()
      if (wrong := health.wrong_language) is not None
    },
    OF_REFERENCES: {
      language: 1 - wrong
      for language, health in healths.items()
      if (wrong := health.wrong_language_references) is not None
    },
  }
  if not any(shares.values()):
    return table
  columns = {heading: score_table.column(table.rows, column) for heading, column in shares.items()}
  undecided = {language: health.undecided or 0.0 for language, health in healths.items()}
  most_first = sorted(undecided, key=lambda language: -undecided[language])
  shown = [
    f"{language} {undecided[language]:.1%}" for language in most_first if round(undecided[language], 3)
  ]
  notes = table.notes
  if shown:
    notes += (
      f"{score_table.OF_COLUMNS}fidelity: without captions whose language cannot be told: {named(shown)}",
    )
  return dataclasses.replace(table, shares=columns, notes=notes)
