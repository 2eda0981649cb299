"""Whether a model sees pictures, and whether its server keeps them by their ids: a few requests before a run.

A text-only template, a proxy that drops pictures and a model without eyes all answer 200, with plausible captions.
"""

import dataclasses
import io
import uuid

from PIL import Image, ImageDraw

from xmcap.endpoint import pictures
from xmcap.endpoint.answers import Answer, State
from xmcap.endpoint.client import Client
from xmcap.endpoint.pictures import Picture
from xmcap.endpoint.prompts import Prompt
from xmcap.endpoint.questions import Questions
from xmcap.errors import UsageError
from xmcap.terminal import shown

_SIDE = 256
_PROMPT = Prompt(
  name="sight", title="", source="", max_tokens=24, parameters={"temperature": 0},
  text="What is in this picture? Answer in {language}, with the colour and the shape alone.",
)  # fmt: skip
_DRAWN = (("red", "circle"), ("blue", "square"))


@dataclasses.dataclass(frozen=True)
class Sight:
  """What a server does with pictures.

  Attributes:
    answers: what it said of a red circle and of a blue square.
    names_them: whether it named their colours or shapes.
    by_id: whether it keeps pictures by their ids (vLLM's `uuid`).
  """

  answers: tuple[str, str]
  names_them: bool
  by_id: bool


async def look(client: Client, model: str) -> Sight:
  """Asks what is in two drawn pictures, then again with the id alone.

  Raises:
    UsageError: it cannot be asked, or its answers do not change with the picture.
  """
  questions = Questions(model, _PROMPT, {})
  drawn = [pictures.encode(_drawn(*names), " ".join(names)) for names in _DRAWN]
  said = [await client.ask(questions.of_picture(picture, "en")) for picture in drawn]
  for answer in said:
    if answer.state is State.FAILED:
      raise UsageError(f"{client.endpoint.url}: a picture cannot be asked about: {answer.reason}")
  texts = said[0].text.strip(), said[1].text.strip()
  if texts[0] == texts[1]:
    raise UsageError(
      f"{client.endpoint.url}: {model} does not see the pictures: of a red circle and of a blue square it says"
      f" '{shown(texts[0])}'; ask a model that does, or give --blind"
    )
  named = all(any(name in text.lower() for name in names) for names, text in zip(_DRAWN, texts, strict=True))
  return Sight(texts, named, await _keeps(client, questions, drawn[1], said[1]))


async def _keeps(client: Client, questions: Questions, picture: Picture, expected: Answer) -> bool:
  """Whether the id alone gets the same answer, with as many tokens, and an unknown id none."""
  with_id = await client.ask(questions.of_picture(picture, "en", by_id=False))
  if with_id.state is State.FAILED:
    return False
  by_id = await client.ask(questions.of_picture(picture, "en", by_id=True))
  if (
    by_id.state is State.FAILED
    or by_id.tokens.prompt != expected.tokens.prompt
    or by_id.text != expected.text
  ):
    return False
  unknown = dataclasses.replace(picture, id=uuid.uuid4().hex)
  return (await client.ask(questions.of_picture(unknown, "en", by_id=True))).state is State.FAILED


def _drawn(colour: str, shape: str) -> bytes:
  image = Image.new("RGB", (_SIDE, _SIDE), "white")
  draw = ImageDraw.Draw(image)
  box = (_SIDE // 5, _SIDE // 5, 4 * _SIDE // 5, 4 * _SIDE // 5)
  draw.ellipse(box, colour) if shape == "circle" else draw.rectangle(box, colour)
  file = io.BytesIO()
  image.save(file, "JPEG", quality=95)
  return file.getvalue()
