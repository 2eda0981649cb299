"""Startup of `xmcap serve`: requests while the model is loaded and programs are compiled."""

import asyncio
import contextlib
import select
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.serving import servers
from xmcap.serving.batching import Batcher, Batching
from xmcap.serving.model import ServedModel
from xmcap.serving.starting import Startup

BY_HAND = {"until": "open", "by_hand": True, "pictures": 4, "languages": 2}


def state(server):
  return server.get("/v1/model").json["start"]


def until(server, condition):
  while not condition(found := state(server)):
    time.sleep(0.02)
  return found


def answer(server, connection):
  """The answer to a request, for which the server goes on with its start as long as need be."""
  while not select.select([connection.sock], [], [], 0.5)[0]:
    server.go_on()
  return servers.Answer(connection.getresponse())


def test_startup_compiles_greedy_search_and_single_images_first():
  class Noting(servers.Fake):
    def best(self, pictures, languages, *, search, seed, pad_to):
      calls.append((search, len(pictures), pad_to, batcher.most, start.searches))
      return super().best(pictures, languages, search=search, seed=seed, pad_to=pad_to)

  async def run():
    await start.load(lambda: Noting(0))
    await start.compile()

  calls, said = [], []
  with ThreadPoolExecutor(1) as device:
    batching = Batching(pictures=4, languages=3)
    batcher = Batcher(device, batching, lambda: 0, lambda *call: None)
    model = ServedModel("m", 8, {"beam:2": "beam", "greedy": "greedy"}, ("quz",))
    start = Startup(model, batching, batcher, device, said.append)
    asyncio.run(run())
  assert calls == [
    *[("greedy", 1, languages, 1, []) for languages in (1, 2, 3)],
    *[("beam", 1, languages, 1, ["greedy"]) for languages in (1, 2, 3)],
    *[
      (search, 4, languages, 1, ["beam:2", "greedy"])
      for search in ("greedy", "beam")
      for languages in (1, 2, 3)
    ],
  ]
  assert batcher.most == 4 and start.is_over
  assert said[0].endswith(
    "compiling 12 programs: beam:2, greedy, each for 1 or 4 pictures and 1 or 2 or 3 languages a call"
  )
  assert [line.rpartition(" in ")[0] for line in said[1:]] == [
    f"programs compiled: {done} of 12" for done in range(1, 13)
  ]


def test_startup_captions_before_all_programs_are_compiled():
  with servers.fake(**BY_HAND) as server:
    first = state(server)
    assert (first["stage"], first["compiled"], first["programs"], first["searches"]) == ("loading", 0, 12, [])
    assert server.get("/health").status == 503 and server.get("/health").json == {"status": "starting"}
    refused = server.ask(servers.picture())
    assert refused.status == 503 and refused.headers["retry-after"]
    assert refused.error == "the model is being loaded: try again soon"
    server.go_on(1 + 2)
    found = until(server, lambda found: found["searches"])
    assert (found["stage"], found["compiled"], found["searches"]) == ("compiling", 2, ["greedy"])
    refused = server.ask(servers.picture(), search="sample")
    assert refused.status == 503 and refused.error == "search sample is being compiled: try again soon"
    with contextlib.closing(server.connect()) as connection:
      connection.request("POST", "/v1/captions?languages=en,th", servers.picture(50))
      assert answer(server, connection).json["captions"]["th"] == "th 50 1 greedily"
    server.go_on(12)
    assert until(server, lambda found: found["stage"] == "ready")["compiled"] == 12
    assert server.get("/health").json == {"status": "ready"}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_during_startup_answers_pending_requests(number):
  with servers.fake(**BY_HAND) as server:
    server.go_on(1 + 2)
    until(server, lambda found: found["searches"])
    with contextlib.closing(server.connect()) as connection:
      connection.request("POST", "/v1/captions", servers.picture(50))
      while server.metric("xmcap_queue") < 1:
        time.sleep(0.02)
      server.process.send_signal(number)
      assert answer(server, connection).json["captions"] == {"en": "en 50 1 greedily"}
    server.go_on()
    assert server.process.wait(120) == 0
    assert "Traceback" not in server.process.stderr.read()


def test_damaged_checkpoint_ends_the_server_with_an_error():
  with servers.fake(**BY_HAND, broken="the checkpoint is damaged") as server:
    server.go_on()
    assert server.process.wait(120) != 0
    assert "UsageError: the checkpoint is damaged" in server.process.stderr.read()
