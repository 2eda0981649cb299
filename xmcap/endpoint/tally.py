"""What a run asks for and what came of it, whoever is asked: an endpoint, batch files or a function."""

import collections
import dataclasses
import datetime
from collections.abc import Mapping, Sequence
from typing import Any

import xmcap
from xmcap import wording
from xmcap.endpoint.answers import Answer, State, Tokens
from xmcap.endpoint.journal import Journal
from xmcap.errors import UsageError
from xmcap.scoring import residue

CLEANED = tuple(kind for kind in residue.KINDS if kind not in ("prefix", "suffix"))
"""The kinds of residue that are removed from answers: those that a caption shows by itself."""

FIRST = 3  # pictures that all failed mean that something is wrong with the run, and not with them
_REASONS = 3  # that are said


@dataclasses.dataclass(frozen=True)
class Outcome:
  """What came of a run.

  Attributes:
    captions: key -> language -> caption, without residue; only of what was answered.
    missing: how many captions were asked for and are not there.
    provenance: what was asked of whom, and what it took, for `provenance.json`.
    notes: the same in lines for people.
  """

  captions: dict[str, dict[str, str]]
  missing: int
  provenance: dict[str, Any]
  notes: list[str]


class Tally:
  """The questions of a run.

  Attributes:
    journal: has the answers of earlier runs, and gets those of this one.
    tokens: of the answers of this run.
    asked: how many answers this run has got.
    broken: key -> why no model can be shown the picture.
    ids: (key, language) -> id of the question whose answer is the caption.
  """

  def __init__(self, journal: Journal):
    self.journal = journal
    self.tokens = Tokens()
    self.asked = 0
    self.broken: dict[str, str] = {}
    self.ids: dict[tuple[str, str], str] = {}
    self._begun = _now()
    self._has_answers = State.ANSWERED in journal.states.values()
    self._failing: set[str] = set()  # pictures

  @property
  def states(self) -> collections.Counter[State]:
    """How many questions are in each state; those without an answer are in none."""
    states = map(self.journal.states.get, self.ids.values())
    return collections.Counter(state for state in states if state is not None)

  def settled(self, question: str, key: str, language: str) -> bool:
    """Whether the journal has the answer of a question; what failed is asked again."""
    self.ids[key, language] = question
    return self.journal.states.get(question, State.FAILED) is not State.FAILED

  def add(self, question: str, key: str, language: str, answer: Answer) -> None:
    """Appends an answer to the journal, and counts it."""
    self.journal.append(question, key, language, answer)
    self.tokens = self.tokens.plus(answer.tokens)
    self.asked += 1

  def check_first(self, key: str, failed: bool, problem: str) -> None:
    """Raises UsageError, with the problem, if the first pictures failed and nothing was ever answered."""
    self._has_answers |= not failed
    self._failing.add(key)
    if not self._has_answers and len(self._failing) >= FIRST:
      raise UsageError(problem)

  def outcome(
    self, keys: Sequence[str], languages: Sequence[str], fields: Mapping[str, Any], notes: Sequence[str] = (),
    verb: str = "asked",
  ) -> Outcome:  # fmt: skip
    """Returns what came of the run.

    Args:
      keys: of all pictures.
      languages: codes of all captions.
      fields: what its provenance has besides: who was asked, and what. Its tokens are those of all runs, with their
        dollars; what is asked, requests and bytes are of this one.
      notes: the last lines for people.
      verb: what this run did with its questions.
    """
    captions, models, cleaned, emptied = self._captions(keys, languages)
    states = self.states
    provenance = {
      **fields, "answered_by": models, "languages": list(languages),
      "states": {state.value: states[state] for state in State}, "cleaned": cleaned, "emptied": emptied,
      "asked": self.asked, "tokens": self.journal.tokens._asdict(), "begun": self._begun, "ended": _now(),
      "xmcap": xmcap.__version__,
    }  # fmt: skip
    missing = len(keys) * len(languages) - sum(map(len, captions.values()))
    counts = {**{state: states[state] for state in State}, "pending": len(self.ids) - states.total()}
    counted = ", ".join(f"{count:,} {state}" for state, count in counts.items() if count)
    lines = [f"left out: {reason}" for reason in self.broken.values()]
    lines.append(
      f"{wording.count(len(self.ids), 'question')}: {counted or 'none'}; {self.asked:,} {verb} now"
    )
    lines.extend(f"{count:,} {reason}" for reason, count in self._reasons().most_common(_REASONS))
    if states[State.CUT]:
      lines.append("what is cut stays so: ask with a prompt of your own that has more max_tokens")
    if cleaned:
      kinds = ", ".join(f"{kind} {count:,}" for kind, count in cleaned.items())
      lines.append(f"removed from captions: {kinds}" + (f"; {emptied:,} had nothing else" if emptied else ""))
    return Outcome(captions, missing, provenance, [*lines, *notes])

  def _reasons(self) -> collections.Counter[str]:
    """Why questions have no caption -> how many."""
    states = self.journal.states
    without = (id for id in self.ids.values() if states.get(id, State.ANSWERED) is not State.ANSWERED)
    return collections.Counter(
      f"{answer.state}: {answer.reason}" for answer in map(self.journal.answer, without)
    )

  def _captions(self, keys: Sequence[str], languages: Sequence[str]):
    """The captions without residue, who answered, how many captions lost each kind, and how many had nothing else."""
    texts: dict[str, dict[str, str]] = {language: {} for language in languages}
    models: collections.Counter[str] = collections.Counter()
    for (key, language), question in self.ids.items():
      if language in texts and self.journal.states.get(question) is State.ANSWERED:
        answer = self.journal.answer(question)
        # No file of captions can hold half a character, which some servers send; U+FFFD takes its place.
        whole = answer.text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        texts[language][key] = whole.strip()
        models[answer.model] += 1
    by_language = residue.clean_languages(
      {code: list(of.values()) for code, of in texts.items()}, {}, CLEANED
    )
    captions: dict[str, dict[str, str]] = {key: {} for key in keys if key not in self.broken}
    cleaned: collections.Counter[str] = collections.Counter()
    emptied = 0
    for language in languages:
      result = by_language[language]
      cleaned.update({kind: len(rows) for kind, rows in result.rows.items()})
      for key, text in zip(texts[language], result.captions, strict=True):
        emptied += not text.strip()
        if text.strip():
          captions[key][language] = text
    return {key: of_key for key, of_key in captions.items() if of_key}, dict(models), dict(cleaned), emptied


def _now() -> str:
  return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
