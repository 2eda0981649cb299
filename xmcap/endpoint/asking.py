"""Captions pictures through an endpoint: picture by picture, all languages of a picture back to back.

Each question has an id, and the journal has its answer, so that a run which ended, however it ended, asks only what is
not answered yet.
"""

import asyncio
import dataclasses
from collections.abc import Callable, Sequence

from xmcap.endpoint import answers, pictures
from xmcap.endpoint.answers import Answer, State, Tokens
from xmcap.endpoint.client import Client
from xmcap.endpoint.journal import Journal, question_id
from xmcap.endpoint.pictures import Picture
from xmcap.endpoint.questions import Questions
from xmcap.endpoint.tally import FIRST, Tally
from xmcap.errors import XmcapError
from xmcap.progress import Progress, Say

STRATEGIES = ("direct", "translate", "together")
# At least so many pictures are under way, so that the first questions of the next hide the last of another.
_PICTURES = 4
_PIVOT = "en"


@dataclasses.dataclass(frozen=True)
class Price:
  """Dollars for a million tokens: of prompts, of prompts from the cache, of answers."""

  prompt: float = 0.0
  cached: float = 0.0
  completion: float = 0.0

  def of(self, tokens: Tokens) -> float:
    """Returns the cost of tokens in dollars."""
    uncached = tokens.prompt - tokens.cached
    return (uncached * self.prompt + tokens.cached * self.cached + tokens.completion * self.completion) / 1e6


class Asking(Tally):
  """A run against an endpoint.

  Args:
    client: asks the endpoint.
    questions: makes the questions.
    journal: has the answers of earlier runs, and gets those of this one.
    languages: codes.
    read: key -> bytes of the picture's file; called in threads.
    strategy: `direct`; `translate`: the caption is asked in English, and translated; or `together`: one question asks
      for the captions of a picture in all languages.
    by_id: whether the server keeps pictures by their ids, so that only the first question of a picture has its bytes.
    price: of tokens.
    max_cost: dollars of all answers in the journal, after which nothing more is asked; None: no limit.
  """

  def __init__(
    self, client: Client, questions: Questions, journal: Journal, languages: Sequence[str],
    read: Callable[[str], bytes], strategy: str = "direct", by_id: bool = False, price: Price | None = None,
    max_cost: float | None = None,
  ):  # fmt: skip
    super().__init__(journal)
    self._client, self._questions = client, questions
    self._languages, self._read, self._strategy = languages, read, strategy
    self._by_id, self._price, self._max_cost = by_id, price or Price(), max_cost

  @property
  def cost(self) -> float:
    """Dollars of all answers in the journal, those of earlier runs too."""
    return self._price.of(self.journal.tokens)

  async def run(self, keys: Sequence[str], say: Say) -> None:
    """Asks for the captions of pictures, by their keys.

    Raises:
      UsageError: the server refuses every question.
      RestartError: it does not answer.
      XmcapError: the costs reached their limit.
    """
    label = f"pictures captioned in {len(self._languages)} language{'s' * (len(self._languages) > 1)}"
    progress = Progress(say, label, len(keys))
    places = asyncio.Semaphore(
      max(_PICTURES, -(-2 * self._client.endpoint.max_requests // len(self._languages)))
    )
    done = 0

    async def of_picture(turn: int, picture: Picture) -> None:
      nonlocal done
      try:
        await self._picture(turn, picture)
      finally:
        places.release()
      done += 1
      progress(done)

    try:
      async with asyncio.TaskGroup() as tasks:
        for turn, key in enumerate(keys):
          await places.acquire()
          try:
            # One after the other, so that no picture's questions come between those of another.
            picture = await asyncio.to_thread(lambda key=key: pictures.encode(self._read(key), key))
          except XmcapError as error:
            self.broken[key] = str(error)
            places.release()
            continue
          tasks.create_task(of_picture(turn, picture))
    except BaseExceptionGroup as errors:
      raise first_error(errors) from None

  async def _picture(self, turn: int, picture: Picture) -> None:
    if self._strategy == "together":
      await self._by_one_question(turn, picture)
      return
    if self._strategy == "translate":
      english = await self._caption(turn, picture, _PIVOT)
      rest = [language for language in self._languages if language != _PIVOT]
      await self._together(self._translation(turn, picture.key, language, english) for language in rest)
      return
    languages = list(self._languages)
    sent = False
    while self._by_id and languages and not sent:
      before = self.asked
      # Before the pictures that are under way are done, so that the server has this one when its turn comes.
      ahead = -(-self._client.limit.requests // len(self._languages))
      await self._caption(turn - ahead, picture, languages.pop(0))
      sent = self.asked > before
    await self._together(self._caption(turn, picture, language, sent) for language in languages)

  async def _together(self, captions) -> None:
    async with asyncio.TaskGroup() as tasks:
      for caption in captions:
        tasks.create_task(caption)

  async def _by_one_question(self, turn: int, picture: Picture) -> None:
    """Asks for the captions in all languages, unless the journal has all."""
    request = self._questions.of_all(picture, self._languages)
    identity = self._questions.identity(request, picture)
    ids = {language: question_id({**identity, "language": language}) for language in self._languages}
    missing = [
      language for language, question in ids.items() if not self.settled(question, picture.key, language)
    ]
    if missing:
      answer = await self._client.ask(request, turn, check=self._check_cost)
      for language, part in answers.by_language(answer, missing).items():
        self._add(ids[language], picture.key, language, part)

  async def _caption(self, turn: int, picture: Picture, language: str, sent: bool = False) -> str:
    """The id of the question for a caption; it is asked unless the journal has its answer."""
    whole = self._questions.of_picture(picture, language, False if self._by_id else None)
    question = question_id(self._questions.identity(whole, picture))
    body = self._questions.of_picture(picture, language, True) if sent else whole
    await self._settle(turn, question, picture.key, language, body, (lambda: whole) if sent else None)
    return question

  async def _translation(self, turn: int, key: str, language: str, english: str) -> None:
    pivot = self.journal.answer(english)
    if pivot.state is not State.ANSWERED:
      question = self.ids[key, language] = question_id({"translation": language, "of": english})
      if question not in self.journal.states:
        reason = f"no English caption: {pivot.reason}"
        self.journal.append(question, key, language, pivot._replace(reason=reason, tokens=Tokens()))
      return
    request = self._questions.of_translation(pivot.text, language)
    question = question_id(self._questions.identity(request, None))
    await self._settle(turn, question, key, language, request)

  async def _settle(self, turn: int, question: str, key: str, language: str, body, whole=None) -> None:
    if self.settled(question, key, language):
      return
    self._add(question, key, language, await self._client.ask(body, turn, whole, self._check_cost))

  def _add(self, question: str, key: str, language: str, answer: Answer) -> None:
    self.add(question, key, language, answer)
    url = self._client.endpoint.url
    problem = f"{url}: the first {FIRST} pictures failed: {answer.reason}: see the server's own log"
    self.check_first(key, answer.state is State.FAILED, problem)

  def _check_cost(self) -> None:
    if self._max_cost is not None and self.cost >= self._max_cost:
      raise XmcapError(
        f"--max_cost={self._max_cost:g}: reached; nothing more is asked; the same command with more continues"
      )


def first_error(errors: BaseException) -> BaseException:
  """Returns the first error of nested groups."""
  while isinstance(errors, BaseExceptionGroup):
    errors = errors.exceptions[0]
  return errors
