"""A run from its pictures to its captions: looks whether the model sees, asks, cleans, and says what was done."""

import asyncio
import collections
import dataclasses
import datetime
import os
import re
from collections.abc import Callable, Sequence
from typing import Any

import xmcap
from xmcap import wording
from xmcap.endpoint import sight
from xmcap.endpoint.answers import State
from xmcap.endpoint.asking import Asking, Price
from xmcap.endpoint.client import Client, Endpoint
from xmcap.endpoint.journal import Journal
from xmcap.endpoint.pictures import ENCODING
from xmcap.endpoint.prompts import Prompt
from xmcap.endpoint.questions import Questions, Shot
from xmcap.progress import Say
from xmcap.scoring import residue

CLEANED = tuple(kind for kind in residue.KINDS if kind not in ("prefix", "suffix"))
"""The kinds of residue that are removed from answers: those that a caption shows by itself."""


@dataclasses.dataclass(frozen=True)
class Settings:
  """What is asked.

  Attributes:
    prompt: the prompt.
    languages: codes.
    strategy: of `asking.STRATEGIES`.
    shots: examples.
    price: of tokens.
    max_cost: dollars, after which nothing more is asked; None: no limit.
    blind: whether to go on with a model that does not see pictures.
    ids: whether to let the server keep pictures by ids where it can.
  """

  prompt: Prompt
  languages: Sequence[str]
  strategy: str = "direct"
  shots: Sequence[Shot] = ()
  price: Price = Price()
  max_cost: float | None = None
  blind: bool = False
  ids: bool = True


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


def caption(
  endpoint: Endpoint, settings: Settings, keys: Sequence[str], read: Callable[[str], bytes], journal: str | os.PathLike,
  say: Say,
) -> Outcome:  # fmt: skip
  """Captions pictures through an endpoint; what the journal has is not asked again.

  Args:
    endpoint: whom to ask.
    settings: what to ask.
    keys: keys of the pictures.
    read: key -> bytes of the picture's file; called in threads.
    journal: the file of the answers.
    say: prints a line of progress.

  Raises:
    UsageError: the endpoint cannot be asked, the model does not see, or the journal is none.
    RestartError: the endpoint does not answer.
    XmcapError: the costs reached their limit, or the disk is full.
  """
  answers = Journal(journal)
  try:
    return asyncio.run(_caption(endpoint, settings, keys, read, answers, say))
  finally:
    answers.close()


async def _caption(endpoint, settings, keys, read, journal, say) -> Outcome:
  begun = datetime.datetime.now(datetime.UTC)
  questions = Questions(endpoint.model, settings.prompt, endpoint.extra_body, settings.shots)
  async with Client(endpoint, say) as client:
    looked = None if settings.blind else await sight.look(client, endpoint.model)
    if looked and not looked.names_them:
      said = " and ".join(f"'{answer}'" for answer in looked.answers)
      say(f"{endpoint.model} tells two pictures apart, but says of a red circle and a blue square {said}")
    asking = Asking(
      client, questions, journal, settings.languages, read, settings.strategy,
      bool(looked and looked.by_id and settings.ids), settings.price, settings.max_cost,
    )  # fmt: skip
    await asking.run(keys, say)
    server = await client.models()
  captions, models, cleaned, emptied = _captions(asking, journal, keys, settings.languages)
  provenance = {
    "endpoint": _without_secrets(endpoint.url), "model": endpoint.model, "answered_by": models, "server": server,
    "prompt": _asked(settings.prompt), "strategy": settings.strategy, "extra_body": dict(endpoint.extra_body),
    "shots": [shot.picture.key for shot in settings.shots], "pictures": ENCODING,
    "languages": list(settings.languages), "states": {state.value: asking.states[state] for state in State},
    "cleaned": {kind: sum(of_language.values()) for kind, of_language in cleaned.items()}, "emptied": emptied,
    "asked": asking.asked, "requests": client.attempts, "again": client.again, "bytes_sent": client.bytes_sent,
    "most_at_once": client.limit.most_under_way, "tokens": asking.tokens._asdict(), "dollars": round(asking.cost, 4),
    "begun": begun.isoformat(timespec="seconds"),
    "ended": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    "xmcap": xmcap.__version__,
  }  # fmt: skip
  missing = len(keys) * len(settings.languages) - sum(map(len, captions.values()))
  return Outcome(captions, missing, provenance, _notes(asking, client, cleaned, emptied, settings))


def _captions(asking: Asking, journal: Journal, keys: Sequence[str], languages: Sequence[str]):
  """The captions without residue, who answered, and what was removed: kind -> language -> captions."""
  texts: dict[str, dict[str, str]] = {language: {} for language in languages}
  models: collections.Counter[str] = collections.Counter()
  for (key, language), question in asking.ids.items():
    answer = journal.answer(question)
    if answer.state is State.ANSWERED and language in texts:
      texts[language][key] = answer.text.strip()
      models[answer.model] += 1
  by_language = residue.clean_languages({code: list(of.values()) for code, of in texts.items()}, {}, CLEANED)
  captions: dict[str, dict[str, str]] = {key: {} for key in keys if key not in asking.broken}
  cleaned: dict[str, dict[str, int]] = {}
  emptied = 0
  for language, result in by_language.items():
    for kind, rows in result.rows.items():
      cleaned.setdefault(kind, {})[language] = len(rows)
    for key, text in zip(texts[language], result.captions, strict=True):
      emptied += not text.strip()
      if text.strip():
        captions[key][language] = text
  ordered = {
    key: {code: of_key[code] for code in languages if code in of_key}
    for key, of_key in captions.items()
    if of_key
  }
  return ordered, dict(models), cleaned, emptied


def _notes(asking: Asking, client: Client, cleaned, emptied: int, settings: Settings) -> list[str]:
  counted = ", ".join(f"{asking.states[state]:,} {state}" for state in State if asking.states[state])
  notes = [f"left out: {reason}" for reason in asking.broken.values()]
  notes.append(
    f"{wording.count(asking.states.total(), 'question')}: {counted or 'none'}; {asking.asked:,} asked now"
  )
  if asking.states[State.FAILED]:
    notes[-1] += "; the same command asks those that failed again"
  if cleaned:
    kinds = ", ".join(f"{kind} {sum(of_language.values()):,}" for kind, of_language in cleaned.items())
    notes.append(f"removed from captions: {kinds}" + (f"; {emptied:,} had nothing else" if emptied else ""))
  tokens = asking.tokens
  spent = f", {asking.cost:,.2f} dollars" if settings.price != Price() else ""
  notes.append(
    f"{wording.count(client.attempts, 'request')}, {client.bytes_sent / 1e6:,.1f} MB sent, at most "
    f"{client.limit.most_under_way} at once; tokens: {tokens.prompt:,} of prompts, of them {tokens.cached:,} from the"
    f" server's cache, {tokens.completion:,} of answers{spent}"
  )
  if client.again:
    notes.append(
      "asked again after: " + ", ".join(f"{reason} ({times:,})" for reason, times in client.again.items())
    )
  return notes


def _without_secrets(url: str) -> str:
  """The address without a user's name and password, and without a query."""
  return re.sub(r"//[^/@]*@", "//", url).split("?")[0]


def _asked(prompt: Prompt) -> dict[str, Any]:
  """The fields of a prompt that decide what is asked."""
  return {
    "name": prompt.signature, "text": prompt.text, "texts": dict(prompt.texts), "system": prompt.system,
    "max_tokens": prompt.max_tokens, "parameters": dict(prompt.parameters),
  }  # fmt: skip
