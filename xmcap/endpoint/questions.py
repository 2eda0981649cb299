"""Questions as chat completions: the picture before the text, so that all languages of a picture share its prefix."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from xmcap.endpoint.pictures import ENCODING, Picture
from xmcap.endpoint.prompts import Prompt

Message = dict[str, Any]


class Shot(NamedTuple):
  """An example: a picture, and its caption in each language."""

  picture: Picture
  captions: Mapping[str, str]


class Questions:
  """Makes the questions of a run.

  Args:
    model: the model's name.
    prompt: what is asked.
    extra_body: further fields of each request.
    shots: examples before the question; all have captions in all languages.
  """

  def __init__(self, model: str, prompt: Prompt, extra_body: Mapping[str, Any], shots: Sequence[Shot] = ()):
    self.model, self.prompt, self.shots = model, prompt, tuple(shots)
    self._extra = dict(extra_body)

  def of_picture(self, picture: Picture, language: str, by_id: bool | None = None) -> dict[str, Any]:
    """Returns the request for a caption.

    Args:
      by_id: None: the picture's bytes alone; False: bytes and id; True: the id alone.
    """
    text = self.prompt.of(language)
    turns: list[Message] = []
    for shot in self.shots:
      turns += [
        _user(_image(shot.picture, by_id), text),
        {"role": "assistant", "content": shot.captions[language]},
      ]
    return self._request([*turns, _user(_image(picture, by_id), text)])

  def of_all(self, picture: Picture, languages: Sequence[str]) -> dict[str, Any]:
    """Returns the request for a JSON object of captions in several languages."""
    text = self.prompt.of_all(languages)
    turns: list[Message] = []
    for shot in self.shots:
      captions = {language: shot.captions[language] for language in languages}
      turns += [
        _user(_image(shot.picture), text),
        {"role": "assistant", "content": json.dumps(captions, ensure_ascii=False)},
      ]
    schema = {
      "type": "object",
      "properties": dict.fromkeys(languages, {"type": "string"}),
      "required": list(languages),
      "additionalProperties": False,
    }
    return {
      **self._request([*turns, _user(_image(picture), text)]),
      "max_tokens": self.prompt.max_tokens * len(languages),
      "response_format": {
        "type": "json_schema",
        "json_schema": {"name": "captions", "strict": True, "schema": schema},
      },
    }

  def of_translation(self, caption: str, language: str, source: str = "en") -> dict[str, Any]:
    """Returns the request for the translation of a caption from its language, `source`, into another."""
    return self._request([{"role": "user", "content": self.prompt.translation_of(caption, language, source)}])

  def identity(self, request: Mapping[str, Any], picture: Picture | None) -> dict[str, Any]:
    """Returns what decides the answer of a request made by `of_picture` with bytes, by `of_all` or by `of_translation`.

    It has the ids of pictures in the place of their bytes, and how pictures were encoded.
    """
    urls = {
      shown.url: shown.id
      for shown in (*(shot.picture for shot in self.shots), *([picture] if picture else []))
    }
    messages = [
      {**message, "content": _without_bytes(message["content"], urls)} for message in request["messages"]
    ]
    encoding = {"pictures": ENCODING} if picture else {}
    return {**request, **self._extra, "model": self.model, "messages": messages, **encoding}

  def _request(self, messages: list[Message]) -> dict[str, Any]:
    system = [{"role": "system", "content": self.prompt.system}] if self.prompt.system else []
    return {"messages": [*system, *messages], "max_tokens": self.prompt.max_tokens, **self.prompt.parameters}


def _user(image: Message, text: str) -> Message:
  return {"role": "user", "content": [image, {"type": "text", "text": text}]}


def _image(picture: Picture, by_id: bool | None = None) -> Message:
  content: Message = {"type": "image_url", "image_url": None if by_id else {"url": picture.url}}
  return content if by_id is None else {**content, "uuid": picture.id}


def _without_bytes(content: Any, urls: Mapping[str, str]) -> Any:
  if isinstance(content, str):
    return content
  return [
    {"type": "image_url", "id": urls[part["image_url"]["url"]]} if part["type"] == "image_url" else part
    for part in content
  ]
