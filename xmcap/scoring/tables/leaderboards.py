"""A table as others collect scores: `.eval_results` of the Hugging Face Hub, and records of Every Eval Ever.

Formats: huggingface/hub-docs, eval_results.yaml and docs/hub/eval-results.md (242f4a1e); evaleval/every_eval_ever,
eval.schema.json 0.3.0 and its checks before a merge (9bce4136). Scores are at the table's scale, as in `table.json`,
and say from what to what they go.
"""

import datetime
import hashlib
import json
import os
import re
import uuid
from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from xmcap import languages
from xmcap.errors import UsageError
from xmcap.reading import jsonl, provenance
from xmcap.scoring import metrics
from xmcap.scoring.tables.score_table import Interval, Table, mean_label
from xmcap.scoring.tables.signature import METRIC, Signature
from xmcap.terminal import shown

_REPOSITORY = re.compile(r"[\w.-]*[\w-]/[\w.-]*[\w-]", re.ASCII)
_TYPED = {**dict.fromkeys(("temperature", "top_p", "top_k"), (int, float)), "max_tokens": (int,)}
"""Parameters that Every Eval Ever has fields for -> their types."""


class _Prompt(msgspec.Struct):
  name: str
  text: str
  texts: dict[str, str]
  max_tokens: int
  parameters: dict[str, Any]


class Generation(msgspec.Struct):
  """How captions were made: the part of their provenance that is told; with nothing in it, if it is not known."""

  ended: datetime.datetime | None = None
  strategy: str = ""
  prompt: _Prompt | None = None
  shots: list[str] = []
  extra_body: dict[str, Any] = {}

  @classmethod
  def read(cls, table: Table, captions: str | os.PathLike) -> "Generation":
    """Reads the provenance beside captions; UsageError if there is none, or the table is of another captioner."""
    captioner = provenance.captioner([captions])
    scored = Signature.parse(table.signature).parts.get("captioner")
    if not captioner or captioner != scored:
      raise UsageError(
        f"{captions}: captions of {shown(captioner or 'no known captioner')}, but the scores are of "
        f"{shown(scored or 'captions without provenance')}: give the file that was scored, with its .provenance.json"
      )
    path = provenance.path_of(captions)
    return jsonl.convert(provenance.read(captions), cls, path, "damaged", "caption again")

  @property
  def parameters(self) -> dict[str, Any]:
    """The fields of each request, such as `temperature`."""
    own = {"max_tokens": self.prompt.max_tokens, **self.prompt.parameters} if self.prompt else {}
    return {name: value for name, value in {**own, **self.extra_body}.items() if value is not None}


UNKNOWN = Generation()


class _Score(NamedTuple):
  """A score at its table's scale; `name` and `heading` say of what, and `images` is None where languages differ."""

  name: str
  heading: str
  metric: metrics.Metric
  value: float
  bounds: Interval
  interval: Interval | None
  images: float | None
  signature: str


def _score(table: Table, row: str, name: str) -> _Score:
  metric, factor, is_row = metrics.METRICS[name], table.factor(name), row in table.rows
  of = languages.get(row).english_name if is_row else f"mean over {mean_label(row)}"
  value = factor * table.scores[row][name]
  ends = table.intervals.get(row, {}).get(name)
  images = {counts.get("images") for code, counts in table.rows.items() if row in (code, *table.means)}
  parts = Signature.parse(table.signature).parts
  others = {f"{METRIC}{other}" for other in table.metrics if other != name}
  return _Score(
    row if is_row else f"mean_{row.replace(' ', '_')}",
    f"{metric.heading}, {of}",
    metric,
    value,
    (factor * metric.least, max(factor * metric.most, value)),  # rounding may exceed it
    ends and (factor * ends[0], factor * ends[1]),
    next(iter(images)) if len(images) == 1 else None,
    str(Signature({part: text for part, text in parts.items() if part not in others})),
  )


def _repository(option: str, name: str) -> tuple[str, str]:
  """Returns OWNER/NAME and a revision or ""; UsageError for a name that no repository or folder can have."""
  name, _, revision = name.partition("@")
  if not _REPOSITORY.fullmatch(name) or "data" in name.split("/"):
    raise UsageError(f"--{option}={shown(name)}: give OWNER/NAME, as on the Hugging Face Hub")
  return name, revision


def _chosen(option: str, name: str, names: Iterable[str]) -> str:
  if name not in names:
    raise UsageError(f"--{option}={shown(name)}: the table has {', '.join(names)}")
  return name


def hub(
  table: Table, dataset: str, task: str, metric: str = "", row: str = "", generation: Generation = UNKNOWN
) -> str:
  """Returns the YAML of a file in `.eval_results/` of a model's repository on the Hub.

  Args:
    table: the scores.
    dataset: OWNER/NAME of a benchmark, or OWNER/NAME@REVISION.
    task: of its eval.yaml; with `{language}` in it there is an entry for each language, else one for `row`.
    metric: "": the table's primary one.
    row: language code or mean; "": the mean over all languages.
    generation: how the captions were made.

  Raises:
    UsageError: the dataset is of no such form, the table has no such row or metric, or the task and a row disagree.
  """
  repository, revision = _repository("dataset", dataset)
  metric = _chosen("metric", metric or table.primary, table.metrics)
  if row and "{language}" in task:
    raise UsageError(f"--row={shown(row)}: --task={shown(task)} is for each language: leave out one of them")
  rows = [*table.rows] if "{language}" in task else [_chosen("row", row or [*table.means][-1], table.scores)]
  lines = []
  for of_row in rows:
    score = _score(table, of_row, metric)
    lines += [
      "- dataset:",
      f"    id: {_quoted(repository)}",
      f"    task_id: {_quoted(task.replace('{language}', of_row))}",
    ]
    lines += [f"    revision: {_quoted(revision)}"] if revision else []
    value = json.dumps(score.value)
    lines.append(
      f"  value: {value if '.' in value else value.replace('e', '.0e')}"
    )  # YAML 1.1 takes 1e-05 for a text
    lines += [f"  date: {_quoted(generation.ended.isoformat())}"] if generation.ended else []
    lines.append(f"  notes: {_quoted(_notes(score, generation))}")
  return "".join(f"{line}\n" for line in lines)


def _quoted(text: str) -> str:
  """Returns a text as YAML: JSON's form, without characters that YAML does not allow there."""
  quoted = json.dumps(text, ensure_ascii=False)
  return "".join(char if char.isprintable() else f"\\U{ord(char):08x}" for char in quoted)


def _notes(score: _Score, generation: Generation) -> str:
  parts = [score.heading, f"on a scale of {score.bounds[0]:g} to {score.bounds[1]:g}"]
  if score.interval:
    parts.append(f"95% interval {score.interval[0]:.6g} to {score.interval[1]:.6g}")
  if score.images:
    parts.append(f"{score.images:,} images{' a language' if score.name.startswith('mean_') else ''}")
  parts += [f"{name}={json.dumps(value)}" for name, value in generation.parameters.items()]
  return "; ".join([*parts, score.signature])


def record(
  table: Table, model: str, dataset: str, organization: str, relationship: str, now: int,
  generation: Generation = UNKNOWN,
) -> tuple[str, str]:  # fmt: skip
  """Returns (path, JSON) of a record of Every Eval Ever: all scores of a table, languages and means.

  The path is `data/NAME/DEVELOPER/MODEL/UUID.json`; equal scores have equal paths. A metric is called `xmcap.METRIC`:
  the words of a language decide the score, so that the same metric elsewhere is another number.

  Args:
    table: the scores.
    model: DEVELOPER/MODEL, as on the Hub.
    dataset: OWNER/NAME of the Hub, or OWNER/NAME@REVISION.
    organization: who publishes the scores.
    relationship: of the evaluator to the model: first_party, third_party, collaborative or other.
    now: seconds since 1970.
    generation: how the captions were made.

  Raises:
    UsageError: the model or the dataset is of no such form.
  """
  repository, revision = _repository("dataset", dataset)
  model, _ = _repository("model", model)
  name = repository.partition("/")[2]
  digest = hashlib.sha256(json.dumps([model, dataset, table.as_json()]).encode()).digest()
  parts = Signature.parse(table.signature).parts
  source_data = {
    "dataset_name": name, "source_type": "hf_dataset", "hf_repo": repository,
    "additional_details": {"revision": revision or "unknown"},
  }  # fmt: skip
  value = {
    "schema_version": "0.3.0",
    "evaluation_id": f"{name}/{model}/{digest.hex()[:16]}",
    "retrieved_timestamp": str(now),
    **({"evaluation_timestamp": f"{generation.ended.timestamp():.0f}"} if generation.ended else {}),
    "source_metadata": {
      "source_name": "xmcap", "source_type": "evaluation_run", "source_organization_name": organization,
      "evaluator_relationship": relationship,
    },
    "eval_library": {
      "name": "xmcap", "version": parts["xmcap"],
      "additional_details": {"signature": table.signature, "notes": "\n".join(table.notes)},
    },
    "model_info": {
      "name": model, "id": model, "developer": model.partition("/")[0],
      "additional_details": {"deployment_type": "unknown", "model_availability": "unknown"},
    },
    "evaluation_results": [
      {
        "evaluation_name": f"{name}.{score.name}", "source_data": source_data,
        **_result(score, parts.get("bootstrap", "")),
        **_generation_config(row, generation),
      }
      for row in table.scores
      for score in (_score(table, row, metric) for metric in table.metrics)
    ],
  }  # fmt: skip
  path = f"data/{name}/{model}/{uuid.UUID(bytes=digest[:16], version=4)}.json"
  return path, json.dumps(value, ensure_ascii=False, indent=2, allow_nan=False) + "\n"


def _result(score: _Score, bootstrap: str) -> dict[str, Any]:
  uncertainty: dict[str, Any] = {"num_samples": score.images} if score.images else {}
  if score.interval:
    uncertainty["confidence_interval"] = {
      "lower": score.interval[0], "upper": score.interval[1], "confidence_level": 0.95,
      "method": f"bootstrap:{bootstrap}",
    }  # fmt: skip
  return {
    "metric_config": {
      "evaluation_description": score.heading, "metric_id": f"xmcap.{score.metric.name}",
      "metric_name": score.metric.heading, "metric_unit": "proportion" if score.metric.percent else "points",
      "metric_parameters": {"signature": score.signature}, "lower_is_better": False, "score_type": "continuous",
      "min_score": score.bounds[0], "max_score": score.bounds[1],
    },
    "score_details": {"score": score.value, "details": {"of": score.name}, "uncertainty": uncertainty},
  }  # fmt: skip


def _generation_config(row: str, generation: Generation) -> dict[str, Any]:
  if not (prompt := generation.prompt):
    return {}
  args: dict[str, Any] = {"prompt_template": prompt.texts.get(row, prompt.text)}
  others = {"prompt": prompt.name, "strategy": generation.strategy, "shots": str(len(generation.shots))}
  for name, value in generation.parameters.items():
    if type(value) in _TYPED.get(name, ()):
      args[name] = value
    else:
      others[name] = json.dumps(value)
  return {"generation_config": {"generation_args": args, "additional_details": others}}
