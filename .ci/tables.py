"""Prints tables of the docs that come from the code, as JSON of name -> Markdown; `docs_hook.py` puts them into pages.

usage: python .ci/tables.py
"""

import csv
import inspect
import json
import pathlib
import re
import runpy
import sys
import tomllib
from collections.abc import Iterable, Sequence

ROOT = pathlib.Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]


def extras() -> str:
  """Each extra of setup.py with its purpose, which a comment above it gives, and its packages."""
  from tests import setup_py

  purposes = dict(
    re.findall(r"^ *# (\w+): (.+)$", (ROOT / "setup.py").read_text(encoding="utf-8"), re.MULTILINE)
  )
  asked = {
    name: [f"{one.name}[{','.join(one.extras)}]" if one.extras else one.name for one in requirements]
    for name, requirements in setup_py.extras().items()
  }
  of_train, everything = set(asked["train"]), set(asked["all"])
  rows = []
  for name, packages in asked.items():
    if name == "all":
      continue
    beyond = packages if name == "train" else [one for one in packages if one not in of_train]
    shown = ", ".join(dict.fromkeys(beyond or packages))
    rows.append((f"`{name}`", purposes[name], shown, "yes" if set(packages) <= everything else ""))
  return _table(("extra", "for", "packages", "in `all`"), rows)


def languages() -> str:
  """The 36 languages."""
  from xmcap.languages import LANGUAGES

  return _table(
    ("code", "name", "its own name", "script", "group"),
    [
      (f"`{one.code}`", one.english_name, one.native_name, one.script, one.group.replace("_", " "))
      for one in LANGUAGES.values()
    ],
  )


def metrics() -> str:
  """The metrics of captions, with their docstrings."""
  from xmcap.scoring.metrics import CAPTION_METRICS

  names: dict[type, list[str]] = {}
  for name, metric in CAPTION_METRICS.items():
    names.setdefault(type(metric), []).append(f"`{name}`")
  return _table(
    ("name", "definition"), [(", ".join(of_kind), _definition(kind)) for kind, of_kind in names.items()]
  )


def numbers() -> str:
  """The numbers that a run writes."""
  from xmcap.training.reporting.metric_names import NAMES

  rows = [(", ".join(f"`{one}`" for one in names.split(", ")), text) for names, text in NAMES.items()]
  return _table(("name", "what it is"), rows)


def tokenizers() -> str:
  """The tokenisers, with their docstrings."""
  from xmcap.scoring.tokenizers import TOKENIZERS

  rows = [(f"`{name}`", _definition(kind)) for name, kind in TOKENIZERS.items()]
  return _table(("`--tokenizer`", "how captions become words"), rows)


def _definition(kind: type) -> str:
  """The docstring of a class without its sections."""
  text = re.split(r"\n\n(?:Attributes|Args):", inspect.getdoc(kind) or "")[0]
  return " ".join(text.split())


def protocols() -> str:
  """The protocols by which `xmcap score` scores as others do."""
  rows = []
  files = (ROOT / "xmcap/scoring/protocols").glob("*.toml")
  for file in sorted(files, key=lambda file: (file.stem != "xmcap", file.stem)):
    made = tomllib.loads(file.read_text(encoding="utf-8"))
    if "refused" not in made:
      metrics = f"{', '.join(made['metrics'])}{' times 100' if made['scale'] == 100 else ''}"
      rows.append((f"`{file.stem}`", made["title"], made["words"], made["pictures"], metrics))
  return _table(("`--protocol`", "whose numbers", "words", "pictures", "prints"), rows)


def licences() -> str:
  """The packages whose licence is not permissive."""
  made = tomllib.loads((ROOT / ".ci/licences.toml").read_text(encoding="utf-8"))
  return _table(
    ("package", "licence", "comes with"),
    [(f"`{name}`", one["licence"], one["for"]) for name, one in sorted(made.items())],
  )


def items() -> dict[str, str]:
  """Each paper's methods, experiments and tables with what works, and how many do."""
  tables, counts = {}, []
  for file in sorted((ROOT / "docs/items").glob("*.csv")):
    with file.open(encoding="utf-8", newline="") as f:
      rows = list(csv.DictReader(f))
    title = re.search(r"^# (.+)$", (ROOT / f"docs/{file.stem}.md").read_text(encoding="utf-8"), re.MULTILINE)
    states = [row["state"] for row in rows]
    counts.append((f"[{title[1]}]({file.stem}.md)", *(str(states.count(one)) for one in _STATES)))
    tables[f"items/{file.stem}"] = _table(
      ("item", "where", "how", "state"),
      [
        (
          row["item"],
          row["section"],
          ", ".join(f"`{command}`" for command in filter(None, row["command"].split("; "))),
          f"{_STATES[row['state']]}{': ' * bool(row['why'])}{row['why']}",
        )
        for row in rows
      ],
    )
  return {"items": _table(("paper", *_STATES), counts), **tables}


_STATES = {"works": "works", "partly": "**partly**", "not": "**not**"}


def measured() -> dict[str, str]:
  """The tables that come from benchmarks/results/*.json."""
  costs = runpy.run_path(str(ROOT / "benchmarks/costs.py"))
  benchmarks = runpy.run_path(str(ROOT / "benchmarks/all.py"))
  return {
    "building": costs["building"](),
    "training": costs["training"](),
    "headlines": benchmarks["headlines"](),
    "results": benchmarks["all_tables"](),
  }


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
  lines = [head, ["---"] * len(head), *rows]
  return "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |" for line in lines)


if __name__ == "__main__":
  makers = (extras, languages, licences, metrics, numbers, protocols, tokenizers)
  made = {maker.__name__: maker() for maker in makers}
  print(json.dumps(made | items() | measured(), ensure_ascii=False))
