"""Plans the decoding of an evaluation: compiles captioning a batch of images in all languages for a slice's host."""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from xmcap.evaluation import sharded_params
from xmcap.evaluation.predictor import Predictor
from xmcap.families.plugs.stabilizer import Marks
from xmcap.grid import Grid
from xmcap.languages import LANGUAGES
from xmcap.models.captioner import variable_shapes
from xmcap.models.decoding import generator as decoding
from xmcap.planning import hlo
from xmcap.planning import run as run_lib
from xmcap.planning.step import explained
from xmcap.planning.topologies import Topology
from xmcap.training import sharding

_XM3600 = 129_600  # captions
_CAVEAT = (
  "Times are estimates: the cycles that the compiler expects, if all captions have the maximum length. They do not"
  "\ninclude communication between chips, reading pictures, and scoring.\n"
)


def plan_decoding(topology: Topology) -> dict[str, Any]:
  """Compiles what `xmcap eval` would run on each host, with the search and batch size configured in gin.

  Returns:
    Values that JSON can hold. `images` and `languages` are those of a batch of one host. Bytes, cycles and seconds
    are per chip; `captions_per_second` is for all hosts, if no caption ends early. Times are None if the chip's clock
    is not published.

  Raises:
    DoesNotFit: a chip's memory is too small.
    XmcapError: the configuration is incomplete, or the compiler fails for another reason.
  """
  run = run_lib.of_gin(topology, scan=False, microbatches=1)
  names = ("search", "max_length", "batch_size", "cache_dtype", "stabilizer")
  search, max_length, images, cache_dtype, stabilizer = (run_lib.option(Predictor, name) for name in names)
  devices = topology.devices()
  of_host = [device for device in devices if device.process_index == devices[0].process_index]
  placed = sharded_params.for_evaluation({}, of_host)
  images = -(-images // placed.groups) * placed.groups
  captioner = run.objective.module
  # Any ids will do.
  marks = (
    None
    if stabilizer is None
    else Marks(stabilizer, captioner.t5.vocab_size - 1, (captioner.t5.vocab_size - 2,))
  )
  generator = decoding.Generator(captioner, search, max_length, cache_dtype, marks)
  rows = sharding.batch_sharding(placed.mesh)

  def replicated(tree: Any) -> Any:
    return jax.tree.map(
      lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=placed.replicated), tree
    )

  def row(*sizes: int, dtype: Any = np.int32) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct((images, *sizes), dtype, sharding=rows)

  shapes = variable_shapes(captioner.vit, captioner.t5)["params"]
  params = replicated(jax.eval_shape(generator.cast, shapes))
  image = row(*run.shapes["image"][0][1:], dtype=np.uint8)
  prompts = row(len(LANGUAGES), run.prompt_length)
  key = replicated(jax.eval_shape(lambda: jax.random.key(0)))
  with placed.computing():
    try:
      compiled: Any = decoding.generate.lower(*generator.static, params, image, prompts, key, row()).compile()
    except jax.errors.JaxRuntimeError as error:
      raise explained(error, run.variant, topology) from None
  needed = compiled.memory_analysis()
  working = needed.temp_size_in_bytes + needed.output_size_in_bytes + needed.generated_code_size_in_bytes
  module = hlo.Module(compiled.as_text(), topology.cores)
  start = module.cycles(unknown_trips=0)
  # The search has a loop for all rows, and one for each of its stages with fewer. Captions of the maximum length need
  # the first alone, whose iterations take longest.
  token = max(module.loop_cycles(), default=0)
  clock = topology.chip.clock
  seconds = (start + max_length * token) / clock if clock else None
  return {
    "topology": topology.name,
    "pictures": images,
    "languages": len(LANGUAGES),
    "max_length": max_length,
    "search": str(search),
    "memory": {"arguments": needed.argument_size_in_bytes, "working": working, "allowed": topology.allowed},
    "estimate": {
      "encoding_cycles": start,
      "token_cycles": token,
      "encoding_seconds": start / clock if clock else None,
      "token_seconds": token / clock if clock else None,
      "captions_per_second": topology.hosts * images * len(LANGUAGES) / seconds if seconds else None,
    },
  }


def text(plan: Mapping[str, Any], topology: Topology) -> str:
  """Formats a plan as a table."""
  memory, estimate = plan["memory"], plan["estimate"]

  def time(part: str) -> str:
    seconds = estimate[f"{part}_seconds"]
    said = f"{estimate[f'{part}_cycles'] / 1e6:.2f} million cycles"
    return said if seconds is None else f"{said}, {seconds * 1e3:.2f} ms"

  rows = [
    ("captions per batch and host", f"{plan['pictures']} pictures x {plan['languages']} languages"),
    ("search", f"{plan['search']}, at most {plan['max_length']} tokens"),
    ("memory: parameters and pictures", f"{memory['arguments'] / 2**30:.3f} GiB"),
    ("memory: caches and everything else", f"{memory['working'] / 2**30:.3f} GiB"),
    (topology.allowance, f"{memory['allowed'] / 2**30:.2f} GiB"),
    ("encoding, and dropping finished captions, once per batch", time("encoding")),
    ("decoding one token of all captions", time("token")),
  ]
  if (speed := estimate["captions_per_second"]) is not None:
    rows.append(("captions per second, all hosts", f"{speed:,.0f}"))
    rows.append((f"{_XM3600:,} captions (XM3600)", f"{_XM3600 / speed:,.1f} s"))
  return Grid((f"decoding on {topology.description}", f"per {topology.unit}"), tuple(rows)).text() + _CAVEAT
