"""Reads the run that is configured in gin, without its data, vocabulary or devices."""

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import gin
import numpy as np

from xmcap import configuration
from xmcap.data import workers
from xmcap.data.epochs import epochs
from xmcap.data.stream import CaptionStream
from xmcap.errors import UsageError, XmcapError
from xmcap.models.parts import IMAGE, bound_image_config, input_shape, reads_stored
from xmcap.models.t5 import T5Config
from xmcap.planning import corpora
from xmcap.planning.gpus import GpuNode
from xmcap.planning.topologies import Topology
from xmcap.training import run_arguments, sharding
from xmcap.training.optimizer import Optimizer

_PARAMETERS = {
  **{axis: (f"Partitioning.{axis}",) for axis in sharding.MESH_AXES},
  "captions_per_image": ("CaptionStream.captions_per_image",),
  "microbatches": ("train.microbatches",),
}
"""Field of a `Variant` -> its gin parameters, if it is not of a tower."""


@dataclasses.dataclass(frozen=True)
class Variant:
  """The settings of a run that a search may change. Except for `captions_per_image`, they do not change the results.

  `image_remat` and `t5_remat` are policies of the image tower and of the T5 (see `stacking.REMAT`); `scan`, whether it
  is set for any. The number of captions in a batch does not depend on `captions_per_image`.
  """

  data: int
  fsdp: int
  model: int
  captions_per_image: int
  microbatches: int
  image_remat: str
  t5_remat: str
  scan: bool

  @property
  def mesh(self) -> str:
    return f"data {self.data} x fsdp {self.fsdp} x model {self.model}"

  @property
  def remat(self) -> str:
    """The policy, or those of both towers if they differ."""
    same = self.image_remat == self.t5_remat
    return self.t5_remat if same else f"{IMAGE} {self.image_remat}, t5 {self.t5_remat}"


@dataclasses.dataclass(frozen=True)
class PlannedRun:
  """A run as configured in gin: arguments of `train`, with the mesh of the variant.

  Attributes:
    batch_size: captions per step, of all hosts.
    image_size, prompt_length, target_length: of `CaptionStream`.
    total_steps: None if it depends on data that cannot be read, and whose size is not published.
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
    """Images per step, of all hosts."""
    return self.batch_size // self.variant.captions_per_image

  @property
  def prompts(self) -> tuple[int, int, int]:
    """The shape of the prompts: one of a token for all captions of an image, if the encoder does not see languages."""
    stabilizer = option(CaptionStream, "stabilizer")
    if stabilizer is not None and stabilizer.is_consistent:
      return self.pictures, 1, 1
    return self.pictures, self.variant.captions_per_image, self.prompt_length

  @property
  def shapes(self) -> dict[str, tuple[tuple[int, ...], Any]]:
    """Name -> (shape, dtype) of the arrays of a global batch."""
    captions = (self.pictures, self.variant.captions_per_image)
    shape, dtype = (self.image_size, self.image_size, 3), np.uint8
    tower = getattr(self.objective.module, IMAGE, None)  # objectives of other families may have none
    if tower is not None and reads_stored(tower):
      shape, dtype = input_shape(tower), np.float32
    return {
      "image": ((self.pictures, *shape), dtype),
      "prompt_tokens": (self.prompts, np.int32),
      "target_tokens": ((*captions, self.target_length), np.int32),
      "target_weights": ((*captions, self.target_length), np.float32),
    }


@dataclasses.dataclass(frozen=True)
class Attached:
  """The devices of this process and of those that it has joined: how many, in how many slices (GPUs: nodes)."""

  num_devices: int
  slices: int


def of_gin(topology: Topology | GpuNode | Attached, **changes: Any) -> PlannedRun:
  """The run that is configured in gin, on the given chips; UsageError if it is incomplete or inconsistent.

  `changes` are fields of a `Variant` that override gin's bindings, for later calls too.
  """
  for name, value in bindings(changes).items():
    gin.bind_parameter(name, value)
  image_config = bound_image_config()
  if not isinstance(topology, Attached):
    _bind_as_on(topology, image_config)
  stream = _stream_options()
  captions_per_image = stream.pop("captions_per_image")
  arguments = run_arguments.Arguments()
  partitioning = arguments["partitioning"]()
  sizes = partitioning.sizes(topology.num_devices, topology.slices)
  mesh = dict(zip(sharding.MESH_AXES, sizes, strict=True))
  partitioning = dataclasses.replace(partitioning, **mesh)
  variant = Variant(
    **mesh,
    captions_per_image=captions_per_image,
    microbatches=arguments["microbatches"](),
    image_remat=option(image_config, "remat"),
    t5_remat=option(T5Config, "remat"),
    scan=option(image_config, "scan") or option(T5Config, "scan"),
  )
  images = images_of(stream["batch_size"], captions_per_image)
  run_arguments.check_batch(images, variant.data * variant.fsdp, variant.microbatches)
  try:
    total_steps = arguments["total_steps"]()
  except XmcapError:
    total_steps = _published_steps(stream["batch_size"])
  return PlannedRun(
    arguments["objective"](), arguments["optimizer"](), partitioning, variant, **stream, total_steps=total_steps,
    seed=arguments["seed"](), rng_impl=arguments["rng_impl"](),
  )  # fmt: skip


def _bind_as_on(topology: Topology | GpuNode, image_config: Any) -> None:
  """Binds what 'auto' means on chips that are not attached."""
  for kind in (image_config, T5Config):
    # bfloat16 on the chips, but it would be float32 on this host's CPU.
    if option(kind, "dtype") == "auto":
      gin.bind_parameter(f"{kind.__name__}.dtype", "bfloat16")
  if hasattr(image_config, "attention") and option(image_config, "attention") == "auto":
    attention = "cudnn" if isinstance(topology, GpuNode) else "pallas"
    gin.bind_parameter(f"{image_config.__name__}.attention", attention)


def _published_steps(batch_size: int) -> int | None:
  """The steps of `epochs` for a corpus of the paper, of which the size is published; None: of another corpus."""
  corpus, count = corpora.CORPORA.get(option(CaptionStream, "mixture")), option(epochs, "count")
  return max(1, round(count * corpus.epoch / batch_size)) if corpus and count > 0 else None


def images_of(batch_size: int, captions_per_image: int) -> int:
  """Returns the number of images in a batch of captions; UsageError if the captions are not a multiple."""
  if captions_per_image < 1 or batch_size % captions_per_image:
    raise UsageError(
      f"BATCH_SIZE {batch_size:,} is not divisible by captions_per_image {captions_per_image}: change one of them"
    )
  return batch_size // captions_per_image


def bindings(changes: Mapping[str, Any]) -> dict[str, Any]:
  """Gin bindings, parameter -> value, for fields of a `Variant`."""
  image_config, t5_config = bound_image_config().__name__, T5Config.__name__
  towers = {
    "image_remat": (f"{image_config}.remat",),
    "t5_remat": (f"{t5_config}.remat",),
    "scan": (f"{image_config}.scan", f"{t5_config}.scan"),
  }
  names = _PARAMETERS | towers
  return {parameter: value for name, value in changes.items() for parameter in names[name]}


def option(kind: Callable, argument: str) -> Any:
  """The value of a configurable's argument: as bound in gin, else its default. The configurable is not called."""
  bound = gin.get_bindings(kind.__name__, resolve_references=False)
  if argument in bound:
    return configuration.resolve(bound[argument])
  return inspect.signature(kind).parameters[argument].default


def reading() -> dict[str, Any]:
  """What the configured stream reads of a bucket: `requests_per_picture`, and the `record_bytes` of a picture or None.

  Of a picture, as if none were cached.
  """
  stream = {name: option(CaptionStream, name) for name in ("mixture", "neighbours", "bucket_window")}
  corpus, neighbours = corpora.of_mixture(stream["mixture"]), stream["neighbours"]
  is_grouped = stream["bucket_window"] > 1 and neighbours > 1
  return {
    "requests_per_picture": min(1.0, (workers.REQUESTS_OF_A_CHUNK if is_grouped else 1.0) / neighbours),
    "record_bytes": corpus and corpus.picture_bytes + corpus.record_bytes,
  }


def selected(argument: str) -> str:
  """The name of the configurable that is bound to an argument of `train`; "" if there is none."""
  bound = gin.get_bindings("train", resolve_references=False).get(argument)
  return getattr(bound, "selector", "").rsplit(".", 1)[-1]


def _stream_options() -> dict[str, Any]:
  """The arguments of the stream that decide the shapes of a batch; its data is not opened."""
  if selected("stream") != "CaptionStream":
    bound = gin.get_bindings("train", resolve_references=False).get("stream")
    raise UsageError(
      f"xmcap plan: train.stream is {bound}: only a run on @CaptionStream() can be planned; add a run's gin file, "
      "such as --gin_file=runs/train_coco35l.gin"
    )
  names = ("batch_size", "captions_per_image", "prompt_length", "target_length", "image_size")
  return {name: option(CaptionStream, name) for name in names}
