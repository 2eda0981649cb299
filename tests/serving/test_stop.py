"""Shutdown of `xmcap serve` by a signal: no request is lost."""

import contextlib
import http.client
import json
import signal
import threading
import time

import pytest

from tests.serving import servers


def test_shutdown_answers_all_requests_in_progress():
  with servers.fake(delay=0.3, languages=1) as server, contextlib.ExitStack() as stack:
    idle, fresh, captioning, streaming, sending = (
      stack.enter_context(contextlib.closing(server.connect())) for _ in range(5)
    )
    idle.request("GET", "/health")
    assert idle.getresponse().read()
    fresh.connect()
    captioning.request("POST", "/v1/captions?languages=en,th,ar", servers.picture())
    streaming.request("POST", "/v1/captions?languages=en,th,ar&stream=true", servers.picture())
    body = servers.picture()
    sending.putrequest("POST", "/v1/captions")
    sending.putheader("Content-Length", str(len(body)))
    sending.endheaders(body[:20])
    while server.metric("xmcap_queue") < 3:
      time.sleep(0.02)
    server.process.send_signal(signal.SIGTERM)
    time.sleep(0.3)
    with pytest.raises(ConnectionRefusedError):
      server.get("/health")
    fresh.request("POST", "/v1/captions", servers.picture())
    idle.request("GET", "/health")
    sending.send(body[20:])
    answers = {name: servers.Answer(one.getresponse()) for name, one in
               {"fresh": fresh, "idle": idle, "captioning": captioning, "sending": sending}.items()}  # fmt: skip
    assert answers["idle"].status == 503 and answers["idle"].json == {"status": "stopping"}
    assert all(answers[name].json["captions"]["en"] for name in ("fresh", "captioning", "sending"))
    assert answers["fresh"].headers["connection"] == "close"
    lines = streaming.getresponse().read().decode().splitlines()
    assert [json.loads(line)["language"] for line in lines] == ["en", "th", "ar"]
    assert server.process.wait(120) == 0


def test_shutdown_with_many_clients_loses_no_request():
  counts, lock = {"answered": 0, "refused": 0, "lost": 0}, threading.Lock()

  def client(server):
    while True:
      connection = server.connect()
      try:
        connection.connect()
      except OSError:
        kind = "refused"
      else:
        try:
          connection.request("POST", "/v1/captions", servers.picture())
          kind = "answered" if servers.Answer(connection.getresponse()).status == 200 else "lost"
        except OSError:
          kind = "lost"
      connection.close()
      with lock:
        counts[kind] += 1
      if kind != "answered":
        return

  with servers.fake(delay=0.01) as server:
    clients = [threading.Thread(target=client, args=(server,)) for _ in range(16)]
    for thread in clients:
      thread.start()
    while counts["answered"] < 40:
      time.sleep(0.01)
    server.process.send_signal(signal.SIGTERM)
    for thread in clients:
      thread.join(120)
    assert server.process.wait(120) == 0
  assert counts["lost"] == 0 and counts["refused"] == 16


def test_second_signal_ends_the_server_without_an_answer():
  # On a busy machine, both signals may take some seconds to arrive.
  with servers.fake(delay=20) as server, contextlib.closing(server.connect()) as connection:
    connection.request("POST", "/v1/captions", servers.picture())
    while not server.metric("xmcap_queue"):
      time.sleep(0.02)
    for _ in range(2):
      server.process.send_signal(signal.SIGTERM)
      time.sleep(0.3)
    with contextlib.suppress(ConnectionError, http.client.HTTPException):
      assert servers.Answer(connection.getresponse()).status >= 500
    # The call that has begun ends with the process' thread.
    server.process.wait(120)
