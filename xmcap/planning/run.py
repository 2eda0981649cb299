"""The run that gin is configured for, read without its data, its vocabulary or its devices."""

import dataclasses
import inspect
from collections.abc import Mapping
from typing import Any

import gin
import numpy as np

from xmcap import configuration
from xmcap.data.stream import CaptionStream
from xmcap.errors import UsageError, XmcapError
from xmcap.models.t5 import T5Config
from xmcap.models.vit import ViTConfig
from xmcap.planning.gpus import GpuNode
from xmcap.planning.topologies import Topology
from xmcap.training import run_arguments, sharding
from xmcap.training.optimizer import Optimizer

_REMAT = {"no": (False, False), "vit": (True, False), "t5": (False, True), "all": (True, True)}
"""Name -> `remat` of ViTConfig and of T5Config."""
_PARAMETERS = {
  **{axis: (f"Partitioning.{axis}",) for axis in sharding.MESH_AXES},
  "captions_per_image": ("CaptionStream.captions_per_image",),
  "microbatches": ("train.microbatches",),
  "remat": ("ViTConfig.remat", "T5Config.remat"),
  "scan": ("ViTConfig.scan", "T5Config.scan"),
}
"""Field of a `Variant` -> the parameters that gin binds for it."""


@dataclasses.dataclass(frozen=True)
class Variant:
  """What a search may change about a run; apart from `captions_per_image`, the run computes the same.

  `remat` says which configurations ask for it: `no`, `vit`, `t5` or `all`; `scan` whether any does. A batch keeps its
  number of captions, whatever `captions_per_image`.
  """

  data: int
  fsdp: int
  model: int
  captions_per_image: int
  microbatches: int
  remat: str
  scan: bool

  @property
  def mesh(self) -> str:
    """For people."""
    return f"data {self.data} x fsdp {self.fsdp} x model {self.model}"


@dataclasses.dataclass(frozen=True)
class Run:
  """A run that gin is configured for: arguments of `train`, with the mesh of the variant.

  Attributes:
    batch_size: captions a step, of all hosts.
    image_size, prompt_length, target_length: of `CaptionStream`.
    total_steps: None where it follows from data that are not here.
  """

  objective: Any
  optimizer: Optimizer
  partitioning: sharding.Partitioning
  variant: Variant
  batch_size: int
  image_size: int
  prompt_length: int
  target_length: int
  total_steps: int | None
  seed: int
  rng_impl: str | None

  @property
  def pictures(self) -> int:
    """A step, of all hosts."""
    return self.batch_size // self.variant.captions_per_image

  @property
  def shapes(self) -> dict[str, tuple[tuple[int, ...], Any]]:
    """Name -> (shape, dtype) of a batch of all hosts."""
    captions = (self.pictures, self.variant.captions_per_image)
    return {
      "image": ((self.pictures, self.image_size, self.image_size, 3), np.uint8),
      "prompt_tokens": ((*captions, self.prompt_length), np.int32),
      "target_tokens": ((*captions, self.target_length), np.int32),
      "target_weights": ((*captions, self.target_length), np.float32),
    }


def of_gin(topology: Topology | GpuNode, **changes: Any) -> Run:
  """The run that gin is configured for, on some chips.

  Args:
    topology: the chips.
    changes: fields of a `Variant` that differ from what gin says; they are bound for later calls too.

  Raises:
    UsageError: the files lack something, or do not go together.
  """
  for name, value in bindings(changes).items():
    gin.bind_parameter(name, value)
  for kind in (ViTConfig, T5Config):
    # 'auto' comes to this on the chips; on this host it would be a CPU's float32.
    if option(kind, "dtype") == "auto":
      gin.bind_parameter(f"{kind.__name__}.dtype", "bfloat16")
  stream = _stream_options()
  captions_per_image = stream.pop("captions_per_image")
  arguments = run_arguments.Arguments()
  partitioning = arguments["partitioning"]()
  sizes = partitioning.sizes(topology.chips, topology.slices)
  mesh = dict(zip(sharding.MESH_AXES, sizes, strict=True))
  partitioning = dataclasses.replace(partitioning, **mesh)
  remat = option(ViTConfig, "remat"), option(T5Config, "remat")
  variant = Variant(
    **mesh,
    captions_per_image=captions_per_image,
    microbatches=arguments["microbatches"](),
    remat=next(name for name, both in _REMAT.items() if both == remat),
    scan=option(ViTConfig, "scan") or option(T5Config, "scan"),
  )
  pictures, rest = divmod(stream["batch_size"], captions_per_image)
  if rest:
    raise UsageError(
      f"a batch of {stream['batch_size']:,} captions does not divide into {captions_per_image} a picture"
    )
  run_arguments.check_batch(pictures, variant.data * variant.fsdp, variant.microbatches)
  try:
    total_steps = arguments["total_steps"]()
  except XmcapError:
    total_steps = None
  return Run(
    arguments["objective"](), arguments["optimizer"](), partitioning, variant, **stream, total_steps=total_steps,
    seed=arguments["seed"](), rng_impl=arguments["rng_impl"](),
  )  # fmt: skip


def bindings(changes: Mapping[str, Any]) -> dict[str, Any]:
  """Fields of a `Variant` as gin binds them: name of the parameter -> value."""
  found = {}
  for name, value in changes.items():
    values = _REMAT[value] if name == "remat" else (value, value)
    found |= zip(_PARAMETERS[name], values, strict=False)
  return found


def option(kind: type, argument: str) -> Any:
  """What gin binds for an argument of a configurable class, else its default; no object of the class is made."""
  bound = gin.get_bindings(kind.__name__, resolve_references=False)
  if argument in bound:
    return configuration.resolve(bound[argument])
  return inspect.signature(kind).parameters[argument].default


def _stream_options() -> dict[str, Any]:
  """The arguments of the stream that give the size of a batch; its data is not opened."""
  bound = gin.get_bindings("train", resolve_references=False).get("stream")
  if getattr(bound, "selector", "").rsplit(".", 1)[-1] != "CaptionStream":
    raise UsageError(
      f"xmcap plan: train.stream is {bound}: only a run on @CaptionStream() can be planned; add a run's gin file, "
      "such as --gin_file=runs/train_coco35l.gin"
    )
  wanted = ("batch_size", "captions_per_image", "prompt_length", "target_length", "image_size")
  return {name: option(CaptionStream, name) for name in wanted}
