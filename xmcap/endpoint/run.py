"""A run against an endpoint, from pictures to captions: looks whether the model sees, asks, and says what was done."""

import asyncio
import dataclasses
import re
from collections.abc import Callable, Sequence
from typing import Any

from xmcap import wording
from xmcap.endpoint import sight
from xmcap.endpoint.asking import Asking, Price
from xmcap.endpoint.client import Client, Endpoint
from xmcap.endpoint.journal import Journal
from xmcap.endpoint.pictures import ENCODING
from xmcap.endpoint.prompts import Prompt
from xmcap.endpoint.questions import Questions, Shot
from xmcap.endpoint.tally import Outcome
from xmcap.progress import Say
from xmcap.terminal import shown


@dataclasses.dataclass(frozen=True)
class Settings:
  """What is asked.

  Attributes:
    prompt: the prompt.
    languages: codes.
    strategy: of `asking.STRATEGIES`.
    shots: examples.
    price: of tokens.
    max_cost: dollars of all answers in the journal, after which nothing more is asked; None: no limit.
    blind: whether to go on with a model that does not see pictures.
  """

  prompt: Prompt
  languages: Sequence[str]
  strategy: str = "direct"
  shots: Sequence[Shot] = ()
  price: Price = Price()
  max_cost: float | None = None
  blind: bool = False


def caption(
  endpoint: Endpoint, settings: Settings, keys: Sequence[str], read: Callable[[str], bytes], journal: Journal, say: Say,
) -> Outcome:  # fmt: skip
  """Captions pictures through an endpoint; what the journal has is not asked again.

  Args:
    endpoint: whom to ask.
    settings: what to ask.
    keys: keys of the pictures.
    read: key -> bytes of the picture's file; called in threads.
    journal: gets the answers.
    say: prints a line of progress.

  Raises:
    UsageError: the endpoint cannot be asked, or the model does not see.
    RestartError: the endpoint does not answer.
    XmcapError: the costs reached their limit, or the disk is full.
  """
  return asyncio.run(_caption(endpoint, settings, keys, read, journal, say))


async def _caption(endpoint, settings, keys, read, journal, say) -> Outcome:
  questions = Questions(endpoint.model, settings.prompt, endpoint.extra_body, settings.shots)
  async with Client(endpoint, say) as client:
    looked = None if settings.blind else await sight.look(client, endpoint.model)
    if looked and not looked.names_them:
      said = " and ".join(f"'{shown(answer)}'" for answer in looked.answers)
      say(f"{endpoint.model} tells two pictures apart, but says of a red circle and a blue square {said}")
    asking = Asking(
      client, questions, journal, settings.languages, read, settings.strategy,
      bool(looked and looked.by_id), settings.price, settings.max_cost,
    )  # fmt: skip
    await asking.run(keys, say)
    server = await client.models()
  spent = (
    f", {settings.price.of(asking.tokens):,.2f} dollars, {asking.cost:,.2f} with earlier runs"
    if settings.price != Price()
    else ""
  )
  tokens = asking.tokens
  notes = [
    f"{wording.count(client.attempts, 'request')}, {client.bytes_sent / 1e6:,.1f} MB sent, at most "
    f"{client.limit.most_under_way} at once; tokens: {tokens.prompt:,} of prompts, of them {tokens.cached:,} from the"
    f" server's cache, {tokens.completion:,} of answers{spent}"
  ]
  if client.again:
    again = ", ".join(f"{reason} ({times:,})" for reason, times in client.again.items())
    notes.append(f"asked again after: {again}")
  fields = {
    **asked(endpoint, settings), "server": server, "requests": client.attempts, "again": client.again,
    "bytes_sent": client.bytes_sent, "most_at_once": client.limit.most_under_way, "dollars": round(asking.cost, 4),
  }  # fmt: skip
  return asking.outcome(keys, settings.languages, fields, notes)


def asked(endpoint: Endpoint, settings: Settings) -> dict[str, Any]:
  """Returns what is asked of whom, for the provenance of captions."""
  prompt, strategy = settings.prompt, settings.strategy
  if strategy == "together":  # what a caption is depends on the languages beside it
    strategy += f":{len(settings.languages)}"
  return {
    # Without a user's name and password, and without a query.
    "endpoint": re.sub(r"//[^/@]*@", "//", endpoint.url).split("?")[0], "model": endpoint.model,
    "prompt": {
      "name": prompt.signature, "text": prompt.text, "texts": dict(prompt.texts), "system": prompt.system,
      "max_tokens": prompt.max_tokens, "parameters": dict(prompt.parameters),
    },
    "strategy": strategy, "extra_body": dict(endpoint.extra_body),
    "shots": [shot.picture.key for shot in settings.shots], "pictures": ENCODING,
  }  # fmt: skip
