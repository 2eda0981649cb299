"""The OpenAPI description of the endpoints."""

from collections.abc import Mapping
from typing import Any

from xmcap import __version__
from xmcap.reading import image_formats
from xmcap.serving.limits import Limits
from xmcap.serving.model import ServedModel

OF_DRAWS = {"temperature": (float, 0.01, 100), "seed": (int, 0, 2**32 - 1)}
"""Parameters of searches that sample captions: type, smallest and largest value."""

_JSON = "application/json"
_REFUSALS = {
  400: "a parameter is wrong, or the body is empty",
  403: "the request comes from a page of another origin",
  408: "the body arrived too slowly",
  413: "the body is too large",
  415: "the body is a form, JSON or base64, and not the picture's file itself",
  422: "the body cannot be decoded as a picture, or has too many pixels",
  429: "too many requests are in progress; Retry-After says when to try again",
  500: "captioning failed",
  503: "the search is not compiled yet, or there is not enough memory to decode the picture; Retry-After",
  504: "captioning took too long",
}


def document(model: ServedModel, limits: Limits) -> Mapping[str, Any]:
  """OpenAPI 3.1 of a server."""
  searches = list(model.searches)
  image = {"type": "string", "format": "binary", "maxLength": limits.upload_bytes}
  noun = "one language" if len(model.offered) == 1 else f"{len(model.offered)} languages"
  formats = (*image_formats.FORMATS, *image_formats.optional_formats())
  images = (*(f"image/{name.lower()}" for name in formats), "application/octet-stream")
  captions = {
    "summary": "Captions a picture",
    "description": (
      "The body is the picture's file, whose type is detected from its bytes. With stream=true each caption is sent as "
      "a line of JSON, {language, caption}, when it is decoded; if an error follows, the last line is {error}. A line"
      " {warning} comes first if the model was not trained on some of the languages, and after the captions if the "
      "picture may be unlike those that the model knows (only with greedy search)."
    ),
    "parameters": [
      _parameter(
        "languages",
        "codes separated by commas; or trained: those that the model was trained on; or all: those that are offered",
        {"type": "string"},
        ",".join(model.unasked),
      ),
      _parameter("search", "how captions are decoded", {"enum": searches}, searches[0]),
      _parameter(
        "temperature", "of a search that samples captions: divides the logits", _numbers("temperature"), 1
      ),
      _parameter("seed", "of such a search: the same seed gives the same captions", _numbers("seed")),
      _parameter("stream", "send each caption when it is decoded", {"type": "boolean"}, False),
    ],
    "requestBody": {"required": True, "content": {kind: {"schema": image} for kind in images}},
    "responses": {
      "200": {
        "description": "the captions",
        "content": {
          _JSON: {"schema": _ref("Captions")},
          "application/x-ndjson": {
            "schema": {"oneOf": [_ref(name) for name in ("Caption", "Warning", "Error")]}
          },
        },
      },
      **{
        str(status): {"description": words, "content": {_JSON: {"schema": _ref("Error")}}}
        for status, words in _REFUSALS.items()
      },
    },
  }
  chat = {
    "summary": "Captions a picture, as a chat completion of OpenAI's API",
    "description": (
      "One message of the user, with one picture as image_url, a data URL, and a text that names one language, unless "
      "the field `language` has its code. temperature above 0 and seed are for a search that samples captions; "
      "max_tokens and max_completion_tokens cut the caption. Fields that would change it otherwise are refused. An "
      "error is {error: {message, type, param, code}}."
    ),
    "requestBody": {"required": True, "content": {_JSON: {"schema": _ref("Chat")}}},
    "responses": {
      "200": {
        "description": "the caption; usage counts its tokens, and none of the prompt, which the model does not read",
        "content": {
          _JSON: {"schema": {"type": "object"}},
          "text/event-stream": {"schema": {"type": "string"}},
        },
      },
      **{
        str(status): {"description": words, "content": {_JSON: {"schema": {"type": "object"}}}}
        for status, words in sorted({**_REFUSALS, 404: "there is no such model"}.items())
      },
    },
  }
  return {
    "openapi": "3.1.0",
    "info": {"title": "xmcap", "version": __version__, "description": f"Captions of pictures in {noun}"},
    "paths": {
      "/v1/captions": {"post": captions},
      "/v1/chat/completions": {"post": chat},
      "/v1/models": {
        "get": _get("The model and its languages, as OpenAI's API lists models", _JSON, {"type": "object"})
      },
      "/v1/model": {
        "get": _get(
          "The model, its languages and searches, the limits, and how far the start is",
          _JSON,
          {"type": "object"},
        )
      },
      "/health": {
        "get": _get(
          "Whether the server accepts requests; 503 while it starts or stops", _JSON, _ref("Health")
        )
      },
      "/metrics": {"get": _get("Metrics for Prometheus", "text/plain", {"type": "string"})},
    },
    "components": {
      "schemas": {
        "Captions": {
          **_object(
            search={"enum": searches},
            captions={"type": "object", "additionalProperties": {"type": "string"}},
            warning={"type": "string"},
          ),
          "required": ["search", "captions"],
        },
        "Caption": _object(language={"enum": [*model.trained, *model.untrained]}, caption={"type": "string"}),
        "Warning": _object(warning={"type": "string"}),
        "Chat": {
          **_object(
            messages={"type": "array", "items": {"type": "object"}},
            model={"enum": [model.name]},
            language={"enum": [*model.trained, *model.untrained]},
            temperature={"anyOf": [{"const": 0}, _numbers("temperature")]},
            seed=_numbers("seed"),
            max_tokens={"type": "integer", "minimum": 1},
            max_completion_tokens={"type": "integer", "minimum": 1},
            stream={"type": "boolean"},
          ),
          "required": ["messages"],
        },
        "Error": _object(error={"type": "string"}),
        "Health": _object(status={"enum": ["starting", "ready", "stopping"]}),
      }
    },
  }


def _parameter(name: str, words: str, schema: Mapping[str, Any], default: Any = None) -> Mapping[str, Any]:
  schema = schema if default is None else {**schema, "default": default}
  return {"name": name, "in": "query", "description": words, "schema": schema}


def _numbers(name: str) -> Mapping[str, Any]:
  kind, least, most = OF_DRAWS[name]
  return {"type": "integer" if kind is int else "number", "minimum": least, "maximum": most}


def _get(summary: str, media_type: str, schema: Mapping[str, Any]) -> Mapping[str, Any]:
  response = {"description": summary, "content": {media_type: {"schema": schema}}}
  return {"summary": summary, "responses": {"200": response}}


def _object(**properties: Mapping[str, Any]) -> Mapping[str, Any]:
  return {"type": "object", "required": list(properties), "properties": properties}


def _ref(name: str) -> Mapping[str, str]:
  return {"$ref": f"#/components/schemas/{name}"}
