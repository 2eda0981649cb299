"""The HTTP API of `xmcap serve`: /v1/captions, /v1/model, OpenAPI, metrics, origins and errors."""

import base64
import contextlib
import json

import pytest

from tests.serving import servers
from xmcap import languages
from xmcap.serving import server as server_lib
from xmcap.serving.limits import Refused
from xmcap.serving.model import ServedModel


@pytest.fixture(scope="module")
def server():
  with servers.fake(languages=2) as running:
    yield running


def test_captions_endpoint_keeps_the_order_of_languages(server):
  answer = server.ask(servers.picture(50), languages="th,en,ar")
  assert answer.status == 200
  assert answer.json["search"] == "greedy"
  assert list(answer.json["captions"]) == ["th", "en", "ar"]
  assert answer.json["captions"]["ar"] == "ar 50 1 greedily"


def test_captions_endpoint_search_by_name(server):
  for name, words in {"greedy": "greedily", "beam:4": "by beams", "sample": "by chance at 1.0"}.items():
    assert server.ask(servers.picture(), search=name).json["captions"]["en"].endswith(words)


def test_captions_endpoint_sample_temperature_and_seed(server):
  asked = {"search": "sample", "temperature": "0.7", "seed": "7", "languages": "en,th,ar"}
  drawn = server.ask(servers.picture(), **asked).json["captions"]
  assert drawn == {code: f"{code} 99 1 by chance at 0.7 from 7" for code in ("en", "th", "ar")}
  assert server.get("/v1/model").json["drawing"] == ["sample"]


def test_captions_endpoint_languages_all(server):
  assert list(server.ask(servers.picture(), languages="all").json["captions"]) == list(languages.LANGUAGES)


def test_model_endpoint_lists_trained_languages_and_warns_of_others():
  own = ["fa", "quz", "ca"]
  with servers.fake(own=own) as server:
    about, described = server.get("/v1/model").json, json.dumps(server.get("/openapi.json").json)
    assert [found["code"] for found in about["languages"]] == own
    others = [code for code in languages.LANGUAGES if code not in own]
    assert [found["code"] for found in about["untrained"]] == others and len(others) == 34
    assert '"default": "fa,quz,ca"' in described and json.dumps({"enum": own + others}) in described
    for asked in ({}, {"languages": "trained"}, {"languages": "all"}):
      answer = server.ask(servers.picture(), **asked).json
      assert list(answer["captions"]) == own and "warning" not in answer
    warning = "the model was trained on fa, quz, ca, not on en, zh"
    asked = {"languages": "en,fa,zh"}
    answer = server.ask(servers.picture(50), **asked).json
    assert list(answer["captions"]) == ["en", "fa", "zh"] and answer["warning"] == warning
    lines = server.ask(servers.picture(50), **asked, stream="true").data.decode().splitlines()
    assert json.loads(lines[0]) == {"warning": warning} and len(lines) == 4
    refused = server.ask(servers.picture(), languages="quz,pt-BR")
    assert refused.status == 400
    assert refused.error.startswith(
      "this server does not caption in pt-BR: give some of fa, quz, ca, ar, bn, "
    )


def test_captions_endpoint_warns_of_out_of_distribution_images():
  unlike = (
    "the picture may be unlike the pictures that the model knows: mean token probability 0.20, while 98% of the"
    " pictures of its evaluation have 0.50 or more"
  )
  untrained = "the model was trained on en, not on th"
  with servers.fake(own=["en"], known={"en": [0.5] * 50}, languages=1) as server:
    assert server.ask(servers.picture(50)).json["warning"] == unlike
    assert server.ask(servers.picture(50), languages="en,th").json["warning"] == f"{untrained}; {unlike}"
    assert server.ask(servers.picture(50), languages="th").json["warning"] == untrained
    assert "warning" not in server.ask(servers.picture(200)).json
    assert "warning" not in server.ask(servers.picture(50), search="beam:4").json
    lines = server.ask(servers.picture(50), languages="en,th", stream="true").data.decode().splitlines()
    assert [json.loads(line).get("warning") for line in lines] == [untrained, None, None, unlike]


@pytest.mark.parametrize(
  ("own", "chosen", "trained", "untrained", "unasked"),
  [
    (("fa", "quz"), ("en", "fa", "pt-BR"), ("fa",), ("en", "pt-BR"), ("fa",)),
    (("fa", "quz"), ("en", "de"), (), ("en", "de"), ("en",)),
    # Of a model that does not say its languages, none is known to be untrained.
    ((), ("ca", "fa"), ("ca", "fa"), (), ("ca", "fa")),
    ((), (), tuple(languages.LANGUAGES), (), ("en",)),
  ],
)
def test_served_model_trained_and_untrained_languages(own, chosen, trained, untrained, unasked):
  model = ServedModel("m", 8, {"greedy": None}, own, chosen)
  assert (model.trained, model.untrained, model.unasked) == (trained, untrained, unasked)
  assert model.languages_of("all") == (chosen or tuple(languages.LANGUAGES))
  if trained:
    assert model.languages_of("trained") == trained
  else:
    with pytest.raises(Refused, match="the model was trained on none of en, de"):
      model.languages_of("trained")
  assert bool(model.warning(chosen)) == bool(untrained)


def test_captions_endpoint_streams_a_json_line_per_caption(server):
  answer = server.ask(servers.picture(50), languages="en,he,th", stream="true")
  assert answer.headers["content-type"] == "application/x-ndjson"
  assert [json.loads(line) for line in answer.data.decode().splitlines()] == [
    {"language": code, "caption": f"{code} 50 1 greedily"} for code in ("en", "he", "th")
  ]


@pytest.mark.parametrize(
  "parameters, words",
  [
    ({"languages": "xx"}, "unknown language 'xx'"),
    ({"languages": "en,en"}, "named twice"),
    ({"languages": ""}, "unknown language"),
    ({"search": "beam:5"}, "one of greedy, beam:4, sample"),
    ({"search": "sample", "temperature": "nan"}, "temperature=nan: give a number from 0.01 to 100"),
    ({"search": "sample", "temperature": "0"}, "temperature=0: give a number"),
    ({"search": "sample", "seed": "1.5"}, "seed=1.5: give a number from 0 to 4,294,967,295"),
    ({"search": "beam:4", "temperature": "1"}, "only for a search that samples captions (sample)"),
    ({"seed": "1"}, "seed: only for a search that samples"),
    ({"stream": "1"}, "true or false"),
    ({"url": "http://localhost/a.jpg"}, "unknown parameter 'url'"),
    ({"languages": ",".join(["en"] * 2500)}, "language 'en' is named twice in 'en,en,"),
    ({"languages": ",".join(["xx"] * 2500)}, "unknown language 'xx'"),
    ({"seed": "9" * 5000, "search": "sample"}, "give a number from 0 to 4,294,967,295"),
  ],
)
def test_captions_endpoint_refuses_invalid_parameters(server, parameters, words):
  answer = server.ask(servers.picture(), **parameters)
  assert answer.status == 400 and words in answer.error


JPEG = base64.b64encode(servers.picture(format="JPEG"))


@pytest.mark.parametrize(
  "body, name",
  [
    (
      b'--d74496d\r\nContent-Disposition: form-data; name="file"; filename="a.jpg"\r\n\r\n\xff',
      "a form's upload",
    ),
    (b"\n--d7\ncontent-type: image/png\n\n", "a form's upload"),
    (b"image=%FF%D8&languages=en", "a form's fields"),
    (b'{"image": "' + JPEG + b'"}', "JSON"),
    (b' [{"inputs": 1}]', "JSON"),
    (b"data:image/jpeg;base64," + JPEG, "a data URL"),
    (JPEG, "a picture in base64"),
    (base64.b64encode(servers.picture()), "a picture in base64"),
    (b"https://example.org/a.jpg", "the address of a picture"),
  ],
)
def test_captions_endpoint_names_what_a_body_is_instead_of_a_picture(server, body, name):
  answer = server.ask(body)
  assert answer.status == 415 and "--data-binary" in answer.error
  assert answer.error.startswith(f"the body is {name}")


@pytest.mark.parametrize(
  "body, said",
  [
    (
      b'--d74\r\nContent-Disposition: form-data; name="a"\r\n\r\n',
      "the body is a form's upload (multipart/form-data) and not",
    ),
    (b"{", "the body is not JSON: send a chat"),
    (servers.picture(), "the body is not JSON: send a chat"),
  ],
)
def test_chat_names_what_a_body_is_instead_of_json(server, body, said):
  with contextlib.closing(server.connect()) as connection:
    connection.request("POST", "/v1/chat/completions", body)
    answer = json.loads(connection.getresponse().read())
  assert answer["error"]["message"].startswith(said)


@pytest.mark.parametrize("format", ["PNG", "JPEG", "GIF", "WEBP", "BMP"])
def test_captions_endpoint_takes_every_format_as_a_picture(server, format):
  assert server.ask(servers.picture(format=format)).status == 200


def test_captions_endpoint_refuses_a_parameter_that_is_there_twice(server):
  with contextlib.closing(server.connect()) as connection:
    connection.request("POST", "/v1/captions?languages=en&languages=de", servers.picture())
    answer = servers.Answer(connection.getresponse())
  assert answer.status == 400 and answer.error == "parameter 'languages' is given twice: give it once"


def test_captions_endpoint_failed_call_is_500_and_the_next_succeeds(server):
  answer = server.ask(servers.picture(13))
  assert answer.status == 500 and "thirteen is unlucky" in answer.error
  assert json.loads(server.ask(servers.picture(13), stream="true").data) == {"error": answer.error}
  assert server.ask(servers.picture()).status == 200


def test_server_refuses_foreign_origins_and_hosts(server):
  for origin in ("http://stranger.example", "null", "http://["):
    assert "another origin" in server.ask(servers.picture(), {"Origin": origin}).error
  assert server.ask(servers.picture(), {"Origin": server.address}).status == 200
  # A name of a stranger that leads to this machine.
  assert server.get("/", Host="stranger.example").status == 400
  assert server.get("/", Host="[::1]:80").status == 200


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "localhost", "::1"])
def test_allowed_hosts_of_a_loopback_server(host):
  assert "*" not in server_lib.hosts(host) and server_lib.hosts("0.0.0.0") == server_lib.hosts("::") == ["*"]


def test_openapi_describes_every_endpoint(server):
  described = server.get("/openapi.json").json
  posted = {
    "/v1/captions": lambda: server.ask(servers.picture()),
    "/v1/chat/completions": lambda: server.chat(messages=servers.user("caption de")),
  }
  for path, methods in described["paths"].items():
    for method, what in methods.items():
      answer = server.get(path) if method == "get" else posted[path]()
      kinds = what["responses"]["200"]["content"]
      assert answer.status == 200
      assert answer.headers["content-type"].split(";")[0] in kinds
  for path in posted:
    for statuses in described["paths"][path]["post"]["responses"].values():
      assert statuses["description"]
  named = set(_references(described))
  assert named == {f"#/components/schemas/{name}" for name in described["components"]["schemas"]}
  body = described["paths"]["/v1/captions"]["post"]["requestBody"]["content"]["image/png"]["schema"]
  assert body["maxLength"] == server.get("/v1/model").json["limits"]["upload_bytes"]


def _references(value):
  if isinstance(value, dict):
    yield from ([value["$ref"]] if "$ref" in value else [])
    for part in value.values():
      yield from _references(part)
  elif isinstance(value, list):
    for part in value:
      yield from _references(part)


def test_server_unknown_path_is_404_and_wrong_method_405(server):
  assert server.get("/../../etc/passwd").status == 404
  assert "Not Found" in server.get("/nothing").error
  assert server.get("/v1/captions").status == 405


def test_metrics_endpoint_counts_requests_and_captions(server):
  before = server.metric('xmcap_requests_total{status="200"}'), server.metric("xmcap_captions_total")
  server.ask(servers.picture(), languages="en,th,ar")
  after = server.metric('xmcap_requests_total{status="200"}'), server.metric("xmcap_captions_total")
  assert (after[0] - before[0], after[1] - before[1]) == (1, 3)
  assert server.metric("xmcap_queue") == 0
