"""`xmcap train --dry_run`: checks everything about a run that can be checked before a pod is paid for.

It uses the gin configuration of `loop.train`, as the run would, and prints a line for each check: `ok`, `FAILED` with
the reason, or `skipped` with what is missing. A failure does not stop the other checks, and nothing is left in the
model folder.
"""

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import gin
import jax
from jax.sharding import Mesh

from xmcap import configuration
from xmcap.corpora.checking import preflight
from xmcap.data import epochs, registry
from xmcap.data.vocabulary import check_rows
from xmcap.dry_run import first_step, starting_state, trial_checkpoint
from xmcap.dry_run.report import DryRunReport
from xmcap.errors import UsageError
from xmcap.evaluation import model_dir
from xmcap.evaluation import predictor as predictor_lib  # noqa: F401  registers Predictor, whose batch is made small here
from xmcap.training import sharding
from xmcap.training.checkpoints import settings as settings_lib
from xmcap.training.run_arguments import Arguments, Once, check_batch
from xmcap.training.state import StatePlan, plan_state

_PICTURES = 2  # per evaluator
_MANY = 1_000_000  # steps of a run whose number is unknown
_STEPS = 128  # from which the mix of target lengths is estimated


def dry_run(say: Callable[[str], None] = print, from_scratch: bool = False, other_data: bool = False) -> None:
  """Checks the run that is configured in gin; see `start.starting_state` for `from_scratch` and `other_data`.

  Raises:
    UsageError: a check failed because of the command, its gin files or its data.
    XmcapError: checks failed only for other reasons.
  """
  run = Arguments()
  report = DryRunReport(say)
  vocabulary = Once(model_dir.vocabulary_of_run)
  # A small batch, whatever the run's own batch size for decoding is.
  gin.bind_parameter("Predictor.batch_size", _PICTURES)

  splits: dict[tuple[str, str], preflight.SplitSample] = {}
  stream = report.ask("data", lambda: _read_split(run["stream"](), splits), vocabulary=vocabulary.peek())
  evaluators = _make_evaluators(report, run, splits, vocabulary.peek())
  text_fits = report.ask("vocabulary", lambda: _vocabulary(vocabulary(), run, splits.values()))
  mesh = report.ask(
    "mesh", lambda: make_mesh(run["partitioning"](), run["stream"].peek(), run["microbatches"]())
  )
  model = report.ask("model", lambda: _model(run, mesh), mesh=mesh)
  total_steps = report.ask("steps", lambda: _steps(run, stream))

  def folder() -> tuple[str, bool]:
    size = 0 if model is None else run["checkpoint"]().copies(run["total_steps"]()) * model.num_bytes
    return trial_checkpoint.write_and_read(run["model_dir"](), size), True

  report.ask("model folder", folder)

  def weights() -> tuple[str, Any]:
    settings = None if stream is None else settings_lib.of_run(stream)
    own = starting_state.ReadOnlyCheckpoints(run["model_dir"](), settings, from_scratch)
    begins = {name: run[name]() for name in ("initial_checkpoint", "pretrained")}
    said = {"from_scratch": from_scratch, "other_data": other_data, "say": say}
    return starting_state.make(model, own, vocabulary.peek(), **begins, **said)

  state = report.ask("weights", weights, model=model)

  def step() -> tuple[str, Any]:
    if state is not None and hasattr(run["objective"](), "check"):
      with sharding.use(mesh, model.rules):
        run["objective"]().check(state.params, stream)
    # One image per device.
    batch = first_step.batch(run["objective"](), stream, sharding.axis_size(mesh, sharding.BATCH_AXES))
    made = run["objective"](), run["optimizer"](), model, state, batch
    return first_step.take_step(*made, total_steps or _MANY, run["seed"](), run["rng_impl"]())

  after = report.ask("step", step, model=model, vocabulary=text_fits)
  measured: dict[str, float] = {}
  for name, evaluator in evaluators.items():
    metrics = report.ask(
      name,
      lambda evaluator=evaluator: first_step.evaluate(evaluator, after.weights, model, _PICTURES),
      data=evaluator,
      step=after,
    )
    measured |= metrics or {}
  best = getattr(run["checkpoint"].peek(), "best_metric", None)
  if best is not None and after is not None and None not in evaluators.values():
    report.ask("best checkpoint", lambda: _best(best, measured))
  report.end()


def make_mesh(partitioning: sharding.Partitioning, stream: Any, microbatches: int) -> tuple[str, Mesh]:
  """Returns a text and the run's mesh; if it needs more devices than there are, a mesh of the available ones.

  The rows that each process of a pod will feed depend on the slice; `xmcap plan --topology` lists them.

  Raises:
    UsageError: there is no such mesh, or the batch cannot be split evenly over it and into microbatches.
  """
  partitioning.logical_rules()
  sizes = {axis: getattr(partitioning, axis) for axis in sharding.MESH_AXES}
  needed = math.prod(count for count in sizes.values() if count != -1)
  devices = len(jax.devices())
  here = f"{devices} device{'' if devices == 1 else 's'} here"
  try:
    mesh = partitioning.mesh()
    sizes, text = mesh.shape, f"{here}: {_shape(mesh.shape)}"
  except UsageError:
    if needed <= devices:
      raise
    mesh = dataclasses.replace(partitioning, data=-1, fsdp=1, model=1).mesh()
    amount = f"a multiple of {needed}" if -1 in sizes.values() else str(needed)
    text = f"{_shape(sizes)} needs {amount} devices, which the pod must have; one step is tried on {here}"
  if hasattr(stream, "num_images"):
    # An axis that takes all remaining devices counts as 1.
    groups = math.prod(max(1, sizes[axis]) for axis in sharding.BATCH_AXES)
    check_batch(stream.num_images, groups, microbatches)
  return text, mesh


def _shape(sizes: Mapping[str, int]) -> str:
  return " x ".join(f"{axis} {sizes[axis]}" for axis in sharding.MESH_AXES)


def _read_split(stream: Any, splits: dict, all_languages: bool = True) -> tuple[str, Any]:
  """Samples a split and adds it to `splits`; the value is the stream."""
  if not hasattr(stream, "source"):
    return "a custom stream: its files are not checked", stream
  source = stream.source
  split = splits[source.directory, source.split] = preflight.read_split(stream)
  looked = f"{split.looked_at:,} of {split.images:,} pictures of {source.split}"
  if split.missing and all_languages:
    raise UsageError(
      f"{source.directory}, split '{source.split}': no caption in {' '.join(split.missing)} in {looked}: "
      "build it with these languages, or use a mixture without them"
    )
  text = f"{source.directory}: {looked} read, including the first and the last"
  if hasattr(stream, "target_lengths"):
    longest = stream.target_lengths[-1]
    if stabilizer := getattr(stream, "stabilizer", None):
      longest -= stabilizer.length  # what remains for the caption
    cut = preflight.cut_share(stream.vocabulary, split.captions, longest)
    none = f", none in {' '.join(split.missing)}" if split.missing else ""
    text += f"; captions in {len(stream.languages) - len(split.missing)} languages{none}"
    text += f"; {cut:.1%} are truncated to {longest} tokens"
  return text, stream


def _make_evaluators(report: DryRunReport, run: Arguments, splits: dict, vocabulary: Any) -> dict[str, Any]:
  """Name of the check -> evaluator; None if it cannot be made or has no data."""
  evaluators = {}
  for number, bound in enumerate(run.unresolved("evaluators"), 1):
    kind = getattr(bound, "selector", type(bound).__name__).rsplit(".", 1)[-1]
    name = f"evaluator {number} ({kind})"
    made = Once(lambda bound=bound: configuration.resolve(bound))
    if vocabulary is None:
      evaluators[name] = None
      continue
    if made.peek() is None:
      evaluators[name] = report.ask(name, made)
      continue
    stream = getattr(made(), "stream", None)
    source = getattr(stream, "source", None)
    if source is None or (source.directory, source.split) in splits:
      evaluators[name] = made()
      continue
    # A few images may lack a rare language, so that is reported but not an error.
    sample = report.ask(
      f"data of {name}", lambda stream=stream: _read_split(stream, splits, all_languages=False)
    )
    evaluators[name] = made() if sample is not None else None
  return evaluators


def _vocabulary(vocabulary: Any, run: Arguments, splits: Iterable[preflight.SplitSample]) -> tuple[str, bool]:
  if vocabulary is None:
    return "no corpus: the tower's own tokenizer reads the texts", True
  rows = model_dir.text_rows(run["objective"].peek())
  if rows is None:
    return f"{vocabulary.path}: {vocabulary.size:,} tokens; the model has no text part", True
  check_rows(vocabulary, rows)
  model_dir.check_pretrained(vocabulary, run["pretrained"].peek() or ())
  mixture = registry.registration(configuration.macro("MIXTURE"))
  languages = getattr(run["stream"].peek(), "languages", tuple(mixture.rates))
  captions = {language: texts for split in splits for language, texts in split.captions.items()}
  preflight.check_vocabulary(vocabulary, languages, captions)
  return (
    f"{vocabulary.path}: {vocabulary.size:,} tokens for {rows:,} rows; text in {len(languages)} languages round-trips"
  ), True


def _model(run: Arguments, mesh: Mesh) -> tuple[str, StatePlan]:
  objective, optimizer = run["objective"](), run["optimizer"]()
  batch = first_step.shapes(objective, run["stream"].peek())
  rules = run["partitioning"]().logical_rules()
  plan = plan_state(objective, optimizer, batch, mesh, rules, run["seed"](), run["rng_impl"]())
  learning, _ = optimizer.split(plan.target.params)
  trained = dataclasses.replace(plan, target=plan.target.replace(params=learning)).num_parameters
  learn = "all" if trained == plan.num_parameters else f"{trained:,}"
  return f"{plan.num_parameters:,} parameters, {learn} of them trained", plan


def _steps(run: Arguments, stream: Any) -> tuple[str, int]:
  total, log_every, eval_every = run["total_steps"](), run["log_every"](), run["eval_every"]()
  if total < 1 or log_every < 1 or eval_every < 0:
    raise UsageError("total_steps and log_every must be at least 1, and eval_every at least 0")
  policy = run["checkpoint"]()
  often = {"checkpoints": policy.every, "evaluations": eval_every}
  said = [f"{name} every {every:,}" if every else f"{name} at the end" for name, every in often.items()]
  if policy.minutes:
    said[0] += f", or {policy.minutes:g} minutes"
  optimizer = run["optimizer"].peek()
  if optimizer is not None:
    first, last = (float(optimizer.schedule(step, total)) for step in (0, total - 1))
    said.append(f"rate {first:.3g} at the first step, {last:.3g} at the last")
  if hasattr(stream, "source"):
    said += _data_of_steps(stream, total, run["microbatches"]())
  return "; ".join([f"{total:,}", *said]), total


def _data_of_steps(stream: Any, total: int, parts: int) -> list[str]:
  """Describes the batches, and how much of the data `total` steps see."""
  captions, examples = epochs.batch_size(stream), epochs.examples(stream)
  per_image = getattr(stream, "captions_per_image", 0)
  kind = "captions" if per_image else "pictures"
  batch = f"batches of {captions:,} {kind}" + (
    f", {per_image} for each of {stream.num_images:,} pictures" if per_image else ""
  )
  said = [batch + (f", in {parts} microbatches" if parts > 1 else "")]
  if len(getattr(stream, "target_lengths", ())) > 1:
    shares = [f"{length} tokens in {share:.0%}" for length, share in stream.mix_of_lengths(_STEPS).items()]
    said.append(f"targets of {', '.join(shares)} of the steps")
  often = [f"{times:.1f} times" for times in stream.order.seen(total * stream.num_images)]
  if len(often) > 1:
    names = [part.name for part in stream.parts]
    often = [f"{times} ({name})" for times, name in zip(often, names, strict=True)]
  said.append(
    f"{total * captions / examples:.2f} epochs of {examples:,} {kind}; each picture is seen {', '.join(often)}"
  )
  return said


def _best(name: str, measured: Mapping[str, float]) -> tuple[str, bool]:
  if name not in measured:
    names = ", ".join(sorted(measured)) or "nothing"
    raise UsageError(f"CheckpointPolicy.best_metric is {name!r}, but the evaluators measured {names}")
  return f"by {name}", True
