"""`xmcap serve` of a small model."""

import base64
import re
import shutil
import signal

import pytest

from tests.make import models
from tests.make.command import xmcap
from tests.serving import servers
from xmcap import load_captioner
from xmcap.models.decoding.search import Sample


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
  return models.captioner(tmp_path_factory.mktemp("served") / "model")


@pytest.mark.slow
@pytest.mark.parametrize("batch", [1, pytest.param(2, marks=pytest.mark.full)])
def test_serve_captions_equal_load_captioner(folder, batch):
  colours, codes = (10, 200), ["en", "th", "ar"]
  batching = [f"--batch_size={batch}", f"--batch_languages={batch}"]
  with servers.real(folder, "--searches=greedy,beam:2,model,sample", *batching) as server:
    assert server.get("/health").json == {"status": "ready"}
    # Nothing of jax or libtpu, which searches for a TPU if it may.
    ours = re.compile(r"http://\S+ is |model loaded in |programs compiled: |compiled programs are kept in ")
    assert [line for line in server.said if not ours.match(line)] == []
    assert server.get("/v1/model").json["searches"] == ["greedy", "beam:2", "model", "sample"]
    found = [server.ask(servers.picture(colour), languages=",".join(codes)).json for colour in colours]
    own = server.ask(servers.picture(colours[0]), search="model", languages=",".join(codes)).json
    beams = server.ask(servers.picture(colours[0]), search="beam:2", languages=",".join(codes)).json
    draws = [dict(search="sample", temperature=heat, seed=7, languages="en,th") for heat in (0.5, 1.5)]
    drawn = [server.ask(servers.picture(colours[0]), **asked).json["captions"] for asked in draws]
    bad = server.ask(b"GIF89a")
    url = f"data:image/png;base64,{base64.b64encode(servers.picture(colours[0])).decode()}"
    chats = [
      server.chat(messages=servers.user("Caption in Thai", url), **limit).json
      for limit in ({}, {"max_tokens": 2})
    ]
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(120) == 0
    assert "stopped: all requests are answered" in server.process.stderr.read()
  from xmcap.serving import searches

  captioner = load_captioner(folder)
  pictures = [servers.picture(colour) for colour in colours]
  assert [one["captions"] for one in found] == captioner.caption(pictures, codes)
  assert own["captions"] == found[0]["captions"]
  whole, cut = [chat["choices"][0] for chat in chats]
  short = captioner.best(pictures[:1], ["th"], max_length=2)[0]["th"]
  assert (whole["message"]["content"], cut["message"]["content"]) == (found[0]["captions"]["th"], short.text)
  assert cut["finish_reason"] == "length" and len(short.tokens) == 2
  assert (
    beams["captions"] == captioner.caption(pictures[:1], codes, search=searches.parse("beam:2")["beam:2"])[0]
  )
  for heat, captions in zip((0.5, 1.5), drawn, strict=True):
    search = Sample(temperature=heat)
    assert captions == captioner.caption(pictures[:1], ["en", "th"], search=search, seed=7)[0]
  assert bad.status == 422


@pytest.mark.parametrize(
  "option, words",
  [
    ("--searches=beem:4", "unknown 'beem:4'"),
    ("--searches=greedy,greedy", "each once"),
    ("--searches=beam:0", "Beam.beams"),
    ("--searches=sample:0.7", "'sample:0.7': give sample; each request sets its own temperature"),
    ("--port=70000", "from 0 to 65,535"),
    ("--host=256.256.256.256", "give another address or port"),
    ("--queue=0", "from 1"),
  ],
)
def test_serve_option_errors_are_one_line(tmp_path, option, words):
  port = [] if "port" in option else ["--port=0"]
  xmcap("serve", f"--model_dir={tmp_path}", option, *port).refused(words)


def test_serve_refuses_a_folder_without_a_model(tmp_path):
  xmcap("serve", f"--model_dir={tmp_path}", "--port=0").refused("not a model folder")


def test_serve_refuses_a_malformed_familiar_json(folder, tmp_path):
  shutil.copytree(folder, tmp_path / "model")
  (tmp_path / "model" / "familiar.json").write_text("{}")
  xmcap("serve", f"--model_dir={tmp_path / 'model'}", "--port=0").refused("familiar.json: cannot be read")


def test_serve_refuses_a_port_in_use(tmp_path):
  from xmcap.serving import server

  with server.bind("127.0.0.1", 0) as other:
    other.listen()
    port = other.getsockname()[1]
    xmcap("serve", f"--model_dir={tmp_path}", f"--port={port}").refused(
      "Address already in use: give another"
    )
