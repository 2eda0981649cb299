"""Predictions as they are scored: one for each reference, without what failed, with empty ones, without residue."""

from collections.abc import Mapping, Sequence

from xmcap import wording
from xmcap.reading import failed_requests
from xmcap.reading.failed_requests import Failures
from xmcap.reading.missing import fill_missing, match_references
from xmcap.reading.predictions import Predictions
from xmcap.reading.references import References
from xmcap.scoring import residue
from xmcap.scoring.options import ScoringOptions


def prepare(
  references: References, predictions: Predictions, failed: Failures, options: ScoringOptions
) -> tuple[tuple[str, ...], Predictions, list[str], failed_requests.Unseen]:
  """Returns the codes to score, the predictions, notes on them, and answers without an image.

  Errors are those of `score`.
  """
  scored = match_references(references, predictions, options.scored_languages, options.missing, failed)
  notes = []
  if options.missing == "empty":
    predictions, notes = _filled(references, predictions, scored, failed)
  unseen = failed_requests.find_unseen(references, predictions, scored)
  if unseen:
    total = sum(bool(of_image.get(language)) for of_image in references.values() for language in scored)
    notes += failed_requests.unseen_notes(unseen, predictions, total)
  if options.residue_kinds:
    predictions, removed = _cleaned(references, predictions, scored, unseen, options)
    notes += removed
  return scored, predictions, notes, unseen


def _filled(
  references: References, predictions: Predictions, scored: Sequence[str], failed: Failures
) -> tuple[Predictions, list[str]]:
  """Returns the predictions with empty captions for missing ones, and notes that give their number."""
  filled, counts = fill_missing(references, predictions, scored)
  if not counts:
    return filled, []
  missing = wording.count(sum(counts.values()), "missing prediction")
  where = ", ".join(f"{language} {count:,}" for language, count in counts.items())
  notes = [f"{missing} scored as empty captions: {where}"]
  unanswered = [
    (language, key, text)
    for key, of_image in failed.items()
    for language, text in of_image.items()
    if language in counts and references.get(key, {}).get(language)
  ]
  if unanswered:
    requests = wording.count(len(unanswered), "request")
    listed = failed_requests.summary(unanswered, places=False)
    notes.append(f"of the missing predictions, {requests} failed: {listed}")
  return filled, notes


def _cleaned(
  references: References,
  predictions: Predictions,
  scored: Sequence[str],
  unseen: failed_requests.Unseen,
  options: ScoringOptions,
) -> tuple[Predictions, list[str]]:
  """Removes residue, but not from answers that saw no image; a failed request that residue hid is missing."""
  kept = {pair: predictions[pair[1]][pair[0]] for pairs in unseen.values() for pair in pairs}

  def restored(captions: Predictions, texts: Mapping[tuple[str, str], str]) -> Predictions:
    changed = dict(captions)
    for (language, key), text in texts.items():
      changed[key] = {**changed[key], language: text}
    return changed

  cleaned, notes = residue.clean_all(
    references, restored(predictions, dict.fromkeys(kept, "")), scored, options.residue_kinds
  )
  cleaned, failed = failed_requests.split(references, restored(cleaned, kept))
  if failed:
    match_references(references, cleaned, scored, options.missing, failed)
    cleaned, of_missing = _filled(references, cleaned, scored, failed)
    notes += of_missing
  return cleaned, notes
