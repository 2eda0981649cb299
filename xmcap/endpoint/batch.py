"""Batch files in OpenAI's format: questions that a provider answers within a day, and its answers.

Both have a line for each question, with its id as `custom_id`
(https://platform.openai.com/docs/api-reference/batch/request-input). One picture at a time is in memory.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from xmcap import wording
from xmcap.endpoint import answers, pictures
from xmcap.endpoint.answers import Answer, State
from xmcap.endpoint.client import Endpoint
from xmcap.endpoint.journal import Journal, question_id
from xmcap.endpoint.questions import Questions
from xmcap.endpoint.run import Settings, asked
from xmcap.endpoint.tally import Outcome, Tally
from xmcap.errors import UsageError, XmcapError
from xmcap.files import files, outputs
from xmcap.progress import Progress, Say
from xmcap.reading import batch_files
from xmcap.reading.inputs import Input
from xmcap.terminal import shown

MOST_LINES, MOST_BYTES = 50_000, 200_000_000
"""Of a file that is sent; a question has a few megabytes."""

_NAMED = 3  # ids of other questions that a line names
Read = Callable[[str], bytes]


def write(
  endpoint: Endpoint,
  settings: Settings,
  keys: Sequence[str],
  read: Read,
  journal: Journal,
  folder: str,
  say: Say,
) -> list[str]:
  """Writes the questions that the journal has no settled answer of to batch-0001.jsonl and so on, all files or none.

  Args: as of `run.caption`, and the folder. Returns what was done, in lines for people.

  Raises:
    UsageError: the folder has such files.
    XmcapError: they cannot be written.
  """
  if os.path.isdir(folder) and any(name.startswith("batch-") for name in os.listdir(folder)):
    raise UsageError(f"--write_batch={folder}: has batch files already: give another folder")
  tally = Tally(journal)
  count = number = 0
  with outputs.together(folder):
    lines = _lines(tally, endpoint, _questions(tally, endpoint, settings, keys, read, say))
    line = next(lines, None)
    while line:
      number += 1
      with files.whole(os.path.join(folder, f"batch-{number:04}.jsonl")) as file:
        in_file = size = 0
        while line and in_file < MOST_LINES and (not size or size + len(line) <= MOST_BYTES):
          file.write(line)
          in_file, size, line = in_file + 1, size + len(line), next(lines, None)
      count += in_file
  written = f"{wording.count(count, 'question')} in {wording.count(number, 'file')} of {folder}"
  left_out = [f"left out: {reason}" for reason in tally.broken.values()]
  return [*left_out, f"{written}; nothing was sent: read the answers with --read_batch"]


def read(
  endpoint: Endpoint, settings: Settings, keys: Sequence[str], read: Read, journal: Journal, paths: Sequence[str],
  say: Say,
) -> Outcome:  # fmt: skip
  """Reads answers into the journal from files of outputs and of errors; what it has is not replaced.

  Args: as of `run.caption`, and the files. UsageError if a line is of another kind.
  """
  tally, notes = Tally(journal), []
  places: dict[str, tuple[str, str]] = {}
  for question, place, _ in _questions(tally, endpoint, settings, keys, read, say):
    places.setdefault(question, place)
  for path in paths:
    count, others = 0, []
    for question, answer in _answers(path):
      count += 1
      if question not in places:
        others.append(question)
      elif not tally.settled(question, *places[question]):
        tally.add(question, *places[question], answer)
    if others:
      named = ", ".join(f"'{shown(question)}'" for question in others[:_NAMED])
      notes.append(
        f"{path}: {len(others):,} of {wording.count(count, 'line')} are of other questions, such as {named}: their"
        " model, prompt, languages or pictures are others"
      )
  tokens, cost = tally.tokens, settings.price.of(tally.tokens)
  spent = f", {cost:,.2f} dollars" if cost else ""
  notes.append(f"tokens: {tokens.prompt:,} of prompts, {tokens.completion:,} of answers{spent}")
  batches = [os.path.basename(path) for path in paths]
  fields = {
    **asked(endpoint, settings),
    "batches": batches,
    "dollars": round(settings.price.of(journal.tokens), 4),
  }
  return tally.outcome(keys, settings.languages, fields, notes, verb="read")


def _questions(
  tally: Tally, endpoint: Endpoint, settings: Settings, keys: Sequence[str], read: Read, say: Say
) -> Iterator[tuple[str, tuple[str, str], dict[str, Any]]]:
  """Yields id, (key, language) and request of all questions, which `tally` gets."""
  questions = Questions(endpoint.model, settings.prompt, endpoint.extra_body, settings.shots)
  progress = Progress(say, "pictures read", len(keys))
  for done, key in enumerate(keys, 1):
    try:
      picture = pictures.encode(read(key), key)
    except XmcapError as error:
      tally.broken[key] = str(error)
      continue
    for language in settings.languages:
      request = questions.of_picture(picture, language)
      question = tally.ids[key, language] = question_id(questions.identity(request, picture))
      yield question, (key, language), request
    progress(done)


def _lines(tally: Tally, endpoint: Endpoint, questions) -> Iterator[bytes]:
  """The lines of questions without a settled answer, once each: providers refuse an id that comes again."""
  written: set[str] = set()
  for question, place, request in questions:
    if tally.settled(question, *place) or question in written:
      continue
    written.add(question)
    row = {"custom_id": question, "method": "POST", "url": "/v1/chat/completions"}
    yield (
      json.dumps({**row, "body": endpoint.fields(request)}, ensure_ascii=False).encode("utf-8", "replace")
      + b"\n"
    )


def _answers(path: str) -> Iterator[tuple[str, Answer]]:
  """Yields (id, answer) of a file; lone surrogates of models are read, as over the wire."""
  with Input(path) as source:
    for number, line in source.raw_lines():
      try:
        row = json.loads(line)
        question = row["custom_id"]
        if not isinstance(question, str) or not {"response", "error"} & row.keys():
          raise TypeError
        status, body = batch_files.response(row)
      except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise UsageError(
          f"{path}, line {number:,}: not an answer of OpenAI's batch interface: give its files of outputs and errors"
        ) from None
      yield question, _answer(status, body)


def _answer(status: int, body: Any) -> Answer:
  data = json.dumps(body).encode()
  error = isinstance(body, Mapping) and body.get("error")
  if status != 200 or error:
    return answers.of_error(status, answers.error_message(data) if status or error else "no answer")
  try:
    return answers.read(data)
  except answers.UnreadableError as unreadable:
    return Answer(State.FAILED, reason=str(unreadable))
