"""Where a run's numbers go: `metrics.jsonl`, TensorBoard, and Weights & Biases; process 0 alone writes."""

import dataclasses
import importlib.util
import math
import os
import secrets
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import gin
import jax
from etils import epath

from xmcap.errors import UsageError, XmcapError, one_line
from xmcap.training.reporting import metrics_file

_WANDB_RUN = "wandb_run.txt"


class Writer(Protocol):
  """A place for numbers."""

  name: str

  def scalars(self, step: int, values: Mapping[str, float]) -> None:
    """Writes numbers by name, `group/name`."""

  def event(self, step: int, what: str, facts: Mapping[str, Any]) -> None:
    """Writes that the run started or ended, with facts about it."""

  def close(self) -> None:
    """Writes what is left."""


@gin.configurable
@dataclasses.dataclass(frozen=True)
class Writers:
  """Where the numbers go, besides `metrics.jsonl`.

  Attributes:
    tensorboard: whether TensorBoard's files are written, to `model_dir/tensorboard`.
    wandb: a project of Weights & Biases; "" sends nothing there.

  Raises:
    UsageError: Weights & Biases is asked for and not installed.
  """

  tensorboard: bool = True
  wandb: str = ""

  def __post_init__(self):
    if self.wandb and importlib.util.find_spec("wandb") is None:
      raise UsageError(
        f"Writers.wandb is {self.wandb!r}, but wandb is not installed: pip install 'xmcap[wandb]'"
      )

  def open(self, model_dir: str | os.PathLike, say: Callable[[str], None]) -> "AllWriters":
    """Opens them; none in a process other than the first.

    Args:
      model_dir: the run's folder, which `metrics.jsonl` and TensorBoard's files go to.
      say: prints a line.

    Raises:
      XmcapError: Weights & Biases refuses the run.
    """
    if jax.process_index():
      return AllWriters([], say)
    writers: list[Writer] = [JsonLines(model_dir, say)]
    if self.tensorboard:
      writers.append(TensorBoard(os.path.join(model_dir, "tensorboard")))
    if self.wandb:
      writers.append(WeightsAndBiases(self.wandb, model_dir))
    return AllWriters(writers, say)


class AllWriters:
  """Several writers as one. One that fails is said and left out: numbers about a run never end it.

  Args:
    writers: in order.
    say: prints a line.
  """

  name = "writers"

  def __init__(self, writers: Sequence[Writer], say: Callable[[str], None]):
    self._writers = list(writers)
    self._say = say

  def scalars(self, step: int, values: Mapping[str, float]) -> None:
    """Writes numbers to each."""
    self._each(lambda writer: writer.scalars(step, values))

  def event(self, step: int, what: str, **facts: Any) -> None:
    """Tells each."""
    self._each(lambda writer: writer.event(step, what, facts))

  def close(self) -> None:
    """Closes each."""
    self._each(lambda writer: writer.close())
    self._writers.clear()

  def _each(self, call: Callable[[Writer], None]) -> None:
    for writer in list(self._writers):
      try:
        call(writer)
      except Exception as error:  # of TensorFlow, of wandb: whatever it is, the training is worth more
        self._writers.remove(writer)
        self._say(f"{writer.name} fails: {one_line(error)}; the run goes on without it")


class JsonLines:
  """`metrics.jsonl`; see `metrics_file`."""

  name = "metrics.jsonl"

  def __init__(self, model_dir: str | os.PathLike, say: Callable[[str], None]):
    self._file = metrics_file.MetricsFile(model_dir, say)

  def scalars(self, step: int, values: Mapping[str, float]) -> None:
    """A line."""
    self._file.write(step, values)

  def event(self, step: int, what: str, facts: Mapping[str, Any]) -> None:
    """A line."""
    self._file.write(step, {"event": what, **facts})

  def close(self) -> None:
    """Writes what is left."""
    self._file.close()


class TensorBoard:
  """TensorBoard's files, through clu, by a thread of its own.

  Args:
    log_dir: where they go.
  """

  name = "TensorBoard"

  def __init__(self, log_dir: str):
    self._log_dir = log_dir
    self._writer = None

  def scalars(self, step: int, values: Mapping[str, float]) -> None:
    """Hands the numbers to the thread."""
    if self._writer is None:
      # clu brings TensorFlow, seconds that a run without TensorBoard need not spend.
      from clu import metric_writers

      self._writer = metric_writers.AsyncWriter(metric_writers.SummaryWriter(self._log_dir))
    self._writer.write_scalars(step, dict(values))

  def event(self, step: int, what: str, facts: Mapping[str, Any]) -> None:
    """TensorBoard shows numbers alone."""

  def close(self) -> None:
    """Ends the files."""
    if self._writer is not None:
      self._writer.close()


class WeightsAndBiases:
  """A run of Weights & Biases; a run that goes on stays the same one there, by an id in the run's folder.

  Args:
    project: of Weights & Biases.
    model_dir: the run's folder, whose name the run has.

  Raises:
    XmcapError: it cannot be begun.
  """

  name = "Weights & Biases"

  def __init__(self, project: str, model_dir: str | os.PathLike):
    import wandb

    folder = os.fspath(model_dir)
    # wandb's own files; they are sent from a disk.
    local = tempfile.mkdtemp(prefix="wandb-") if "://" in folder else folder
    try:
      os.makedirs(local, exist_ok=True)
      self._run = wandb.init(
        project=project,
        id=_run_id(folder),
        name=os.path.basename(folder.rstrip("/")),
        dir=local,
        resume="allow",
        config={"MODEL_DIR": folder},
      )
      # The step is a number like the others: a run that goes on repeats some, which wandb's own step forbids.
      self._run.define_metric("*", step_metric="step")
    except Exception as error:  # wandb's, by many classes
      raise XmcapError(
        f"Weights & Biases: {one_line(error)}; log in with `wandb login`, or set WANDB_MODE=offline"
      ) from None

  def scalars(self, step: int, values: Mapping[str, float]) -> None:
    """Sends numbers; wandb does so in the background."""
    self._run.log({"step": step, **{name: value for name, value in values.items() if math.isfinite(value)}})

  def event(self, step: int, what: str, facts: Mapping[str, Any]) -> None:
    """The facts of the start become the run's configuration."""
    if what == "started":
      self._run.config.update(dict(facts), allow_val_change=True)

  def close(self) -> None:
    """Waits until all is sent."""
    self._run.finish()


def _run_id(model_dir: str) -> str:
  path = epath.Path(model_dir) / _WANDB_RUN
  if path.exists():
    return path.read_text().strip()
  name = secrets.token_hex(8)
  path.parent.mkdir(parents=True, exist_ok=True)
  path.write_text(f"{name}\n")
  return name
