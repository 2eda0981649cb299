"""Translates texts through an endpoint: part after part, so that memory does not grow with the input.

A part has a journal of its own, whose answers are in memory while the part is translated; a question is asked once in
its part. A run that ended goes through the parts again, and asks only what they lack.
"""

import asyncio
import collections
import datetime
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import xmcap
from xmcap import wording
from xmcap.endpoint import placeholders, run, translations
from xmcap.endpoint.answers import Answer, State, Tokens
from xmcap.endpoint.asking import first_error
from xmcap.endpoint.client import Client, Endpoint
from xmcap.endpoint.journal import SUFFIX, Journal, question_id
from xmcap.endpoint.questions import Questions
from xmcap.endpoint.tally import FIRST, Tally
from xmcap.errors import XmcapError
from xmcap.progress import Progress, Say

PART = 2_048
"""Texts of a part; with 35 languages their answers take some 40 MB."""

_TEXTS = 4  # at least so many texts are under way
_REASONS, _MOST = 5, 50  # that are said, and that are in the provenance


class Text(NamedTuple):
  """A text to translate, with its name and the code of its language."""

  key: str
  text: str
  language: str


class Translation(NamedTuple):
  """What came of a text in a language: the translation, "" if there is none, then with the reason and the answer."""

  text: str
  reason: str = ""
  answer: str = ""


class Translator:
  """Asks for translations; `with` closes its connections.

  Args:
    endpoint: whom to ask.
    settings: what to ask: prompt, languages, price and costs.
    folder: of the journals, which is there.
    count: of all texts.
    protect: whether the texts have a placeholder that has to survive.
    say: prints a line of progress.
  """

  def __init__(
    self, endpoint: Endpoint, settings: run.Settings, folder: str, count: int, protect: bool, say: Say
  ):
    self._settings, self._folder, self._forms = settings, folder, placeholders.FORMS if protect else ("",)
    self._questions = Questions(endpoint.model, settings.prompt, endpoint.extra_body)
    self._client = Client(endpoint, say)
    self._loop = asyncio.Runner()
    self._progress = Progress(
      say, f"texts translated into {wording.count(len(settings.languages), 'language')}", count
    )
    self._begun, self._parts, self._done = _now(), 0, 0
    self._earlier = self._of_earlier_runs() if settings.max_cost is not None else Tokens()
    self._now = self._all = Tokens()
    self._asked = 0
    self._states: collections.Counter[str] = collections.Counter()
    self._reasons: collections.Counter[str] = collections.Counter()
    self._notes: collections.Counter[str] = collections.Counter()
    self._cleaned: collections.Counter[str] = collections.Counter()
    self._models: collections.Counter[str] = collections.Counter()
    self._good: collections.Counter[str] = collections.Counter()

  def __enter__(self) -> "Translator":
    self._loop.__enter__()
    return self

  def __exit__(self, *error) -> None:
    self._loop.run(self._client.__aexit__(*error))
    self._loop.__exit__(*error)

  def translate(self, texts: Sequence[Text]) -> list[dict[str, Translation]]:
    """Translates the texts of the next part, which are of one language; returns language -> translation of each.

    Raises:
      UsageError: the server refuses every question.
      RestartError: it does not answer.
      XmcapError: the costs reached their limit, or the disk is full.
    """
    self._parts += 1
    journal = Journal(os.path.join(self._folder, f"{self._parts:06}{SUFFIX}"))
    try:
      part = _Part(
        self._client, self._questions, journal, self._settings.languages, self._forms, self._check_cost
      )
      part.knows_answers(State.ANSWERED in self._states)
      self._loop.run(part.ask(texts, self._progressed))
      self._count(part)
      return self._judged(part, texts)
    finally:
      journal.close()

  @property
  def missing(self) -> int:
    """How many translations were asked for and are not there."""
    return self._states.total() - self._good.total()

  def outcome(self, fields: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Returns the provenance, with further fields, and what was done in lines for people."""
    models = self._loop.run(self._client.models())
    asked = run.asked(self._client.endpoint, self._settings)
    del asked["pictures"]  # none are
    asked["prompt"]["translation"] = self._settings.prompt.translation
    provenance = {
      **asked, **fields, "server": models, "answered_by": dict(self._models),
      "languages": list(self._settings.languages), "states": dict(self._states), "translations": dict(self._good),
      "left_out": dict(self._reasons.most_common(_MOST)), "notes": dict(self._notes), "cleaned": dict(self._cleaned),
      "asked": self._asked, "tokens": self._all._asdict(), "dollars": round(self._settings.price.of(self._all), 4),
      "begun": self._begun, "ended": _now(),
      "xmcap": xmcap.__version__,
    }  # fmt: skip
    counted = ", ".join(f"{count:,} {state}" for state, count in self._states.items())
    lines = [
      f"{wording.count(self._states.total(), 'translation')}: {counted or 'none'}; {self._asked:,} asked now"
    ]
    lines += [f"left out: {count:,} {reason}" for reason, count in self._reasons.most_common(_REASONS)]
    lines += [f"{count:,} {note}" for note, count in self._notes.items()]
    if self._cleaned:
      lines.append("removed: " + ", ".join(f"{kind} {count:,}" for kind, count in self._cleaned.items()))
    if none := [code for code in self._settings.languages if self._states.total() and not self._good[code]]:
      lines.append(f"no translation at all into {', '.join(none)}: a translator may lack a language")
    tokens, spent = self._all, self._settings.price.of(self._all)
    lines.append(
      f"{wording.count(self._client.attempts, 'request')}, at most {self._client.limit.most_under_way} at once; tokens:"
      f" {tokens.prompt:,} of prompts, {tokens.completion:,} of answers{f', {spent:,.2f} dollars' if spent else ''}"
    )
    if self._client.again:
      again = ", ".join(f"{reason} ({times:,})" for reason, times in self._client.again.items())
      lines.append(f"asked again after: {again}")
    return provenance, lines

  def _judged(self, part: "_Part", texts: Sequence[Text]) -> list[dict[str, Translation]]:
    """Returns what the answers of a part are, language by language."""
    results: list[dict[str, Translation]] = [{} for _ in texts]
    for language in self._settings.languages:
      rows = [row for row, text in enumerate(texts) if text.language != language]
      answers = [part.answers[row, language] for row in rows]
      judged = translations.judge(
        [texts[row].text for row in rows], [answer.text for answer in answers], language, texts[0].language
      )
      self._cleaned += judged.cleaned
      for row, answer, text, why in zip(rows, answers, judged.texts, judged.whys, strict=True):
        self._states[answer.state.value] += 1
        if answer.state is State.ANSWERED:
          self._models[answer.model] += 1
          self._good[language] += bool(text)
          self._notes[f"in '{language}' {why}"] += why == translations.EQUAL
        else:
          text, why = "", f"{answer.state}: {answer.reason}"
        if not text:
          self._reasons[why] += 1
        results[row][language] = Translation(text, "" if text else why, "" if text else answer.text)
    self._notes = +self._notes  # without zeros
    return results

  def _count(self, part: "_Part") -> None:
    self._now, self._all = self._now.plus(part.tokens), self._all.plus(part.journal.tokens)
    self._asked += part.asked
    self._notes.update(part.appended)

  def _progressed(self) -> None:
    self._done += 1
    self._progress(self._done)

  def _check_cost(self, of_part: Tokens) -> None:
    limit = self._settings.max_cost
    if limit is not None and self._settings.price.of(self._earlier.plus(self._now).plus(of_part)) >= limit:
      raise XmcapError(
        f"--max_cost={limit:g}: reached; nothing more is asked; the same command with more continues"
      )

  def _of_earlier_runs(self) -> Tokens:
    tokens = Tokens()
    for name in sorted(os.listdir(self._folder)):
      if name.endswith(SUFFIX):
        journal = Journal(os.path.join(self._folder, name))
        tokens = tokens.plus(journal.tokens)
        journal.close()
    return tokens


class _Part(Tally):
  """The questions of a part.

  Attributes:
    answers: (row, language) -> the answer, with the placeholder in its place.
    appended: note -> for how many texts no form of the placeholder survived.
  """

  def __init__(self, client: Client, questions: Questions, journal: Journal, languages, forms, check_cost):
    super().__init__(journal)
    self.answers: dict[tuple[int, str], Answer] = {}
    self.appended: collections.Counter[str] = collections.Counter()
    self._client, self._questions, self._languages, self._forms = client, questions, languages, forms
    self._check_cost = check_cost
    self._under_way: dict[str, asyncio.Task] = {}

  def knows_answers(self, earlier: bool) -> None:
    """Takes whether an earlier part has answers: then its first failures are those of its texts, not of the run."""
    self._has_answers |= earlier

  async def ask(self, texts: Sequence[Text], progressed) -> None:
    """Asks for the translations of texts, all languages of a text back to back."""
    at_once = asyncio.Semaphore(
      max(_TEXTS, -(-2 * self._client.endpoint.max_requests // len(self._languages)))
    )

    async def of_text(row: int, text: Text) -> None:
      try:
        async with asyncio.TaskGroup() as tasks:
          for language in self._languages:
            if language != text.language:
              tasks.create_task(self._translate(row, text, language))
      finally:
        at_once.release()
      progressed()

    try:
      async with asyncio.TaskGroup() as tasks:
        for row, text in enumerate(texts):
          await at_once.acquire()
          tasks.create_task(of_text(row, text))
    except BaseExceptionGroup as errors:
      raise first_error(errors) from None

  async def _translate(self, row: int, text: Text, language: str) -> None:
    """Asks with one form of the placeholder after another, until one survives."""
    first: Answer | None = None
    for form in self._forms:
      answer = await self._answer(row, text, placeholders.put(text.text, form), language)
      first = answer if first is None or first.state is not State.ANSWERED else first
      if not form or (answer.state is State.ANSWERED and (whole := placeholders.restored(answer.text, form))):
        self.answers[row, language] = answer if not form else answer._replace(text=whole)
        return
    assert first is not None
    if first.state is State.ANSWERED:
      first = first._replace(text=placeholders.appended(first.text))
      self.appended[f"in '{language}' without the placeholder, which was put at the end"] += 1
    self.answers[row, language] = first

  async def _answer(self, turn: int, text: Text, written: str, language: str) -> Answer:
    request = self._questions.of_translation(written, language, text.language)
    question = question_id(self._questions.identity(request, None))
    if not self.settled(question, text.key, language):
      if question not in self._under_way:
        self._under_way[question] = asyncio.ensure_future(
          self._ask(turn, question, text.key, language, request)
        )
      await self._under_way[question]
    return self.journal.answer(question)

  async def _ask(self, turn: int, question: str, key: str, language: str, request: dict[str, Any]) -> None:
    answer = await self._client.ask(request, turn, check=lambda: self._check_cost(self.tokens))
    self.add(question, key, language, answer)
    url = self._client.endpoint.url
    problem = f"{url}: the first {FIRST} texts failed: {answer.reason}: see the server's own log"
    self.check_first(key, answer.state is State.FAILED, problem)


def parts(units: Iterable[Any], size: int = PART) -> Iterator[list[Any]]:
  """Yields lists of units, which have `texts`, with at least `size` texts each but for the last."""
  part: list[Any] = []
  count = 0
  for unit in units:
    part.append(unit)
    count += len(unit.texts)
    if count >= size:
      yield part
      part, count = [], 0
  if part:
    yield part


def _now() -> str:
  return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
