"""`/v1/chat/completions` and `/v1/models`: what peers' clients of OpenAI's API ask a captioner, and are answered."""

import asyncio
import base64
import contextlib
import json

import pytest

from tests.serving import servers
from xmcap import languages
from xmcap.endpoint import answers, client, pictures, prompts
from xmcap.endpoint.answers import State
from xmcap.endpoint.questions import Questions
from xmcap.serving import chat

PNG = f"data:image/png;base64,{base64.b64encode(servers.picture()).decode()}"


@pytest.fixture(scope="module")
def server():
  with servers.fake(languages=2, upload_bytes=20_000) as running:
    yield running


def asked(text="Caption in German", **fields):
  return {"messages": servers.user(text), **fields}


def content(answer):
  assert answer.status == 200, answer.data
  return answer.json["choices"][0]["message"]["content"]


def test_chat_completion_is_one_of_openai(server):
  answer = server.chat(**asked(model="fake", max_tokens=64, temperature=0))
  found = answer.json
  assert content(answer) == "de 99 1 greedily"
  assert found["choices"][0]["finish_reason"] == "stop" and found["language"] == "de"
  assert found["usage"] == {"prompt_tokens": 0, "completion_tokens": 5, "total_tokens": 5}
  assert (found["object"], found["model"]) == ("chat.completion", "fake") and "warning" not in found
  (listed,) = server.get("/v1/models").json["data"]
  assert (listed["id"], listed["object"], len(listed["languages"])) == ("fake", "model", 36)


@pytest.mark.parametrize(
  ("text", "code"),
  [
    ("caption it", "it"),
    ("pt-BR", None),
    ("Caption in Norwegian: ", "no"),
    ("Beschreibe das Bild kurz auf Deutsch.", "de"),
    ("用中文描述图片", "zh"),
    ("Generate a **brief** caption for the given image in **Cusco Quechua**", "quz"),
    ("Language: fi. No more than ten words in it.", "fi"),
    ("Caption in Chinese (Traditional)", None),
    ("Describe it, he has no hat in it.", None),
    ("Hi!", None),
    ("Caption in German (French)", None),
    ("Language: de. In Greek.", None),
  ],
)
def test_prompts_name_one_language_or_are_refused(server, text, code):
  answer = server.chat(**asked(text))
  if code is None:
    message = answer.json["error"]["message"]
    assert answer.status == 400 and ('give "language": "CODE"' in message or "does not caption in" in message)
  else:
    assert answer.json["language"] == code and content(answer).startswith(f"{code} 99 ")


@pytest.mark.parametrize(
  "name", ["xmcap", "centurio", "centurio-baselines", "mblip", "paligemma", "megaverse"]
)
def test_published_prompts_name_their_language(server, name):
  prompt = prompts.get(name)
  assert {code: chat._named(prompt.of(code)) for code in languages.LANGUAGES} == {
    code: [code] for code in languages.LANGUAGES
  }


def test_the_language_field_and_a_model_of_one_language(server):
  assert content(server.chat(**asked("Caption in German", language="th"))) == "th 99 1 greedily"
  system = [{"role": "system", "content": "Answer in Thai."}]
  assert content(server.chat(messages=system + servers.user("Describe it."))) == "th 99 1 greedily"
  with servers.fake(own=["fa"]) as persian:
    assert content(persian.chat(**asked("Describe it."))) == "fa 99 1 greedily"
    german = persian.chat(**asked()).json
    assert german["language"] == "de" and german["warning"] == "the model was trained on fa, not on de"


def test_tokens_temperature_and_streams(server):
  cut = server.chat(**asked(max_completion_tokens=2, max_tokens=9))
  assert content(cut) == "de 99" and cut.json["choices"][0]["finish_reason"] == "length"
  assert cut.json["usage"]["completion_tokens"] == 2
  whole = server.chat(**asked("caption quz")).json  # the model's own largest number of tokens
  assert whole["choices"][0]["finish_reason"] == "length"
  assert content(server.chat(**asked(temperature=0.5, seed=7))) == "de 99 1 by chance at 0.5 from 7"
  assert content(server.chat(**asked(seed=7))) == "de 99 1 greedily"
  neutral = {
    "n": 1,
    "stream": False,
    "stop": None,
    "tools": [],
    "response_format": {"type": "text"},
    "top_p": 1.0,
  }
  ignored = {"user": "u", "store": False, "metadata": {"a": "b"}}
  assert content(server.chat(**asked(**neutral, **ignored))) == "de 99 1 greedily"
  events = server.chat(**asked(stream=True, stream_options={"include_usage": True})).data.decode()
  chunk, end = [event.removeprefix("data: ") for event in events.split("\n\n") if event]
  chunk = json.loads(chunk)
  assert chunk["choices"][0]["delta"]["content"] == "de 99 1 greedily" and end == "[DONE]"
  assert chunk["usage"]["completion_tokens"] == 5 and chunk["object"] == "chat.completion.chunk"


MESSAGE = servers.user("caption de")[0]


@pytest.mark.parametrize(
  ("fields", "status", "words"),
  [
    ({"messages": servers.user("caption de", "http://localhost/a.jpg")}, 400, "this server fetches nothing"),
    ({"messages": servers.user("caption de", "file:///etc/passwd")}, 400, "this server fetches nothing"),
    ({"messages": servers.user("caption de", PNG, PNG)}, 400, "2 pictures"),
    ({"messages": servers.user("caption de", PNG.replace(",", ",!!!!"))}, 400, "broken base64"),
    ({"messages": servers.user("caption de", "data:image/png;base64,")}, 400, "no bytes"),
    ({"messages": servers.user("caption de", "data:image/png;base64,AAAA")}, 422, "not a picture"),
    ({"messages": servers.user("caption de", f"data:image/png;base64,{'A' * 30_000}")}, 413, "limit of 20,000"),
    ({"messages": servers.user("caption de", f"data:image/png;base64,{'A' * 99_999}")}, 413, "limit of 20,000"),
    ({"messages": [{"role": "user", "content": "caption de"}]}, 400, "no pictures"),
    ({"messages": []}, 400, "give one of the user"),
    ({"messages": [MESSAGE, {"role": "assistant", "content": "x"}, MESSAGE]}, 400, "no examples"),
    ({"messages": [{**MESSAGE, "role": "system"}, MESSAGE]}, 400, "a picture of the system"),
    ({"messages": [{"role": "user", "content": [{"type": "input_audio"}]}]}, 400, "'input_audio'"),
    ({"messages": "x"}, 400, "$.messages"),
    ({}, 400, "messages"),
    (asked(model="gpt"), 404, "there is no model 'gpt' here: give 'fake'"),
    (asked(language="xx"), 400, "unknown language 'xx'"),
    (asked(language="de,fr"), 400, "one language"),
    (asked(language="all"), 400, "one language"),
    (asked("x" * 10_001), 400, "10,000 characters"),
    (asked(n=2), 400, "n: "),
    (asked(stop=["."]), 400, "stop: "),
    (asked(tools=[{}]), 400, "tools: "),
    (asked(logprobs=True), 400, "logprobs: "),
    (asked(response_format={"type": "json_object"}), 400, "response_format: "),
    (asked(repetition_penalty=1.1), 400, "repetition_penalty: "),
    (asked(guided_json={}), 400, "guided_json: "),
    (asked(max_tokens=0), 400, "$.max_tokens"),
    (asked(temperature=1000), 400, "temperature=1000: give a number from 0.01 to 100"),
    (asked(temperature=1, seed=-1), 400, "seed=-1"),
  ],
)  # fmt: skip
def test_what_would_change_the_caption_is_refused_by_its_name(server, fields, status, words):
  answer = server.chat(**fields)
  found = answer.json["error"]
  assert answer.status == status and words in found["message"] and "\n" not in found["message"]
  assert found["type"] == "invalid_request_error" and found.keys() == {"message", "type", "param", "code"}
  assert answers.error_message(answer.data).startswith(found["message"])


@pytest.mark.parametrize(
  ("method", "path", "status", "words"),
  [
    ("GET", "/v1/models/gpt", 404, "there is no model 'gpt' here: give 'fake'"),
    ("POST", "/v1/responses", 404, "Not Found: /docs lists the endpoints"),
    ("GET", "/v1/chat/completions", 405, "Method Not Allowed, but POST: /docs"),
  ],
)
def test_other_addresses_are_refused_as_the_openai_package_reads_it(server, method, path, status, words):
  with contextlib.closing(server.connect()) as connection:
    connection.request(method, path, b"{}")
    answer = servers.Answer(connection.getresponse())
  assert answer.status == status and words in answer.json["error"]["message"]
  assert answer.json["error"]["code"] == ("model_not_found" if "models" in path else None)


def test_one_model_by_its_name(server):
  assert server.get("/v1/models/fake").json["id"] == "fake"


@pytest.mark.parametrize(
  "fields",
  [
    {"max_tokens": 1024, "temperature": 0},
    {"max_completion_tokens": 1024, "response_format": {"type": "text"}},
    {"max_tokens": 16384, "temperature": 0.0, "n": 1, "stream": False},
  ],
  ids=["lmms-eval", "lmms-eval, gpt-5", "VLMEvalKit"],
)
def test_requests_of_peers(server, fields):
  """Fields, a system's message and `detail` as clients of lmms-eval 0.7.2 and VLMEvalKit e8e78f05 send them."""
  system = {"role": "system", "content": [{"type": "text", "text": "You are a helpful assistant."}]}
  image = {"type": "image_url", "image_url": {"url": PNG, "detail": "high"}}
  user = {"role": "user", "content": [image, {"type": "text", "text": "Caption in German:"}]}
  assert content(server.chat(model="fake", messages=[system, user], **fields)) == "de 99 1 greedily"


def test_bodies_that_are_not_json_and_foreign_pages_are_refused(server):
  assert server.chat({"Origin": "http://stranger.example"}, **asked()).status == 403
  for body in (b"", b"{", b"\xff", b"[" * 100_000):
    with contextlib.closing(server.connect()) as connection:
      connection.request("POST", "/v1/chat/completions", body)
      answer = servers.Answer(connection.getresponse())
    assert answer.status in (400, 413) and answer.json["error"]["message"]


def test_requests_are_counted_and_batched_with_others(server):
  name = 'xmcap_requests_total{status="200"}'
  before = server.metric(name)
  content(server.chat(**asked()))
  assert server.metric(name) == before + 1 and server.metric("xmcap_queue") == 0


def test_our_own_client_captions_by_it(server):
  async def ask(code):
    async with client.Client(client.Endpoint(f"{server.address}/v1", "fake"), print) as asker:
      picture = pictures.encode(servers.picture(50), "grey")
      return await asker.ask(Questions("fake", prompts.get("xmcap"), {}).of_picture(picture, code))

  answer = asyncio.run(ask("sw"))
  assert answer.state is State.ANSWERED and answer.text.startswith("sw ") and answer.tokens.completion == 5
