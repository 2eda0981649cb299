"""Work grows with its input and not with its square: a lint for counting in loops, and counts of work at n and 2n."""

import ast
import functools
import json
import pathlib

import pytest

import xmcap
from tests.make import work
from xmcap import languages, wording
from xmcap.corpora.releases import babel_labels
from xmcap.errors import XmcapError
from xmcap.human import fields
from xmcap.reading import rows, tag_files
from xmcap.serving.model import ServedModel

ROOT = pathlib.Path(xmcap.__file__).parent
_MODULES = ("wording", "importing", "duplicates", "itertools", "self.maker", "failed_requests")
_LOOPS = (ast.For, ast.While, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_ALLOWED = {
  "xmcap/corpora/checking/check.py: source.files.index": "files of a split, each of a gigabyte",
  "xmcap/evaluation/embed.py: of_record.index": "languages of a record",
  "xmcap/human/annotation_ratings.py: RATINGS.index": "six ratings",
  "xmcap/planning/step.py: 'KMGT'.index": "four letters",
  "xmcap/ranked/openai_english.py: text.count": "each text once",
  "xmcap/ranked/prompts.py: prompt.count": "each text once",
  "xmcap/ranked/page.py: result.statistics[language].keys.index": "20 guesses of a picture",
  "xmcap/scoring/language.py: own[of_image].index": "references of a picture",
  "xmcap/scoring/residue/mojibake.py: _ALL.index": "encodings",
  "xmcap/scoring/tokenizers/variants.py: here.count": "each pair of spellings",
  "xmcap/scoring/tokenizers/variants.py: there.count": "each pair of spellings",
  "xmcap/commands/doctor.py: asked['kinds'].count": "devices of a machine",
  "xmcap/corpora/folder/language_sample.py: codes.index": "36 languages",
  "xmcap/grid.py: self.headings.index": "columns of a table that is shown",
  "xmcap/human/sxs.py: sides.count": "two sides",
  "xmcap/pages/report/heat_map.py: names.index": "systems of a page",
  "xmcap/scoring/residue/cleaning.py: affix.count": "six quotation marks",
}
"""Counting in a loop that is no growth, and what there is few of."""


def counting(tree):
  """Yields (receiver, method) of each `x.count(y)` and `x.index(y)` in a loop that does not make `x` itself."""
  for loop in (node for node in ast.walk(tree) if isinstance(node, _LOOPS)):
    again = loop.body if isinstance(loop, ast.For | ast.While) else [loop]
    if isinstance(loop, ast.While):
      again = [*again, loop.test]
    first = loop.generators[0].iter if hasattr(loop, "generators") else None
    once = set(ast.walk(first)) if first is not None else set()
    # What leaves the loop runs once, too.
    ends = [node for part in again for node in ast.walk(part) if isinstance(node, ast.Return | ast.Raise)]
    once |= {node for end in ends for node in ast.walk(end)}
    for node in (inner for part in again for inner in ast.walk(part) if inner not in once):
      is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args
      if is_call and node.func.attr in ("count", "index") and not isinstance(node.args[0], ast.Constant):
        receiver = ast.unparse(node.func.value)
        if receiver not in (
          "wording",
          "importing",
          "duplicates",
          "itertools",
          "self.maker",
          "failed_requests",
        ):
          yield f"{receiver}.{node.func.attr}"


def test_nothing_is_counted_in_a_loop():
  calls = {
    f"{path.relative_to(ROOT.parent).as_posix()}: {call}"
    for path in sorted(ROOT.rglob("*.py"))
    for call in counting(ast.parse(path.read_text(encoding="utf-8")))
  }
  assert sorted(calls - _ALLOWED.keys()) == []  # wording.repeated, collections.Counter or a dict of places
  assert sorted(_ALLOWED.keys() - calls) == []


@pytest.mark.parametrize(
  "text, calls",
  [
    ("[x for x in names if names.count(x) > 1]", ["names.count"]),
    ("for x in names:\n  places.append(names.index(x))", ["names.index"]),
    ("{names.count(x) for x in names}", ["names.count"]),
    ("[x for x in range(names.count(y))]", []),
    ("for x in names:\n  lines += x.count('\\n')", []),
    ("for x in names:\n  if x:\n    return names.index(x)", []),
  ],
)
def test_counting_in_a_loop_is_found(text, calls):
  assert list(counting(ast.parse(text))) == calls


class Text(str):
  """A text that counts how often it is compared."""

  compared = 0
  __slots__ = ()
  __hash__ = str.__hash__

  def __eq__(self, other):
    Text.compared += 1
    return str.__eq__(self, other)


def names(count):
  return [Text(f"t{number}") for number in range(count)] + [Text("t0")]


def refused(call, *arguments):
  with pytest.raises(XmcapError):
    call(*arguments)


def tags(folder, count):
  path = folder / "tags.jsonl"
  path.write_text(json.dumps({"key": "a", "language": "en", "tags": [*map(str, names(count))]}) + "\n")
  return functools.partial(refused, tag_files.read, path)


def columns(folder, count):
  path = folder / "table.csv"
  path.write_text(",".join(names(count)) + "\n")
  return functools.partial(refused, fields.read_csv, path, ("t0",))


def csv_headings(folder, count):
  path = folder / "captions.csv"
  path.write_text(",".join(names(count)) + "\n")

  def read():
    with rows.opened(path) as source:
      list(rows.of(source).rows)

  return functools.partial(refused, read)


def senses(folder, count):
  of_languages = [babel_labels.Sense(f"L{number}", "y", "WN", False, "n00000001") for number in range(count)]
  english = babel_labels.Sense("EN", "x", "WN", False, "n00000001")
  wnids = [f"n{number:08d}" for number in range(200)]
  return lambda: babel_labels.make([english, *of_languages], wnids)


def query(folder, count):
  model = ServedModel("model", 8, {"greedy": None})
  return functools.partial(refused, model.languages_of, ",".join(["en"] * count))


def query_of_tags(folder, count):
  model = ServedModel("model", 8, {"greedy": None})
  return functools.partial(refused, model.languages_of, ",".join(f"aa-{n:03d}" for n in range(count)))


GROWING = {
  "names": lambda folder, count: functools.partial(wording.repeated, names(count)),
  "codes": lambda folder, count: functools.partial(refused, languages.parse, ",".join(["en"] * count)),
  "tags": tags,
  "columns": columns,
  "headings of captions": csv_headings,
  "languages of senses": senses,
  "languages of a query": query,
  "unknown languages of a query": query_of_tags,
}


@pytest.mark.parametrize("name", GROWING)
def test_twice_the_input_takes_at_most_twice_the_work(tmp_path, name):
  counts = []
  for count in (300, 300, 600):  # the first fills caches
    Text.compared = 0
    call = GROWING[name](tmp_path, count)
    counts.append(work.lines_run(call) + Text.compared)
  assert counts[2] <= 2.3 * counts[1]
