"""The decoding of an evaluation, compiled for one host of a slice: captions of a batch of pictures in all languages."""

import dataclasses
from typing import Any

import jax
import numpy as np

from xmcap.evaluation import sharded_params
from xmcap.evaluation.predictor import Predictor
from xmcap.languages import LANGUAGES
from xmcap.models.decoding import generator as decoding
from xmcap.planning import hlo
from xmcap.planning import run as run_lib
from xmcap.planning.step import explained
from xmcap.planning.topologies import Topology
from xmcap.scoring.grid import Grid
from xmcap.training import sharding
from xmcap.training.state import plan_state

_XM3600 = 129_600  # captions
_CAVEAT = (
  "Times are estimates: the cycles that the compiler expects, for captions that all have the greatest length. They"
  "\nleave out exchanges between chips, the reading of pictures and the scoring.\n"
)


@dataclasses.dataclass(frozen=True)
class DecodePlan:
  """A batch of an evaluation, which the chips of one host share.

  Attributes:
    topology: the chips.
    pictures: a batch, of one host.
    languages: of each picture.
    max_length: the most tokens of a caption.
    search: how captions are found.
    arguments: bytes of one chip for parameters and pictures.
    working: bytes of one chip for all else: caches, logits, scratch.
    start_cycles: of one chip, for all that is computed once a batch.
    token_cycles: of one chip, for one token of all captions.
  """

  topology: Topology
  pictures: int
  languages: int
  max_length: int
  search: Any
  arguments: int
  working: int
  start_cycles: int
  token_cycles: int

  @property
  def start_seconds(self) -> float | None:
    """Of all that is computed once a batch; None where the clock of the chip is not published."""
    clock = self.topology.chip.clock
    return self.start_cycles / clock if clock else None

  @property
  def token_seconds(self) -> float | None:
    """Of one token of all captions; None as above."""
    clock = self.topology.chip.clock
    return self.token_cycles / clock if clock else None

  @property
  def captions_per_second(self) -> float | None:
    """Of all hosts, if no caption ends before `max_length`; None as above."""
    if self.token_seconds is None:
      return None
    seconds = self.start_seconds + self.max_length * self.token_seconds
    return self.topology.hosts * self.pictures * self.languages / seconds


def plan_decoding(topology: Topology) -> DecodePlan:
  """Compiles what `xmcap eval` would run on each host, with the search and the batch that gin is configured for.

  Raises:
    DoesNotFit: a chip's memory is too small.
    XmcapError: the files lack something, or the compiler refuses for another reason.
  """
  run = run_lib.of_gin(topology, scan=False, microbatches=1)
  wanted = ("search", "max_length", "batch_size", "cache_dtype")
  search, max_length, pictures, cache_dtype = (run_lib.option(Predictor, name) for name in wanted)
  devices = topology.devices()
  of_host = [device for device in devices if device.process_index == devices[0].process_index]
  placed = sharded_params.for_evaluation({}, of_host)
  pictures = -(-pictures // placed.groups) * placed.groups
  generator = decoding.Generator(run.objective.module, search, max_length, pictures, cache_dtype)
  whole, rows = placed.replicated, sharding.batch_sharding(placed.mesh)

  def shape(sizes, dtype, lies=rows):
    return jax.ShapeDtypeStruct(sizes, dtype, sharding=lies)

  one_row = {name: np.zeros((1, *sizes[1:]), dtype) for name, (sizes, dtype) in run.shapes.items()}
  state = plan_state(run.objective, run.optimizer, one_row, placed.mesh, placed.rules, run.seed, run.rng_impl)
  params = jax.eval_shape(generator.cast, state.target.params)
  params = jax.tree.map(lambda leaf: shape(leaf.shape, leaf.dtype, whole), params)
  key = jax.eval_shape(lambda: jax.random.key(0))
  prompt = run.shapes["prompt_tokens"][0][-1]
  with placed.computing():
    try:
      compiled = decoding.lower(
        generator,
        params,
        shape((pictures, *run.shapes["image"][0][1:]), np.uint8),
        shape((pictures, len(LANGUAGES), prompt), np.int32),
        shape(key.shape, key.dtype, whole),
        shape((pictures,), np.int32),
      ).compile()
    except jax.errors.JaxRuntimeError as error:
      raise explained(error, run.variant, topology) from None
  needed = compiled.memory_analysis()
  working = needed.temp_size_in_bytes + needed.output_size_in_bytes + needed.generated_code_size_in_bytes
  module = hlo.Module(compiled.as_text())
  # Of all loops only the search, which ends early, does not say how often it runs; the keys' loop weighs nothing.
  start = module.cycles(unknown_trips=0)
  return DecodePlan(
    topology, pictures, len(LANGUAGES), max_length, search, needed.argument_size_in_bytes, working,
    start, module.cycles(unknown_trips=1) - start,
  )  # fmt: skip


def text(plan: DecodePlan) -> str:
  """A plan as a table."""
  rows = [
    ("captions a batch, of each host", f"{plan.pictures} pictures x {plan.languages} languages"),
    ("search", f"{plan.search}, {plan.max_length} tokens at most"),
    ("memory: parameters and pictures", f"{plan.arguments / 2**30:.3f} GiB"),
    ("memory: caches and all else", f"{plan.working / 2**30:.3f} GiB"),
    (f"a {plan.topology.chip.name} allows", f"{plan.topology.allowed / 2**30:.2f} GiB"),
    ("pictures and prompts, once a batch", f"{plan.start_cycles / 1e6:.1f} million cycles"),
    ("a token of all captions", f"{plan.token_cycles / 1e6:.1f} million cycles"),
  ]
  if plan.captions_per_second is not None:
    rows += [
      ("pictures and prompts, once a batch", f"{plan.start_seconds * 1e3:.2f} ms"),
      ("a token of all captions", f"{plan.token_seconds * 1e3:.2f} ms"),
      ("captions a second, of all hosts", f"{plan.captions_per_second:,.0f}"),
      (f"{_XM3600:,} captions (XM3600)", f"{_XM3600 / plan.captions_per_second:,.1f} s"),
    ]
  heading = f"decoding on {plan.topology.name} ({plan.topology.chips} chips, {plan.topology.hosts} hosts)"
  return Grid((heading, "a chip"), tuple(rows)).text() + _CAVEAT


def document(plan: DecodePlan) -> dict[str, Any]:
  """A plan as JSON's types, in bytes, cycles and seconds."""
  return {
    **dataclasses.asdict(plan),
    "topology": plan.topology.name,
    "search": str(plan.search),
    "allowed": plan.topology.allowed,
    "start_seconds": plan.start_seconds,
    "token_seconds": plan.token_seconds,
    "captions_per_second": plan.captions_per_second,
  }
