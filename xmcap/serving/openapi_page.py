"""The OpenAPI description as a page, made of the same document: it needs no script and no network."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from xmcap.pages.report.elements import escape, tag

_HEAD = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Endpoints – xmcap</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="page.css">
</head>
<body>
<main>
"""


def page(document: Mapping[str, Any]) -> str:
  """Returns HTML that lists each endpoint, its parameters, bodies and answers; `document` is OpenAPI 3.1."""
  title = tag("h1", "Endpoints of this server")
  about = f"{escape(document['info']['description'])}; for programs: {tag('a', 'openapi.json', href='openapi.json')}."
  head = tag("header", f"{title}\n{tag('p', about, class_='lede')}", class_="page-head")
  sections = [
    "\n".join(_endpoint(path, method, described))
    for path, methods in document["paths"].items()
    for method, described in methods.items()
  ]
  schemas = document["components"]["schemas"]
  rows = [(tag("code", name), _schema(schema)) for name, schema in schemas.items()]
  sections.append(f"{tag('h2', 'JSON objects')}\n{_table(('object', 'fields'), rows)}")
  return "\n".join(
    [_HEAD, head, *(tag("section", section) for section in sections), "</main>\n</body>\n</html>\n"]
  )


def _endpoint(path: str, method: str, described: Mapping[str, Any]) -> Iterator[str]:
  yield tag("h2", f"{method.upper()} {escape(path)}", id=f"{method}{path.replace('/', '-')}")
  yield tag("p", escape(described["summary"]), class_="strong")
  if "description" in described:
    yield tag("p", escape(described["description"]))
  if body := described.get("requestBody"):
    yield tag("p", f"Body: {_contents(body['content'])}")
    if "parameters" in described:
      yield tag("pre", escape(f'curl --data-binary @photo.jpg "http://THIS_SERVER{path}"'))
  parameters = [
    (tag("code", escape(of["name"])), escape(of["description"]), _schema(of["schema"]))
    for of in described.get("parameters", ())
  ]
  if parameters:
    yield _table(("parameter", "meaning", "value"), parameters)
  answers = [
    (status, escape(of["description"]), _contents(of["content"]))
    for status, of in described["responses"].items()
  ]
  yield _table(("status", "meaning", "body"), answers)


def _contents(content: Mapping[str, Any]) -> str:
  """Returns the types of a body, in the words of their schema, as HTML."""
  by_schema: dict[str, list[str]] = {}
  for kind, of_kind in content.items():
    by_schema.setdefault(_schema(of_kind["schema"]), []).append(escape(kind))
  return "; ".join(f"{', '.join(kinds)} ({schema})" for schema, kinds in by_schema.items())


def _schema(schema: Mapping[str, Any]) -> str:
  """Returns a schema in a few words, as HTML."""
  if "$ref" in schema:
    return tag("code", escape(schema["$ref"].rpartition("/")[2]))
  if "properties" in schema:
    fields = (f"{tag('code', escape(name))}: {_schema(of)}" for name, of in schema["properties"].items())
    return "<br>".join(fields)
  if choices := schema.get("oneOf") or schema.get("anyOf"):
    return " or ".join(map(_schema, choices))
  words = [escape(schema.get("format", "") or schema.get("type", ""))]
  words += [f"{_words(schema['minimum'])} to {_words(schema['maximum'])}"] if "maximum" in schema else []
  words += [f"from {_words(schema['minimum'])}"] if "minimum" in schema and "maximum" not in schema else []
  words += [f"at most {schema['maxLength']:,} bytes"] if "maxLength" in schema else []
  words += [" or ".join(map(_words, schema["enum"]))] if "enum" in schema else []
  words += [_words(schema["const"])] if "const" in schema else []
  words += [f"default {_words(schema['default'])}"] if "default" in schema else []
  return ", ".join(filter(None, words))


def _words(value: Any) -> str:
  return escape(value if isinstance(value, str) else json.dumps(value))


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
  """Returns a table of cells in HTML, which a narrow window scrolls by itself."""
  head = tag("tr", "".join(tag("th", heading, scope="col") for heading in headings))
  body = "\n".join(tag("tr", "".join(tag("td", cell) for cell in row)) for row in rows)
  return tag("div", tag("table", f"{head}\n{body}"), class_="endpoints")
