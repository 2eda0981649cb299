"""Whether there is a prediction for each reference, and what is done about those that are missing."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from xmcap import languages as languages_lib
from xmcap import wording
from xmcap.errors import UsageError
from xmcap.reading import failed_requests
from xmcap.reading.failed_requests import Failed
from xmcap.reading.predictions import Predictions
from xmcap.reading.references import ReferenceMapping
from xmcap.terminal import shown


class Unmatched(UsageError):
  """References and predictions do not match; `output.score_files` adds the names of the files."""


MISSING = ("refuse", "empty")
"""Ways to treat missing predictions."""


def match_references(
  references: ReferenceMapping,
  predictions: Predictions,
  languages: Sequence[str] | None = None,
  missing: str = "refuse",
  failed: Mapping[str, Mapping[str, Failed]] | None = None,
) -> tuple[str, ...]:
  """Checks that there is exactly one prediction for each image and language with references.

  Args:
    references, predictions: the captions.
    languages: codes to score, ignoring other predictions; None: all that have references.
    missing: `refuse`, or `empty` if `fill_missing` will replace missing predictions by empty ones.
    failed: the requests that failed, which are missing predictions.

  Returns:
    The codes to score, in alphabetical order.

  Raises:
    Unmatched: a language has no references, or predictions are missing or have no references.
    UsageError: a code is unknown, or `missing` is not in `MISSING`.
  """
  check_missing(missing)
  _refuse_foreign(references, predictions)
  codes = {language for captions in references.values() for language, texts in captions.items() if texts}
  if languages is None:
    scored = tuple(sorted(codes))
    predicted = set().union(*predictions.values())
  else:
    scored = predicted = tuple(sorted({languages_lib.get(code).code for code in languages}))
  if not scored:
    raise Unmatched("no language to score: the references have no captions")
  absent = sorted(set(predicted) - codes)
  if absent:
    named = ", ".join(_with_relative(code, codes) for code in absent)
    unpredicted = ", ".join(code for code in scored if code not in set().union(*predictions.values()))
    but = f", and no predictions in {unpredicted}" if unpredicted else ""
    raise Unmatched(f"no references in {named}{but}: choose other --languages, or add references")
  _refuse_differing(references, predictions, scored, missing, failed or {})
  return scored


def _with_relative(language: str, languages: Collection[str]) -> str:
  """Returns a code, with the language among those held of which it is a variety."""
  base = languages_lib.variety_base(language)
  if base not in languages:
    return language
  # `read_predictions` takes the others for the language, if it knows the references.
  how = "read the predictions with references=" if languages_lib.variety_of(language) else "in another script"
  return f"{language} (there is {base}, {how})"


def check_missing(missing: str) -> None:
  """Raises UsageError if `missing` is not in `MISSING`."""
  if missing not in MISSING:
    raise UsageError(f"--missing={shown(str(missing))}: choose {' or '.join(MISSING)}")


def fill_missing(
  references: ReferenceMapping, predictions: Predictions, languages: Iterable[str]
) -> tuple[Predictions, dict[str, int]]:
  """Adds an empty caption for each missing prediction in the languages.

  Returns:
    The predictions in a new dictionary, and language -> number of missing predictions, if above 0.
  """
  filled, counts = dict(predictions), {}
  for language, key in _missing(references, predictions, frozenset(languages)):
    filled[key] = {**filled.get(key, {}), language: ""}
    counts[language] = counts.get(language, 0) + 1
  return filled, dict(sorted(counts.items()))


def _refuse_foreign(references: ReferenceMapping, predictions: Predictions) -> None:
  """Raises Unmatched if no predicted image has references, because the keys are written differently."""
  if not references or not predictions or not references.keys().isdisjoint(predictions):
    return
  theirs, ours = next(iter(predictions)), next(iter(references))
  how = "write them as the references do, or give --key, a regular expression whose group is the key, such as '(.*)_en'"
  raise Unmatched(
    f"none of the {len(predictions):,} predicted images is among the {len(references):,} of the references (keys such "
    f"as '{shown(theirs)}' and '{shown(ours)}'); {how}"
  )


def _refuse_differing(
  references: ReferenceMapping,
  predictions: Predictions,
  scored: tuple[str, ...],
  missing: str,
  failed: Mapping[str, Mapping[str, Failed]],
) -> None:
  """Raises Unmatched if predictions are missing or have no references; it shows both, side by side."""
  languages = frozenset(scored)
  lacking = list(_missing(references, predictions, languages)) if missing == "refuse" else []
  unanswered = [(code, key, failed[key][code]) for code, key in lacking if code in failed.get(key, {})]
  absent = [(code, key) for code, key in lacking if code not in failed.get(key, {})]
  rejected = getattr(references, "rejected", ())
  extra = []
  for key, captions in predictions.items():
    if key in rejected:
      continue
    of_image = references.get(key, {})
    extra += [(code, key) for code in languages.intersection(captions) if not of_image.get(code)]
  extra.sort()
  if not (lacking or extra):
    return
  problems = []
  total = sum(bool(captions.get(language)) for captions in references.values() for language in scored)
  if unanswered:
    problems.append(failed_requests.count(unanswered, total))
  if absent:
    predicted = set().union(*predictions.values())
    whole = ", ".join(code for code in scored if code not in predicted)
    of = f", all in {whole}" if whole else ""
    problems.append(f"{len(absent):,} of {total:,} predictions are missing ({_few_pairs(absent)}){of}")
  if extra:
    unknown = {key for _, key in extra if key not in references}
    problems.append(
      f"{wording.count(len(extra), 'prediction')} without references, {wording.count(len(unknown), 'unknown image')} "
      f"among them ({_few_pairs(extra)})"
    )
  if absent and extra:
    cure = "write keys as the references do, or give --key"
  elif absent:
    cure = (
      "predict them, name the languages to score with --languages, or score them as empty captions with "
      "--missing=empty"
    )
  elif extra:
    cure = "remove them, or add their references"
  else:
    cure = "ask for them again, or score them as empty captions with --missing=empty"
  raise Unmatched(f"{'; '.join(problems)}; {cure}")


def _missing(
  references: ReferenceMapping, predictions: Predictions, languages: Collection[str]
) -> Iterator[tuple[str, str]]:
  """Yields (language, image key) with references but no prediction, in the order of the references."""
  for key, captions in references.items():
    predicted = predictions.get(key, {})
    for language, texts in captions.items():
      if texts and language in languages and language not in predicted:
        yield language, key


def _few_pairs(pairs: Sequence[tuple[str, str]]) -> str:
  return wording.first_few([f"{language} {shown(key)}" for language, key in pairs])
