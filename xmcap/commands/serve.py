"""`xmcap serve`: serves a captioner on a web page and an HTTP endpoint."""

import os
import re
import sys

from xmcap import languages, platforms
from xmcap.commands import base
from xmcap.errors import UsageError


def add(commands) -> None:
  """Declares the command."""
  command = base.add_command(
    commands, "serve", _serve, "caption pictures on a web page and over HTTP",
    "The page opens at once, and captions while the model is still compiled. SIGTERM stops the server once every "
    "request is answered. POST /v1/captions takes a picture's file as its body, and /v1/chat/completions what clients "
    "of OpenAI's API send; /openapi.json describes both. There is no access control.",
    extra="serve",
  )  # fmt: skip
  searches = "greedy, beam:BEAMS, sample, or model for the model's own; the first is the default"
  base.add_model(command)
  base.text(command, "--host", "ADDRESS", "0.0.0.0 accepts other machines", "127.0.0.1")
  base.text(
    command,
    "--allowed_hosts",
    "NAMES",
    "host names by which browsers may call it; default: any, or this machine's names if --host is one of them",
    type=_host_names,
  )
  base.number(command, "--port", "0: any free port", 8080, most=65_535)
  base.text(
    command,
    "--languages",
    "CODES",
    "codes to offer, or all (36), or trained; default: trained, those that the model was trained on, and the others of"
    " the 36 apart as not trained",
    "",
  )
  base.text(command, "--searches", "NAMES", searches, "greedy,beam:4,sample")
  base.number(command, "--batch_size", "largest number of pictures per call", 16, least=1, most=1024)
  base.number(command, "--batch_languages", "languages per picture and call", 4, least=1, most=36)
  wait = "how long a request waits for others to share a call"
  base.number(command, "--batch_milliseconds", wait, 20, most=10_000)
  base.number(command, "--max_megabytes", "largest picture file", 16, least=1, most=128)
  base.number(command, "--max_megapixels", "largest picture", 40, least=1, most=89)
  queue = "requests in progress; more are answered with 429"
  base.number(command, "--queue", queue, 128, least=1, most=10_000)
  base.number(command, "--timeout", "seconds for captioning a request", 60, least=1, most=3600)


def _host_names(text: str) -> list[str]:
  names = [name.strip().lower() for name in text.split(",")]
  if not all(re.fullmatch(r"\*|\[[0-9a-f:.]+\]|[a-z0-9.-]+", name) for name in names):
    raise UsageError(
      f"--allowed_hosts={text}: give host names without port, such as captions.example.org,10.0.0.5"
    )
  return names


def _serve(arguments) -> None:
  codes = arguments.languages
  if codes:
    languages.parse(codes)  # reports an unknown one before the slow imports
  platforms.choose()  # before jax is imported, or libtpu would search for a TPU
  from xmcap.evaluation import familiarity
  from xmcap.models import model_json
  from xmcap.serving import app as app_lib
  from xmcap.serving import server
  from xmcap.serving.batching import Batching, ServedCaptioner
  from xmcap.serving.limits import Limits
  from xmcap.serving.model import ServedModel
  from xmcap.serving.searches import parse

  limits = Limits(
    upload_bytes=arguments.max_megabytes << 20,
    pixels=arguments.max_megapixels * 1_000_000,
    queue=arguments.queue,
    caption_seconds=arguments.timeout,
  )
  batching = Batching(arguments.batch_milliseconds / 1000, arguments.batch_size, arguments.batch_languages)
  searches = parse(arguments.searches)
  bound = server.bind(arguments.host, arguments.port)
  described = model_json.of_folder(arguments.model_dir)
  model = ServedModel(
    "/".join(arguments.model_dir.rstrip("/").split("/")[-2:]),
    described.captioner()[0].image_size,
    {name: search or described.searching() for name, search in searches.items()},
    described.languages,
    languages.parse(codes, described.languages) if codes else (),
    familiarity.read(arguments.model_dir),
  )
  hosts = arguments.allowed_hosts or server.hosts(arguments.host)
  app, service = app_lib.make(model, limits, batching, hosts, base.say)

  def load() -> ServedCaptioner:
    from xmcap.evaluation.captioning import load_captioner
    from xmcap.training import compilation_cache

    base.say(compilation_cache.described())
    read = arguments.model_dir, arguments.step, arguments.weights
    captioner = load_captioner(*read, batch_size=batching.pictures)
    captioner.widen((*model.offered, *model.untrained))
    return captioner

  where = server.address(bound)
  opened = f"{where} is open, and captions when the model is loaded and compiled; stop it with ^C or SIGTERM"
  server.run(app, service, bound, load, lambda: base.say(opened), lambda: base.say(f"{where} is ready"))
  base.say("stopped: all requests are answered")
  if not service.start.is_over:
    # Python would wait for the thread that loads or compiles.
    sys.stdout.flush()
    os._exit(0)
