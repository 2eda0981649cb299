"""The load on `xmcap serve`, beside transformers' `generate` with the same weights and search; and a stop.

usage: python benchmarks/serve.py [--model_dir=runs/quickstart/model] [--search=greedy|beam]
Many clients are beside one, and shared calls beside calls of one picture. Clients keep their connections and send the
next picture when they have the captions of the last. `generate` is called directly, in a process of its own, from
pixels to tokens, without HTTP, JPEGs and texts: for one picture, as a request has it, and for as many as a shared call
has; a picture is encoded once for all languages. At the end SIGTERM comes while all clients ask: a request is lost if
the server took its connection and the client gets no captions.
"""

import argparse
import functools
import http.client
import json
import pathlib
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from urllib.parse import urlsplit

import photographs
import report

LANGUAGES = ("en", "ar,en,es,hi,th,zh")
SEARCHES = {
  "greedy": {"name": "Greedy"},
  "beam": {"name": "Beam", "beams": 4, "length_penalty": 1.0, "convention": "transformers", "early_stopping": False},
}  # fmt: skip
_PICTURES = 16  # in a shared call, at most


class Server:
  """`xmcap serve`, in a process of its own."""

  def __init__(self, model_dir: str, *options: str):
    command = [sys.executable, "-m", "xmcap.cli", "serve", f"--model_dir={model_dir}", "--port=0", *options]
    self.process = subprocess.Popen(
      [*command, "--searches=model"], stderr=subprocess.PIPE, text=True, errors="replace"
    )
    assert self.process.stderr is not None
    lines = []
    for line in self.process.stderr:
      lines.append(line)
      if found := re.search(r"(http://\S+) is ready", line):
        self.place = urlsplit(found[1])
        return
    raise SystemExit("".join(lines))

  def connect(self) -> http.client.HTTPConnection:
    return http.client.HTTPConnection(self.place.hostname or "", self.place.port, timeout=120)


class Load:
  """Clients that ask until the time is up, or the server has gone."""

  def __init__(self, server: Server, pictures: list[bytes], languages: str, clients: int):
    self._server, self._pictures, self._path = server, pictures, f"/v1/captions?languages={languages}"
    self.times: list[float] = []
    self.counts = {"answered": 0, "refused": 0, "lost": 0}
    self._lock, self._over = threading.Lock(), threading.Event()
    self._threads = [threading.Thread(target=self._client, args=(number,)) for number in range(clients)]

  def run(self, seconds: float, stop: Callable[[], object] | None = None) -> float:
    """Returns how long it took until the last answer; `stop` ends the server, else the time ends the clients."""
    began = time.perf_counter()
    for thread in self._threads:
      thread.start()
    time.sleep(seconds)
    (stop or self._over.set)()
    for thread in self._threads:
      thread.join()
    return time.perf_counter() - began

  def _client(self, number: int) -> None:
    connection = None
    while not self._over.is_set():
      if connection is None:
        connection = self._server.connect()
        try:
          connection.connect()
        except OSError:
          return self._count("refused")
      began = time.perf_counter()
      number += 1
      try:
        connection.request("POST", self._path, self._pictures[number % len(self._pictures)])
        answer = connection.getresponse()
        answer.read()
      except (OSError, http.client.HTTPException):
        return self._count("lost")
      if answer.status != 200:
        return self._count("lost")
      self._count("answered", time.perf_counter() - began)
      if answer.will_close:
        connection = connection.close()

  def _count(self, kind: str, seconds: float = 0.0) -> None:
    with self._lock:
      self.counts[kind] += 1
      if seconds:
        self.times.append(seconds)


class Generate:
  """transformers' `generate` in a process of its own, with what `xmcap export --to=hf` writes into `folder`."""

  def __init__(self, model_dir: str, folder: str):
    command = [sys.executable, "-m", "xmcap.cli", "export", f"--model_dir={model_dir}", "--to=hf"]
    subprocess.run([*command, f"--out={folder}"], check=True, capture_output=True)
    command = [sys.executable, __file__, f"--generate={folder}"]
    self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

  def run(self, pictures: int, languages: str, seconds: float) -> list[float]:
    """Returns how long each call took, until the time is up."""
    assert self._process.stdin is not None and self._process.stdout is not None
    print(json.dumps([pictures, languages, seconds]), file=self._process.stdin, flush=True)
    return json.loads(self._process.stdout.readline())

  def close(self) -> None:
    self._process.communicate()


def generate(folder: str) -> None:
  """The process of `Generate`."""
  import export
  import numpy as np
  import torch

  from xmcap.data import images

  side = json.loads(pathlib.Path(folder, "captioner.json").read_text())["image_size"]
  # Those of the clients, as other pictures have captions of other lengths.
  pixels = np.stack([images.load(photographs.picture(seed), "", side) for seed in range(_PICTURES)])
  runs: dict[tuple[int, str], Callable[[], object]] = {}
  threads: dict[tuple[int, str], int] = {}
  most = torch.get_num_threads()
  for line in sys.stdin:
    pictures, languages, seconds = json.loads(line)
    if (pictures, languages) not in runs:
      runs[pictures, languages] = export.hf(pathlib.Path(folder), pixels[:pictures], languages.split(","))
      threads[pictures, languages] = _fastest(runs[pictures, languages], (1, most))
    torch.set_num_threads(threads[pictures, languages])
    times: list[float] = []
    while sum(times) < seconds:
      times.append(_timed(runs[pictures, languages]))
    print(json.dumps(times), flush=True)


def _fastest(run: Callable[[], object], candidates: tuple[int, ...]) -> int:
  """The number of torch's threads with which a call is fastest."""
  import torch

  seconds = dict.fromkeys(candidates, float("inf"))
  for threads in candidates * 3:
    torch.set_num_threads(threads)
    seconds[threads] = min(seconds[threads], _timed(run))
  return min(seconds, key=seconds.__getitem__)


def _timed(run: Callable[[], object]) -> float:
  began = time.perf_counter()
  run()
  return time.perf_counter() - began


def _with_search(model_dir: str, folder: str, search: str) -> str:
  """A copy of the model's folder whose own search is this one."""
  shutil.copytree(model_dir, folder)
  path = pathlib.Path(folder, "model.json")
  model = json.loads(path.read_text())
  model.setdefault("decoding", {})["search"] = SEARCHES[search]
  path.write_text(json.dumps(model))
  return folder


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("--model_dir", default="runs/quickstart/model")
  parser.add_argument("--clients", type=int, default=64)
  parser.add_argument("--seconds", type=float, default=3)
  parser.add_argument("--rounds", type=int, default=3)
  parser.add_argument("--search", choices=SEARCHES, default="greedy")
  parser.add_argument("--generate", help=argparse.SUPPRESS)
  options = parser.parse_args()
  if options.generate:
    return generate(options.generate)
  with tempfile.TemporaryDirectory() as folder:
    model_dir = _with_search(options.model_dir, f"{folder}/model", options.search)
    measure(options, model_dir, Generate(model_dir, f"{folder}/hf"))


def measure(options: argparse.Namespace, model_dir: str, peer: Generate) -> None:
  """Takes turns, ends all processes and writes the result."""
  pictures = [photographs.picture(seed) for seed in range(_PICTURES)]
  servers = {
    "one picture per call": Server(model_dir, "--batch_size=1", "--batch_milliseconds=0"),
    "shared calls": Server(model_dir, f"--batch_size={_PICTURES}"),
  }
  sides = [(words, n, codes) for codes in LANGUAGES for n in (1, options.clients) for words in servers]
  calls = {f"generate, {n} picture{'s' * (n > 1)} per call": n for n in (1, _PICTURES)}
  sides += [(words, 0, codes) for codes in LANGUAGES for words in calls]
  rounds: dict[tuple, list[tuple[float, ...]]] = {side: [] for side in sides}
  for _ in range(options.rounds):
    for words, clients, codes in sides:
      if words in calls:
        times = peer.run(calls[words], codes, options.seconds)
        captions = calls[words] * len(codes.split(",")) * len(times) / sum(times)
        median = 1000 * statistics.median(times)
        rounds[words, clients, codes].append((median, 1000 * max(times), captions, 0))
        print(words, codes, rounds[words, clients, codes][-1], flush=True)
        continue
      load = Load(servers[words], pictures, codes, clients)
      took = load.run(options.seconds)
      cuts = statistics.quantiles(load.times, n=20)
      captions = len(load.times) * len(codes.split(",")) / took
      rounds[words, clients, codes].append((1000 * cuts[9], 1000 * cuts[18], captions, load.counts["lost"]))
      print(words, clients, codes, rounds[words, clients, codes][-1], flush=True)
  peer.close()
  stops = {"answered": 0, "refused": 0, "lost": 0}
  for server in servers.values():
    load = Load(server, pictures, "en", options.clients)
    load.run(3, functools.partial(server.process.send_signal, signal.SIGTERM))
    stops = {kind: count + load.counts[kind] for kind, count in stops.items()}
    if code := server.process.wait(120):
      raise SystemExit(f"the server ended with exit code {code}")
  print(f"SIGTERM: {stops}", flush=True)
  rows = [
    (words, str(clients or "-"), str(len(codes.split(","))), *_medians(rounds[words, clients, codes]))
    for words, clients, codes in sides
  ]
  report.write(
    "serve" + "_beam" * (options.search == "beam"),
    f"Server under load (tiny model, CPU), {options.search}",
    rows,
    columns=(
      "server, or transformers",
      "clients",
      "languages",
      "p50 ms",
      "p95 ms",
      "captions per second",
      "lost",
    ),
    notes=[
      "JPEGs of 640 x 480 pixels and the file size of photographs. The clients are one Python process on the same"
      " cores.",
      f"Medians of {options.rounds} rounds, alternating between the servers and transformers' `generate`, which has the"
      " same weights and search, and neither HTTP nor JPEGs nor texts; for it, p95 is the longest call.",
      f"SIGTERM while {options.clients} clients used each server: {stops['answered']:,} requests were answered before"
      f" and after the signal, {stops['lost']} lost.",
    ],
  )
  if stops["lost"] or any(found[3] for side in rounds.values() for found in side):
    raise SystemExit("requests were lost: see above")


def _medians(found: list[tuple[float, ...]]) -> tuple[str, ...]:
  p50, p95, captions, _ = map(statistics.median, zip(*found, strict=True))
  return f"{p50:.0f}", f"{p95:.0f}", f"{captions:,.0f}", str(sum(int(one[3]) for one in found))


if __name__ == "__main__":
  main()
