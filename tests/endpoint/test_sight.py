import asyncio
import base64
import io

import pytest
from PIL import Image
from starlette.responses import JSONResponse

from tests.make.endpoint import Endpoint, completion, error, every
from xmcap.endpoint import client, sight
from xmcap.errors import UsageError


def _look(server: Endpoint) -> sight.Sight:
  async def look():
    async with client.Client(
      client.Endpoint(server.url, "stub"), print, lambda seconds: asyncio.sleep(0)
    ) as asker:
      return await sight.look(asker, "stub")

  return asyncio.run(look())


def _sees(endpoint, asked):
  """Answers with the colour in the middle of the picture, as a model that sees."""
  url = (asked["messages"][-1]["content"][0]["image_url"] or {}).get("url")
  if url is None:
    return None
  with Image.open(io.BytesIO(base64.b64decode(url.partition(",")[2]))) as image:
    red, _, blue = image.getpixel((image.width // 2, image.height // 2))
  return JSONResponse(completion("A red circle" if red > blue else "A blue square"))


def test_a_model_that_sees():
  with Endpoint(_sees).serving() as server:
    assert _look(server) == sight.Sight(("A red circle", "A blue square"), names_them=True, by_id=False)


def test_a_model_that_does_not_see():
  blind = lambda: JSONResponse(completion("A nice day in the park."))  # noqa: E731
  with Endpoint(every(1, blind)).serving() as server, pytest.raises(UsageError) as raised:
    _look(server)
  assert "stub does not see the pictures" in str(raised.value)


def test_other_names_are_seen_but_said():
  with Endpoint().serving() as server:
    assert not _look(server).names_them


def test_ids_that_the_server_keeps():
  with Endpoint(ids=True).serving() as server:
    assert _look(server).by_id


@pytest.mark.parametrize(
  "refusal",
  [error(400, "Invalid base64 value"), error(500, "Invalid base64 value"), error(422, "uuid: extra field")],
)
def test_servers_without_ids(refusal):
  def without(endpoint, asked):
    image = asked["messages"][-1]["content"][0]
    return (
      refusal() if image["image_url"] is None or (refusal().status_code == 422 and "uuid" in image) else None
    )

  with Endpoint(without).serving() as server:
    assert not _look(server).by_id


def test_a_server_that_answers_without_the_picture_keeps_none():
  """As one that ignores unknown fields and empty pictures: 200, with fewer tokens."""

  def ignores(endpoint, asked):
    if asked["messages"][-1]["content"][0]["image_url"] is None:
      return JSONResponse({**completion("A cat."), "usage": {"prompt_tokens": 20, "completion_tokens": 3}})
    return None

  with Endpoint(ignores).serving() as server:
    assert not _look(server).by_id
