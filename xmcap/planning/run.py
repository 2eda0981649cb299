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


@dataclasses.dataclass(frozen=True)
class Variant:
  """What a search may change about a run; apart from `captions_per_image`, the run computes the same.

  Attributes:
    data, fsdp, model: of `Partitioning`.
    captions_per_image: K; the batch keeps its number of captions.
    microbatches: of `train`.
    remat: the configurations that ask for it: `no`, `vit`, `t5` or `all`.
    scan: whether any configuration asks for it.
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
  """A run that gin is configured for.

  Attributes:
    objective, optimizer, seed, rng_impl: of `train`.
    partitioning: of `train`, with the mesh of the variant.
    variant: what a search may change.
    batch_size: captions a step, of all hosts.
    shapes: name -> (shape, dtype) of a batch of all hosts.
    total_steps: None where it follows from data that are not here.
  """

  objective: Any
  optimizer: Optimizer
  partitioning: sharding.Partitioning
  variant: Variant
  batch_size: int
  shapes: Mapping[str, tuple[tuple[int, ...], Any]]
  total_steps: int | None
  seed: int
  rng_impl: str | None

  @property
  def pictures(self) -> int:
    """A step, of all hosts."""
    return self.batch_size // self.variant.captions_per_image


def of_gin(topology: Topology | GpuNode, **changes: Any) -> Run:
  """The run that gin is configured for, on some chips.

  Args:
    topology: the chips.
    changes: fields of a `Variant` that differ from what gin says.

  Raises:
    UsageError: the files lack something, or do not go together.
  """
  sizes = _stream_options()
  arguments = run_arguments.Arguments()
  mesh = {axis: changes[axis] for axis in sharding.MESH_AXES if axis in changes}
  partitioning = dataclasses.replace(arguments["partitioning"](), **mesh)
  bound = {
    **dict(zip(sharding.MESH_AXES, partitioning.sizes(topology.chips, topology.slices), strict=True)),
    "captions_per_image": sizes["captions_per_image"],
    "microbatches": arguments["microbatches"](),
    "remat": _bound_remat(),
    "scan": option(ViTConfig, "scan") or option(T5Config, "scan"),
  }
  variant = Variant(**{**bound, **changes})
  partitioning = dataclasses.replace(partitioning, data=variant.data, fsdp=variant.fsdp, model=variant.model)
  pictures, rest = divmod(sizes["batch_size"], variant.captions_per_image)
  if rest:
    raise UsageError(
      f"a batch of {sizes['batch_size']:,} captions does not divide into {variant.captions_per_image} a picture"
    )
  run_arguments.check_batch(pictures, variant.data * variant.fsdp, variant.microbatches)
  _bind(changes)
  arguments = run_arguments.Arguments()
  try:
    total_steps = arguments["total_steps"]()
  except XmcapError:
    total_steps = None
  return Run(
    arguments["objective"](), arguments["optimizer"](), partitioning, variant, sizes["batch_size"],
    _shapes(sizes, pictures, variant.captions_per_image), total_steps, arguments["seed"](), arguments["rng_impl"](),
  )  # fmt: skip


def option(kind: type, argument: str) -> Any:
  """What gin binds for an argument of a configurable class, else its default; no object of the class is made."""
  bound = gin.get_bindings(kind.__name__, resolve_references=False)
  if argument in bound:
    return configuration.resolve(bound[argument])
  return inspect.signature(kind).parameters[argument].default


def _bind(changes: Mapping[str, Any]) -> None:
  for number, kind in enumerate((ViTConfig, T5Config)):
    if "remat" in changes:
      gin.bind_parameter(f"{kind.__name__}.remat", _REMAT[changes["remat"]][number])
    if "scan" in changes:
      gin.bind_parameter(f"{kind.__name__}.scan", changes["scan"])
    # 'auto' comes to this on the chips; on this host it would be a CPU's float32.
    if option(kind, "dtype") == "auto":
      gin.bind_parameter(f"{kind.__name__}.dtype", "bfloat16")


def _bound_remat() -> str:
  found = option(ViTConfig, "remat"), option(T5Config, "remat")
  return next(name for name, both in _REMAT.items() if both == found)


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


def _shapes(sizes: Mapping[str, Any], pictures: int, captions: int) -> dict[str, tuple[tuple[int, ...], Any]]:
  side, targets = sizes["image_size"], (pictures, captions, sizes["target_length"])
  return {
    "image": ((pictures, side, side, 3), np.uint8),
    "prompt_tokens": ((pictures, captions, sizes["prompt_length"]), np.int32),
    "target_tokens": (targets, np.int32),
    "target_weights": (targets, np.float32),
  }
