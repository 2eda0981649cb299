"""Captioners that need no weights, for `caption` and `eval`: any model behind an endpoint, or a function."""

import contextlib
import os
import tempfile
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

from xmcap import extras
from xmcap.commands import base
from xmcap.errors import UsageError
from xmcap.files import outputs

if TYPE_CHECKING:
  from xmcap.endpoint.asking import Price
  from xmcap.endpoint.client import Endpoint
  from xmcap.endpoint.inputs import Pictures
  from xmcap.endpoint.journal import Journal
  from xmcap.endpoint.run import Settings
  from xmcap.endpoint.tally import Outcome

TITLE = "any model behind an endpoint (docs/any_model.md)"
OF_ENDPOINT = (
  "model", "prompt", "shots", "shots_from", "seed", "strategy", "key_variable", "extra_body", "timeout", "max_requests",
  "price", "max_cost", "blind",
)  # fmt: skip


def add_endpoint(group) -> None:
  """Adds the options of an endpoint that is shown pictures: whom to ask, and what."""
  shots = "a corpus whose pictures and captions are the examples, drawn with --seed"
  strategy = "direct; translate: English first; or together: one question for all languages; default: direct"
  add_server(group)
  base.text(group, "--prompt", "NAME", "a published prompt, or your own FILE.toml; default: xmcap", "")
  base.number(group, "--shots", "examples before each question, with --shots_from")
  base.text(group, "--shots_from", "PATH", shots, "", type=base.address)
  base.number(group, "--seed", "seed of the examples; default: 0")
  base.text(group, "--strategy", "NAME", strategy, "", choices=("direct", "translate", "together"))
  base.flag(group, "--blind", "go on if the model does not see pictures")


def add_server(group) -> None:
  """Adds the options that say whom to ask, how, and at what cost; `server` and `costs` read them."""
  key = "environment variable with the API key; default: OPENAI_API_KEY"
  cost = "ask nothing more after so much, with earlier runs of the same --out"
  base.text(group, "--endpoint", "URL", "an OpenAI-compatible server, such as http://localhost:8000/v1", "")
  base.text(group, "--model", "NAME", "the model's name there", "")
  base.text(group, "--key_variable", "NAME", key, "")
  base.text(group, "--extra_body", "JSON", "further fields of each request", "")
  base.number(group, "--timeout", "seconds, after which a request is sent again; default: 180", least=1)
  base.number(group, "--max_requests", "most requests under way; default: 64", least=1, most=10_000)
  base.text(group, "--price", "IN,OUT[,CACHED]", "dollars for a million tokens", "")
  base.text(group, "--max_cost", "DOLLARS", cost, "")


def server(arguments) -> "Endpoint":
  """Returns whom to ask, by the options of `add_server`; UsageError if one is wrong."""
  from xmcap.endpoint import inputs

  limits = {"timeout_seconds": arguments.timeout, "max_requests": arguments.max_requests}
  return inputs.endpoint(
    arguments.endpoint, arguments.model, arguments.key_variable, arguments.extra_body,
    **{name: limit for name, limit in limits.items() if limit},
  )  # fmt: skip


def costs(arguments) -> "tuple[Price, float | None]":
  """Returns the price of tokens, and the largest cost in dollars; UsageError if an option is wrong."""
  from xmcap.endpoint import inputs
  from xmcap.endpoint.asking import Price

  price = Price(*inputs.numbers("--price", arguments.price)) if arguments.price else Price()
  return price, inputs.numbers("--max_cost", arguments.max_cost)[0] if arguments.max_cost else None


def add_function(group) -> None:
  """Adds the option of a function."""
  function = "your function(image, languages), which returns {language: caption}"
  base.text(group, "--captioner", "MODULE:FUNCTION", function, "")


class OfEndpoint:
  """Any model behind an endpoint.

  Attributes:
    name: of the model.
    endpoint: whom to ask; for batch files it has no address.
  """

  def __init__(self, arguments, codes: Sequence[str]):
    """Takes the options of `add_endpoint`; UsageError if one is wrong, or the prompt lacks one of the languages."""
    from xmcap.endpoint import prompts

    if bool(arguments.shots) != bool(arguments.shots_from):
      raise UsageError(
        "--shots and --shots_from go together: how many examples, and the corpus that they are from"
      )
    self.endpoint = server(arguments)
    self.name = self.endpoint.model
    self._arguments = arguments
    self._prompt = prompts.get(arguments.prompt or prompts.DEFAULT)
    for code in codes:
      self._prompt.of(code)
    self._price, self._max_cost = costs(arguments)

  def settings(self, codes: Sequence[str], keys: Collection[str]) -> "Settings":
    """What is asked about pictures with these keys, of which none is an example."""
    from xmcap.endpoint import inputs, run

    options = self._arguments
    return run.Settings(
      prompt=self._prompt,
      languages=codes,
      strategy=options.strategy or "direct",
      shots=inputs.shots(options.shots, options.shots_from, options.seed or 0, codes, set(keys)),
      price=self._price,
      max_cost=self._max_cost,
      blind=options.blind,
    )

  def ask(self, pictures: "Pictures", codes: Sequence[str], journal: "Journal") -> "Outcome":
    """Captions pictures; see `run.caption`."""
    from xmcap.endpoint import run

    return run.caption(self.endpoint, self.settings(codes, pictures.keys), *pictures[:2], journal, base.say)


class OfFunction:
  """A function of one's own; `name` is module:function."""

  def __init__(self, arguments):
    from xmcap.endpoint import function

    self._captioner = function.load(arguments.captioner)
    self.name = self._captioner.name

  def ask(self, pictures: "Pictures", codes: Sequence[str], journal: "Journal") -> "Outcome":
    """Captions pictures; see `function.caption`."""
    from xmcap.endpoint import function

    return function.caption(self._captioner, codes, *pictures[:2], journal, base.say)


def get(arguments, codes: Sequence[str] = ()) -> OfEndpoint | OfFunction:
  """Returns the captioner that the options name; UsageError if they are wrong, or an extra is missing.

  `codes` are the languages, as far as they are known.
  """
  if arguments.captioner:
    base.refuse(arguments, OF_ENDPOINT, "is of an endpoint, and not of a function: leave it out")
    extras.check(f"{arguments.prog} --captioner", "endpoint")
    return OfFunction(arguments)
  base.require(arguments, ["model"])
  extras.check(f"{arguments.prog} --endpoint", "endpoint")
  return OfEndpoint(arguments, codes)


@contextlib.contextmanager
def journal(out: str, prog: str) -> Iterator["Journal"]:
  """The journal beside a file of captions; without one it is gone at the end."""
  from xmcap.endpoint import journal as journal_lib

  with contextlib.ExitStack() as stack:
    if out:
      path = f"{os.path.splitext(out)[0]}{journal_lib.SUFFIX}"
      stack.enter_context(outputs.held(path, prog, folder=False))
    else:
      folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="xmcap-"))
      path = os.path.join(folder, f"captions{journal_lib.SUFFIX}")
    yield stack.enter_context(contextlib.closing(journal_lib.Journal(path)))
