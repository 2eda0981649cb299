"""Writers for a run's metrics: `metrics.jsonl`, TensorBoard, and Weights & Biases. Only process 0 writes."""

import dataclasses
import importlib.util
import math
import os
import secrets
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent import futures
from typing import Any

import gin
import jax

from xmcap import extras
from xmcap.errors import UsageError, XmcapError, one_line
from xmcap.files import files, refusals
from xmcap.files.bucket_paths import epath
from xmcap.training.reporting.event_files import TensorBoard
from xmcap.training.reporting.metrics_file import MetricsFile

_WANDB_RUN = "wandb_run.txt"


@gin.configurable
@dataclasses.dataclass(frozen=True)
class Writers:
  """Which writers a run has besides `metrics.jsonl`.

  Attributes:
    tensorboard: whether to write TensorBoard files to `MODEL_DIR/tensorboard`.
    wandb: a project of Weights & Biases; "": none.
  """

  tensorboard: bool = True
  wandb: str = ""

  def __post_init__(self):
    if self.wandb and importlib.util.find_spec("wandb") is None:
      raise UsageError(
        f"Writers.wandb is {self.wandb!r}, but wandb is not installed: {extras.install('wandb')}"
      )

  def open(self, model_dir: str | os.PathLike, say: Callable[[str], None]) -> "AllWriters":
    """Opens the writers of a run's folder; only process 0 has any."""
    writers = []
    if jax.process_index() == 0:
      writers.append(MetricsFile(model_dir))
      if self.tensorboard:
        writers.append(TensorBoard(os.path.join(model_dir, "tensorboard")))
      if self.wandb:
        writers.append(WeightsAndBiases(self.wandb, model_dir))
    return AllWriters(writers, say)


class AllWriters:
  """Several writers as one, in a background thread. A failing writer is reported once, and the run goes on.

  A writer has a `name`, `scalars(step, {"group/name": number})`, `close()` and optionally `event(step, what, facts)`
  and `show(step, {name: Markdown}, {name: pictures uint8 [N, H, W, 3]})`.
  """

  def __init__(self, writers: Sequence[Any], say: Callable[[str], None]):
    self._writers = writers
    self._say = say
    self._failing: set[Any] = set()
    self._thread = futures.ThreadPoolExecutor(1, thread_name_prefix="writers")

  def scalars(self, step: int, values: Mapping[str, float]) -> None:
    self._thread.submit(self._each, "scalars", step, values)

  def event(self, step: int, kind: str, **facts: Any) -> None:
    self._thread.submit(self._each, "event", step, kind, facts)

  def show(self, step: int, texts: Mapping[str, str], images: Mapping[str, Any]) -> None:
    self._thread.submit(self._each, "show", step, texts, images)

  def close(self) -> None:
    self._thread.submit(self._each, "close")
    self._thread.shutdown()

  def _each(self, method: str, *arguments: Any) -> None:
    for writer in self._writers:
      try:
        if hasattr(writer, method):
          getattr(writer, method)(*arguments)
        self._failing.discard(writer)
      except Exception as error:  # wandb and object stores raise many types
        if writer not in self._failing:
          reason = refusals.explained(error, writer.name) or one_line(error)
          self._say(f"{writer.name}: cannot be written ({reason}); the run goes on and tries again")
        self._failing.add(writer)


class WeightsAndBiases:
  """A run in Weights & Biases, named after the run's folder; an id in that folder lets a resumed run continue it."""

  name = "Weights & Biases"

  def __init__(self, project: str, model_dir: str | os.PathLike):
    import wandb  # pyright: ignore[reportMissingImports]  # an extra that CI does not install

    folder = os.fspath(model_dir)
    # wandb needs a local folder for its files.
    local = tempfile.mkdtemp(prefix="wandb-") if "://" in folder else folder
    try:
      os.makedirs(local, exist_ok=True)
      self._run = wandb.init(
        project=project,
        id=_run_id(epath.Path(folder) / _WANDB_RUN),
        name=os.path.basename(folder.rstrip("/")),
        dir=local,
        resume="allow",
        config={"MODEL_DIR": folder},
      )
      # wandb's own step cannot decrease, but that of a resumed run does.
      self._run.define_metric("*", step_metric="step")
    except Exception as error:  # wandb raises many types
      raise XmcapError(
        f"Weights & Biases: {one_line(error)}; log in with `wandb login`, or set WANDB_MODE=offline"
      ) from None

  def scalars(self, step: int, values: Mapping[str, float]) -> None:
    self._run.log({"step": step, **{name: value for name, value in values.items() if math.isfinite(value)}})

  def event(self, step: int, kind: str, facts: Mapping[str, Any]) -> None:
    """Stores the facts of the start as the run's configuration."""
    if kind == "started":
      self._run.config.update(dict(facts), allow_val_change=True)

  def close(self) -> None:
    self._run.finish()


def _run_id(file: epath.Path) -> str:
  if file.exists():
    return file.read_text().strip()
  name = secrets.token_hex(8)
  files.write_anywhere(file, f"{name}\n".encode())
  return name
