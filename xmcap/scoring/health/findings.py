"""Says in sentences what captions have that references have not, and what it does to the scores."""

import math
from collections.abc import Mapping, Sequence

from xmcap.scoring import residue
from xmcap.scoring.health.leftovers import IN_REFERENCES, Finding
from xmcap.scoring.health.measures import Health
from xmcap.scoring.residue.forms import FORMS
from xmcap.terminal import shown

_FEW = 3  # languages that are named
_MOST = 0.5  # a share of references
_SIGMA = 6.0  # of CIDEr-D


def notes(
  healths: Mapping[str, Health], metrics: Sequence[str] = (), wrong_language: str = "keep"
) -> list[str]:
  """Returns a sentence for each kind of finding, over all languages, the worst first; `metrics` are those of the table.

  There is none if the captions are as the references are, nor on captions in another language if these are scored as
  empty captions, which has a note of its own.
  """
  by_kind: dict[str, dict[str, Finding]] = {}
  for language, health in healths.items():
    for finding in health.findings:
      by_kind.setdefault(finding.kind, {})[language] = finding
  lengths = by_kind.pop("length_ratio", None)
  order = [
    *residue.KINDS,
    "lost",
    *(IN_REFERENCES + kind for kind in [*residue.BROKEN, "lost"]),
    *(["wrong_language"] if wrong_language == "keep" else []),
    "no_letter",
    "most_frequent",
    "over_long",
  ]
  sentences = [_sentence(kind, by_kind[kind]) for kind in order if kind in by_kind]
  # References with broken characters, which are markup, have a note of their own.
  foreign = [
    language
    for language, health in healths.items()
    if (health.wrong_language_references or 0) - health.markup_references > _MOST
  ]
  if foreign:
    sentences.insert(
      0, f"{named(foreign)}: most references are in another language; check --language and the file"
    )
  return [*sentences, _lengths(lengths, metrics)] if lengths else sentences


def _sentence(kind: str, of_language: Mapping[str, Finding]) -> str:
  languages = sorted(
    of_language, key=lambda language: -of_language[language].count / of_language[language].total
  )
  worst = of_language[languages[0]]
  count, total = (sum(getattr(fault, name) for fault in of_language.values()) for name in ("count", "total"))
  captions = f"{named(languages)}: {count:,} of {total:,} captions"
  of_references = [fault.reference_count / fault.reference_total for fault in of_language.values()]
  share = 100 * sum(of_references) / len(of_references)
  example = f"'{shown(worst.examples[0], limit=60)}'" if worst.examples else ""
  if kind in ("prefix", "suffix"):
    verb = "begin" if kind == "prefix" else "end"
    several = len(of_language) > 1 or len(worst.examples) > 1
    affix = f"a text that many share, such as {example}" if several else example
    who = f"{share:.1g}% of the references do" if share else "no reference does"
    return f"{captions} {verb} with {affix}, which {who}; --clean={kind} removes it"
  who = f"{share:.1g}% of the references have" if share else "no reference has"
  if kind == "lost":
    return f"{captions} have {worst.examples[0]} in the place of lost characters, which {who}; nothing restores them"
  if kind.startswith(IN_REFERENCES):
    noun = (
      FORMS[of_form].noun if (of_form := kind.removeprefix(IN_REFERENCES)) in FORMS else "lost characters"
    )
    references = captions.replace("captions", "references")
    return f"{references} have {noun}, such as {example}, so that a caption without cannot match them"
  if kind == "lines":
    return f"{captions} have several lines, which {who}; --clean=lines keeps the first"
  if kind in FORMS:
    return f"{captions} have {FORMS[kind].noun}, such as {example}, which {who}; --clean={kind} removes it"
  if kind == "no_letter":
    return f"{captions} have no letter, which {who}"
  if kind == "wrong_language":
    who = f"{share:.1g}% of the references are" if share else "no reference is"
    zero = "--wrong_language=zero scores them as empty"
    return f"{captions} are in another language, such as {example}, which {who}; {zero}"
  if kind == "over_long":
    limit = f"more than {worst.examples[0]} words" if len(of_language) == 1 else "too many words"
    return f"{captions} have {limit}: more than twice as many as 99 of 100 references have"
  return f"{captions} are the most frequent of their language, such as {example}; of the references it is {share:.1g}%"


def _lengths(of_language: Mapping[str, Finding], metrics: Sequence[str]) -> str:
  means = {
    language: (fault.count / fault.total, fault.reference_count / fault.reference_total)
    for language, fault in of_language.items()
  }
  worst = max(means, key=lambda language: means[language][0] / means[language][1])
  mean, reference_mean = means[worst]
  text = (
    f"{named(list(means))}: captions have {mean / reference_mean:.1f} times as many words as references "
    f"({f'in {worst} ' if len(means) > 1 else ''}{mean:.1f} against {reference_mean:.1f})"
  )
  if "cider_d" in metrics:
    factor = math.exp(-((mean - reference_mean) ** 2) / (2 * _SIGMA**2))
    text += f"; for such a difference CIDEr-D's length penalty multiplies the score by {factor:.2g}"
  return text


def named(languages: Sequence[str]) -> str:
  """Returns languages for a sentence: the first three, and the number of the others."""
  if len(languages) <= _FEW + 1:
    return ", ".join(languages)
  return f"{', '.join(languages[:_FEW])} and {len(languages) - _FEW} more languages"
