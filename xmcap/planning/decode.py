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
  """A batch of an evaluation, which the chips of one host share; bytes and cycles are those of one chip.

  Attributes:
    topology: the chips.
    pictures, languages: a batch, of one host.
    max_length: the most tokens of a caption.
    search: how captions are found.
    arguments: bytes of parameters and pictures.
    working: bytes of all else: caches, logits, scratch.
    start_cycles: of all that is computed once a batch.
    token_cycles: of one token of all captions.
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

  def seconds(self, cycles: int) -> float | None:
    """The time of so many cycles; None where the clock of the chip is not published."""
    clock = self.topology.chip.clock
    return cycles / clock if clock else None

  @property
  def captions_per_second(self) -> float | None:
    """Of all hosts, if no caption ends early; None as above."""
    seconds = self.seconds(self.start_cycles + self.max_length * self.token_cycles)
    return self.topology.hosts * self.pictures * self.languages / seconds if seconds else None


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
  generator = decoding.Generator(run.objective.module, search, max_length, cache_dtype)
  rows = sharding.batch_sharding(placed.mesh)

  def replicated(tree: Any) -> Any:
    return jax.tree.map(
      lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=placed.replicated), tree
    )

  def row(*sizes: int, dtype: Any = np.int32) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct((pictures, *sizes), dtype, sharding=rows)

  one_row = {name: np.zeros((1, *sizes[1:]), dtype) for name, (sizes, dtype) in run.shapes.items()}
  state = plan_state(run.objective, run.optimizer, one_row, placed.mesh, placed.rules, run.seed, run.rng_impl)
  params = replicated(jax.eval_shape(generator.cast, state.target.params))
  image = row(*run.shapes["image"][0][1:], dtype=np.uint8)
  prompts = row(len(LANGUAGES), run.shapes["prompt_tokens"][0][-1])
  key = replicated(jax.eval_shape(lambda: jax.random.key(0)))
  with placed.computing():
    try:
      compiled = decoding.lower(generator, params, image, prompts, key, row()).compile()
    except jax.errors.JaxRuntimeError as error:
      raise explained(error, run.variant, topology) from None
  needed = compiled.memory_analysis()
  working = needed.temp_size_in_bytes + needed.output_size_in_bytes + needed.generated_code_size_in_bytes
  module = hlo.Module(compiled.as_text())
  # Of all loops only the search, which may end early, does not say how often it runs; the loop over keys costs nothing.
  start = module.cycles(unknown_trips=0)
  token = module.cycles(unknown_trips=1) - start
  return DecodePlan(
    topology,
    pictures,
    len(LANGUAGES),
    max_length,
    search,
    needed.argument_size_in_bytes,
    working,
    start,
    token,
  )


def text(plan: DecodePlan) -> str:
  """A plan as a table."""
  speed = plan.captions_per_second

  def time(cycles: int) -> str:
    seconds = plan.seconds(cycles)
    return f"{cycles / 1e6:.2f} million cycles" + (f", {seconds * 1e3:.2f} ms" if seconds else "")

  rows = [
    ("captions a batch, of each host", f"{plan.pictures} pictures x {plan.languages} languages"),
    ("search", f"{plan.search}, {plan.max_length} tokens at most"),
    ("memory: parameters and pictures", f"{plan.arguments / 2**30:.3f} GiB"),
    ("memory: caches and all else", f"{plan.working / 2**30:.3f} GiB"),
    (plan.topology.allowance, f"{plan.topology.allowed / 2**30:.2f} GiB"),
    ("pictures and prompts, once a batch", time(plan.start_cycles)),
    ("a token of all captions", time(plan.token_cycles)),
  ]
  if speed is not None:
    rows.append(("captions a second, of all hosts", f"{speed:,.0f}"))
    rows.append((f"{_XM3600:,} captions (XM3600)", f"{_XM3600 / speed:,.1f} s"))
  return Grid((f"decoding on {plan.topology.description}", "a chip"), tuple(rows)).text() + _CAVEAT


def document(plan: DecodePlan) -> dict[str, Any]:
  """A plan as JSON's types, in bytes, cycles and seconds."""
  return {
    "topology": plan.topology.name,
    "pictures": plan.pictures,
    "languages": plan.languages,
    "max_length": plan.max_length,
    "search": str(plan.search),
    "memory": {"arguments": plan.arguments, "working": plan.working, "allowed": plan.topology.allowed},
    "estimate": {
      "encoding_cycles": plan.start_cycles,
      "token_cycles": plan.token_cycles,
      "encoding_seconds": plan.seconds(plan.start_cycles),
      "token_seconds": plan.seconds(plan.token_cycles),
      "captions_per_second": plan.captions_per_second,
    },
  }
