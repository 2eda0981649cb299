"""`xmcap train --dry_run`: everything about a run that can be checked before a pod is paid for.

It takes what gin binds for `loop.train`, as the run would, and says a line a check: `ok`, `FAILED` with the reason, or
`skipped` with what it would have needed. A check that fails stops no other, and nothing stays in the model folder.
"""

from collections.abc import Callable
from typing import Any

import gin

from xmcap import configuration
from xmcap.data import epochs, tasks
from xmcap.data.checking import preflight as checks
from xmcap.dry_run import checks as dry_checks
from xmcap.dry_run import step as dry_step
from xmcap.dry_run.report import Report
from xmcap.errors import UsageError
from xmcap.evaluation import model_dir
from xmcap.evaluation import predictor as predictor_lib  # noqa: F401  registers Predictor, whose batch is made small here
from xmcap.training import sharding
from xmcap.training.checkpoints import settings as settings_lib
from xmcap.training.run_arguments import Arguments, Once
from xmcap.training.state import plan_state

_PICTURES = 2  # that an evaluator gets
_LENGTHS_OF = 128  # steps


def dry_run(say: Callable[[str], None] = print, from_scratch: bool = False, other_data: bool = False) -> None:
  """Checks the run that gin is configured for; at the end says what the run comes to.

  Args:
    say: prints a line.
    from_scratch, other_data: of the run, see `start.starting_state`.

  Raises:
    UsageError: a check failed for something in the command, its gin files or its data.
    XmcapError: checks failed, none of them for such a reason.
  """
  run = Arguments()
  report = Report(say)
  vocabulary = Once(lambda: tasks.registration(configuration.macro("MIXTURE")).corpus.vocabulary())
  # One small program, whatever the run decodes at once.
  gin.bind_parameter("Predictor.batch_size", _PICTURES)

  splits: dict[tuple[str, str], checks.SplitSample] = {}
  stream = report.check("data", lambda: _read_split(run["stream"](), splits), vocabulary=vocabulary.peek())
  evaluators = [
    _make_evaluator(report, number, bound, splits, vocabulary.peek())
    for number, bound in enumerate(run.unresolved("evaluators"), 1)
  ]
  captions = {language: texts for split in splits.values() for language, texts in split.captions.items()}
  fits = report.check(
    "vocabulary", lambda: _vocabulary(vocabulary(), run["objective"].peek(), run["stream"].peek(), captions)
  )
  mesh = report.check(
    "mesh", lambda: dry_checks.mesh(run["partitioning"](), run["stream"].peek(), run["microbatches"]())
  )

  def plan():
    objective, optimizer = run["objective"](), run["optimizer"]()
    batch = dry_step.shapes(objective, run["stream"].peek())
    rules = run["partitioning"]().logical_rules()
    planned = plan_state(objective, optimizer, batch, mesh, rules, run["seed"](), run["rng_impl"]())
    learning, _ = optimizer.split(planned.target.params)
    trained = dry_checks.size(learning)
    learn = "all" if trained == planned.num_parameters else f"{trained:,}"
    return f"{planned.num_parameters:,} parameters, {learn} of them trained", planned

  planned = report.check("model", plan, mesh=mesh)
  total_steps = report.check("steps", lambda: _steps(run))
  report.check("model folder", lambda: _folder(run, planned))
  state = report.check(
    "weights",
    lambda: dry_checks.weights(
      planned,
      dry_checks.ReadOnly(
        run["model_dir"](), None if stream is None else settings_lib.of_run(stream), from_scratch
      ),
      vocabulary.peek(),
      initial_checkpoint=run["initial_checkpoint"](),
      pretrained=run["pretrained"](),
      from_scratch=from_scratch,
      other_data=other_data,
      say=say,
    ),
    model=planned,
  )

  def step():
    # A picture a device; without data a made-up one.
    pictures = sharding.axis_size(mesh, sharding.BATCH_AXES)
    batch = dry_step.batch(run["objective"](), stream, pictures)
    arguments = run["objective"](), run["optimizer"](), planned, state, batch
    return dry_step.step(*arguments, total_steps or 1, run["seed"](), run["rng_impl"]())

  after = report.check("step", step, model=planned, vocabulary=fits)
  measured: dict[str, float] = {}
  for name, evaluator in evaluators:
    report.check(
      name,
      lambda evaluator=evaluator: dry_step.evaluator(evaluator, after.params, planned, _PICTURES, measured),
      data=evaluator,
      step=after,
    )
  best = getattr(run["checkpoint"].peek(), "best_metric", None)
  if best is not None and after is not None and all(evaluator is not None for _, evaluator in evaluators):
    report.check("best checkpoint", lambda: _best(best, measured))

  for line in _summary(run, report, stream, total_steps):
    say(line)
  report.end()


# ---- the checks of what gin binds ----------------------------------------------------------------


def _read_split(stream: Any, splits: dict, all_languages: bool = True) -> tuple[str, Any]:
  """Fills `splits`; returns the stream."""
  if not hasattr(stream, "source"):
    return "a stream of its own: nothing is known of its files", stream
  source = stream.source
  split = splits[source.directory, source.split] = checks.read_split(stream)
  looked = f"{split.looked_at:,} of {split.pictures:,} pictures of {source.split}"
  if split.missing and all_languages:
    raise UsageError(
      f"{source.directory}, split '{source.split}': no caption in {' '.join(split.missing)} in {looked}; "
      "build it with these languages, or use a mixture without them"
    )
  text = f"{source.directory}: {looked} read, the first and the last too"
  if hasattr(stream, "languages"):
    text += f"; captions in {len(stream.languages) - len(split.missing)} languages"
    text += f", none in {' '.join(split.missing)}" if split.missing else ""
    longest = stream.target_lengths[-1]
    cut = checks.cut_share(stream.vocabulary, split.captions, longest)
    text += f"; {cut:.1%} are cut at {longest} pieces"
  return text, stream


def _make_evaluator(
  report: Report, number: int, bound: Any, splits: dict, vocabulary: Any
) -> tuple[str, Any]:
  """(name of the check, the evaluator, or None if it cannot be made or has no data)."""
  kind = getattr(bound, "selector", type(bound).__name__).rsplit(".", 1)[-1]
  name = f"evaluator {number} ({kind})"
  if vocabulary is None:
    return name, None
  made = Once(lambda: configuration.resolve(bound))
  if made.peek() is None:
    return name, report.check(name, made)
  stream = getattr(made(), "stream", None)
  source = getattr(stream, "source", None)
  if source is None or (source.directory, source.split) in splits:
    return name, made()
  # A few pictures may well lack a rare language; that is said.
  found = report.check(f"data of {name}", lambda: _read_split(stream, splits, all_languages=False))
  return name, made() if found is not None else None


def _vocabulary(vocabulary: Any, objective: Any, stream: Any, captions: dict) -> tuple[str, bool]:
  rows = model_dir.text_rows(objective)
  if rows is None:
    return f"{vocabulary.path}: {vocabulary.size:,} pieces; the model has no text", True
  checks.check_rows(vocabulary, rows)
  mixture = tasks.registration(configuration.macro("MIXTURE"))
  languages = getattr(stream, "languages", tuple(mixture.rates))
  checks.check_vocabulary(vocabulary, languages, captions)
  return (
    f"{vocabulary.path}: {vocabulary.size:,} pieces for {rows:,} rows; text in {len(languages)} languages comes back"
  ), True


def _steps(run: Arguments) -> tuple[str, int]:
  total, log_every, eval_every = run["total_steps"](), run["log_every"](), run["eval_every"]()
  if total < 1 or log_every < 1 or eval_every < 0:
    raise UsageError("train: total_steps and log_every must be at least 1, and eval_every at least 0")
  policy = run["checkpoint"]()
  often = {"checkpoints": policy.every, "evaluations": eval_every}
  said = [f"{what} every {every:,}" if every else f"{what} at the end" for what, every in often.items()]
  if policy.minutes:
    said[0] += f", or {policy.minutes:g} minutes"
  return f"{total:,}; {', '.join(said)}", total


def _folder(run: Arguments, planned: Any) -> tuple[str, bool]:
  policy = run["checkpoint"]()
  needed = policy.copies(run["total_steps"]()) * planned.num_bytes if planned is not None else 0
  return dry_checks.folder(run["model_dir"](), needed), True


def _best(name: str, measured: dict[str, float]) -> tuple[str, bool]:
  if name not in measured:
    known = ", ".join(sorted(measured)) or "nothing"
    raise UsageError(f"CheckpointPolicy.best_metric is {name!r}, but the evaluators measured {known}")
  return f"by {name}", True


def _summary(run: Arguments, report: Report, stream: Any, total_steps: int | None) -> list[str]:
  """What the run comes to, as far as it is known."""
  lines = [f"model       {report.said['model']}"] if "model" in report.said else []
  if hasattr(stream, "source"):
    captions = epochs.batch_size(stream)
    each = getattr(stream, "captions_per_image", 0)
    text = (
      f"{captions:,} captions, {each} for each of {stream.pictures:,} pictures"
      if each
      else f"{captions:,} pictures"
    )
    parts = run["microbatches"]()
    lines.append(f"batch       {text}" + (f"; in {parts} parts" if parts > 1 else ""))
    if len(getattr(stream, "target_lengths", ())) > 1:
      mix = stream.mix_of_lengths(_LENGTHS_OF).items()
      lines.append(
        "targets     "
        + ", ".join(f"{length} pieces in {share:.0%}" for length, share in mix)
        + " of the steps"
      )
    if total_steps:
      passes = total_steps * captions / epochs.examples(stream)
      times = total_steps * stream.pictures / len(stream.source)
      what = "captions" if each else "pictures"
      lines.append(
        f"steps       {total_steps:,}: {passes:.2f} epochs of {epochs.examples(stream):,} {what}; "
        f"a picture comes up {times:.1f} times"
      )
  optimizer = run["optimizer"].peek()
  if optimizer is not None and total_steps:
    first, last = (float(optimizer.schedule(step, total_steps)) for step in (0, total_steps - 1))
    lines.append(f"rate        {first:.3g} at the first step, {last:.3g} at the last")
  if "weights" in report.said:
    lines.append(f"begins      {report.said['weights']}")
  return lines
