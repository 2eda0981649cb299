"""Servers in processes of their own, and what is sent to them.

`fake(delay, **options)` serves a captioner that takes `delay` seconds for a call and says in which language, from which
colour, and in a call of how many pictures. Options: fields of `Limits` and `Batching`, `own`, `chosen` and `known` as
in `ServedModel`, `descriptors`, the limit of open files, `by_hand`, by which each program is compiled only when a line
comes from stdin, as is the captioner loaded, and `broken`, an error of loading.
"""

import base64
import contextlib
import ctypes
import dataclasses
import http.client
import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
import types
from typing import Any
from urllib.parse import urlencode, urlsplit

import numpy as np

from tests import sessions
from tests.make import command, images

SIZE = 8


@dataclasses.dataclass(frozen=True)
class Chance:
  """Stands for a search that draws."""

  temperature: float = 1.0

  def __str__(self):
    return f"by chance at {self.temperature}"


class Words:
  """Stands for a vocabulary: each word is a token, and EOS is 1."""

  def __init__(self):
    self.ids = {"<eos>": 1}

  def encode(self, text):
    return (*(self.ids.setdefault(word, len(self.ids) + 1) for word in text.split()), 1)

  def decode(self, tokens):
    return " ".join(word for token in tokens for word, other in self.ids.items() if token == other != 1)


class Fake:
  """Stands for `load_captioner`'s result; compiles for pictures that are black, as real ones do for any.

  The lighter a picture, the more probable are its captions by greedy search.
  """

  def __init__(self, delay, compiling=lambda: None):
    self.delay, self.compiling, self.vocabulary = delay, compiling, Words()

  def encode(self, pictures):
    return pictures

  def best(self, pictures, languages, *, search, seed, pad_to):
    time.sleep(self.delay) if np.any(pictures) else self.compiling()
    if any(np.all(picture == 13) for picture in pictures):
      raise ValueError("thirteen\nis unlucky")
    drawn = f" from {seed}" if isinstance(search, Chance) and seed < 100 else ""

    def candidate(picture, code) -> Any:
      text = f"{code} {picture[0, 0, 0]} {len(pictures)} {search}{drawn}"
      probability = picture[0, 0, 0] / 255 if search == "greedily" else None
      return types.SimpleNamespace(
        text=text,
        probability=probability,
        tokens=self.vocabulary.encode(text)[: 1 if code == "quz" else None],
      )

    return [
      {code: candidate(picture, code) for code in codes}
      for picture, codes in zip(pictures, languages, strict=True)
    ]


class Answer:
  """The answer to a request."""

  def __init__(self, response):
    self.status, self.headers, self.data = response.status, dict(response.getheaders()), response.read()

  @property
  def json(self):
    return json.loads(self.data)

  @property
  def error(self):
    """The one line of an error."""
    line = self.json["error"]
    assert "\n" not in line and "Traceback" not in line
    return line


class Running:
  """A server that runs."""

  def __init__(self, process, address, said):
    self.process, self.address, self.said = process, address, said

  def connect(self, timeout=120):
    place = urlsplit(self.address)
    return http.client.HTTPConnection(place.hostname, place.port, timeout=timeout)

  def go_on(self, steps=1):
    """Lets a fake captioner that goes on by hand load, or compile programs."""
    self.process.stdin.write("\n" * steps)
    self.process.stdin.flush()

  def get(self, path, **headers):
    with contextlib.closing(self.connect()) as connection:
      connection.request("GET", path, headers=headers)
      return Answer(connection.getresponse())

  def ask(self, body, headers=None, **parameters):
    """Asks for captions of a picture."""
    with contextlib.closing(self.connect()) as connection:
      connection.request("POST", f"/v1/captions?{urlencode(parameters)}", body, headers or {})
      return Answer(connection.getresponse())

  def chat(self, headers=None, **fields):
    """Sends the request of a chat completion."""
    with contextlib.closing(self.connect()) as connection:
      connection.request("POST", "/v1/chat/completions", json.dumps(fields), headers or {})
      return Answer(connection.getresponse())

  def metric(self, name):
    """The value of a metric, 0 where it has not been counted yet."""
    found = re.search(rf"^{re.escape(name)} (\S+)$", self.get("/metrics").data.decode(), re.MULTILINE)
    return float(found[1]) if found else 0.0


class Forked:
  """A forked process, with those methods of `subprocess.Popen` that the tests of servers use."""

  def __init__(self, program, *arguments):
    context = command.forkserver()
    stdin, to_stdin = context.Pipe(duplex=False)
    from_stderr, stderr = context.Pipe(duplex=False)
    self._process = context.Process(target=_session, args=(stdin, stderr, program, arguments))
    self._process.start()
    stdin.close()
    stderr.close()
    self.stdin, self.stderr = (
      os.fdopen(os.dup(pipe.fileno()), mode, encoding="utf-8")
      for pipe, mode in ((to_stdin, "w"), (from_stderr, "r"))
    )
    to_stdin.close()
    from_stderr.close()
    self.kill, self.terminate = self._process.kill, self._process.terminate

  def send_signal(self, number):
    os.kill(self._process.pid, number)

  def poll(self):
    return self._process.exitcode

  def wait(self, timeout=None):
    self._process.join(timeout)
    if self._process.is_alive():
      raise subprocess.TimeoutExpired("the server", timeout)
    return self._process.exitcode

  def communicate(self, timeout=None):
    self.wait(timeout)
    said = "" if self.stderr.closed else self.stderr.read()
    self.stdin.close()
    self.stderr.close()
    return "", said


def _session(stdin, stderr, program, arguments):
  """Runs a program in a session of its own with other standard streams."""
  os.setsid()
  os.dup2(stdin.fileno(), 0)
  os.dup2(stderr.fileno(), 2)
  sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
  stdin.close()
  stderr.close()
  program(*arguments)


@contextlib.contextmanager
def _running(process, until):
  lines = []
  try:
    for line in process.stderr:
      lines.append(line)
      if found := re.search(rf"(http://\S+) is {until}", line):
        break
    else:
      raise AssertionError("".join(lines))
    yield Running(process, found[1], lines)
  finally:
    process.kill()
    process.communicate()


def fake(delay=0.0, until="ready", **options):
  """A server of the fake captioner, which is `ready`, or `open` only."""
  return _running(Forked(_serve, delay, options), until)


def real(model_dir, *options, until="ready"):
  """`xmcap serve` of a model folder."""
  arguments = ["serve", f"--model_dir={model_dir}", "--port=0", *options]
  return _running(sessions.start("-m", "xmcap.cli", *arguments, stdin=subprocess.PIPE), until)


def picture(colour=99, size=(24, 24), format="PNG"):
  """The file of a picture of one grey."""
  return images.plain(colour, size, format)


def user(text, *pictures):
  """The messages of a chat completion: a text of the user, with one picture unless others are given."""
  urls = pictures or [f"data:image/png;base64,{base64.b64encode(picture()).decode()}"]
  images = [{"type": "image_url", "image_url": {"url": url}} for url in urls]
  return [{"role": "user", "content": [*images, {"type": "text", "text": text}]}]


def _serve(delay, options):
  from xmcap.errors import UsageError
  from xmcap.reading import image_formats
  from xmcap.serving import app as app_lib
  from xmcap.serving import server
  from xmcap.serving.batching import Batching
  from xmcap.serving.limits import Limits
  from xmcap.serving.model import ServedModel

  def taken(kind):
    return kind(
      **{field.name: options[field.name] for field in dataclasses.fields(kind) if field.name in options}
    )

  if "descriptors" in options:
    resource.setrlimit(resource.RLIMIT_NOFILE, (options["descriptors"],) * 2)
  if "formats" in options:
    image_formats.optional_formats = lambda: options["formats"]
  bound = server.bind("127.0.0.1", 0)
  searches = {"greedy": "greedily", "beam:4": "by beams", "sample": Chance()}
  languages = (tuple(options.get(name, ())) for name in ("own", "chosen"))
  model = ServedModel("fake", SIZE, searches, *languages, options.get("known", {}))
  hosts = server.hosts("127.0.0.1")

  def say(line):
    print(line, file=sys.stderr, flush=True)

  app, service = app_lib.make(model, taken(Limits), taken(Batching), hosts, say)

  def wait():
    if options.get("by_hand"):
      sys.stdin.readline()

  def load():
    wait()
    # As libtpu does.
    ctypes.CDLL(None).signal(signal.SIGTERM, 0)
    if "broken" in options:
      raise UsageError(options["broken"])
    return Fake(delay, wait)

  where = server.address(bound)
  server.run(app, service, bound, load, lambda: say(f"{where} is open"), lambda: say(f"{where} is ready"))


if __name__ == "__main__":
  # By hand: python -m tests.serving.servers SECONDS OPTIONS, as JSON.
  _serve(float(sys.argv[1]), json.loads(sys.argv[2]))
