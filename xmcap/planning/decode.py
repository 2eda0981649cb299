"""The decoding of an evaluation, compiled for a host of a slice: captions of a batch of pictures in all languages."""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from xmcap.evaluation import sharded_params
from xmcap.evaluation.predictor import Predictor
from xmcap.languages import LANGUAGES
from xmcap.models.captioner import Captioner
from xmcap.models.decoding import generator as decoding
from xmcap.models.decoding.search import top_tokens
from xmcap.planning import estimate, hlo, program
from xmcap.planning import run as run_lib
from xmcap.planning.step import costs, explained
from xmcap.planning.topologies import Topology
from xmcap.scoring.grid import Grid
from xmcap.training import sharding
from xmcap.training.state import plan_state


@dataclasses.dataclass(frozen=True)
class DecodePlan:
  """A batch of an evaluation, which the chips of one host share; bytes and seconds of one chip.

  Attributes:
    topology: the chips.
    pictures: a batch, of a host.
    languages: of each picture.
    max_length: tokens of a caption at most.
    search: how captions are found.
    parameters: bytes of them.
    working: bytes beside them: caches, logits, scratch.
    encoding: the least seconds of all that comes before the first token.
    step: those of one token of all rows.
  """

  topology: Topology
  pictures: int
  languages: int
  max_length: int
  search: Any
  parameters: int
  working: int
  encoding: estimate.Bounds
  step: estimate.Bounds

  @property
  def captions_per_second(self) -> float:
    """Of all hosts, by the estimate, where no caption ends before `max_length`: real ones end early, and cost less."""
    seconds = self.encoding.seconds + self.max_length * self.step.seconds
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
  captioner: Captioner = run.objective.module
  devices = topology.devices()
  placed = sharded_params.for_evaluation({}, [one for one in devices if one.process_index == devices[0].process_index])
  pictures = -(-pictures // placed.groups) * placed.groups
  generator = decoding.Generator(captioner, search, max_length, pictures, cache_dtype)
  mesh, whole, rows = placed.mesh, placed.replicated, sharding.batch_sharding(placed.mesh)
  side, count = captioner.vit.image_size, len(LANGUAGES)
  prompt = run.shapes["prompt_tokens"][0][-1]

  def shape(sizes, dtype, lies=rows):
    return jax.ShapeDtypeStruct(sizes, dtype, sharding=lies)

  one = {name: np.zeros((1, *sizes[1:]), dtype) for name, (sizes, dtype) in run.shapes.items()}
  planned = plan_state(run.objective, run.optimizer, one, mesh, placed.rules, run.seed, run.rng_impl)
  params = jax.eval_shape(generator.cast, planned.target.params)
  params = jax.tree.map(lambda leaf: shape(leaf.shape, leaf.dtype, whole), params)
  image = shape((pictures, side, side, 3), np.uint8)
  prompts = shape((pictures, count, prompt), np.int32)
  key = jax.eval_shape(lambda: jax.random.key(0))

  def begin(params, image, prompts):
    apply = functools.partial(captioner.apply, {"params": params})
    encoded, mask = apply(apply(image, method="encode_image"), prompts, method="encode")
    encoded, mask = encoded.reshape(-1, *encoded.shape[2:]), mask.reshape(pictures * count, -1)
    return apply(encoded, mask, max_length, search.beams, method="start_decoding")

  def step(params, tokens, cross, cache):
    logits, cache = captioner.apply(
      {"params": params}, tokens, jnp.int32(max_length - 1), cross, cache, method="decode_step"
    )
    return top_tokens(logits, 1), cache

  with placed.computing():
    try:
      rng, ids = shape(key.shape, key.dtype, whole), shape((pictures,), np.int32)
      generate = decoding.lower(generator, params, image, prompts, rng, ids).compile()
      begun = jax.jit(begin).lower(params, image, prompts).compile()
      caches = jax.tree.map(
        lambda leaf, lies: shape(leaf.shape, leaf.dtype, lies),
        jax.eval_shape(begin, params, image, prompts), begun.output_shardings,
      )  # fmt: skip
      tokens = shape((pictures * count, search.beams), np.int32)
      stepped = jax.jit(step, donate_argnums=3).lower(params, tokens, *caches).compile()
    except jax.errors.JaxRuntimeError as error:
      raise explained(error, run.variant, topology) from None
  places = mesh.devices.flatten().tolist()
  bounds = []
  for compiled in (begun, stepped):
    read = program.read(hlo.Module(compiled.as_text()))
    flops, _ = costs(compiled, read)
    bounds.append(estimate.bounds(flops, read.traffic, read.collectives, topology, places, read.cycles))
  needed = generate.memory_analysis()
  working = needed.temp_size_in_bytes + needed.output_size_in_bytes + needed.generated_code_size_in_bytes
  return DecodePlan(
    topology, pictures, count, max_length, search, needed.argument_size_in_bytes, working, *bounds
  )


def text(plan: DecodePlan) -> str:
  """A plan as a table."""
  rows = (
    ("captions a batch, of each host", f"{plan.pictures} pictures x {plan.languages} languages"),
    ("search", f"{plan.search}, {plan.max_length} tokens at most"),
    ("memory: parameters and pictures", f"{plan.parameters / 2**30:.3f} GiB"),
    ("memory: caches and all else", f"{plan.working / 2**30:.3f} GiB"),
    (f"a {plan.topology.chip.name} allows", f"{plan.topology.chip.hbm / 2**30:.2f} GiB"),
    (
      "pictures and prompts, once a batch",
      f"{plan.encoding.seconds * 1e3:.2f} ms, bound by {plan.encoding.name}",
    ),
    ("a token of all rows", f"{plan.step.seconds * 1e3:.2f} ms, bound by {plan.step.name}"),
    ("captions a second, of all", f"{plan.captions_per_second:,.0f}"),
    ("129,600 captions (XM3600)", f"{129_600 / plan.captions_per_second:,.1f} s"),
  )
  heading = f"decoding on {plan.topology.name} ({plan.topology.chips} chips, {plan.topology.hosts} hosts)"
  note = "Times are estimates, for captions that all have the greatest length.\n"
  return Grid((heading, "a chip"), rows).text() + note


def document(plan: DecodePlan) -> dict[str, Any]:
  """A plan as JSON's types, in bytes and seconds."""
  return {
    "topology": plan.topology.name,
    "pictures": plan.pictures,
    "languages": plan.languages,
    "max_length": plan.max_length,
    "search": str(plan.search),
    "memory": {"arguments": plan.parameters, "working": plan.working, "allowed": plan.topology.chip.hbm},
    "estimate": {
      "encoding_seconds": plan.encoding.seconds,
      "token_seconds": plan.step.seconds,
      "captions_per_second": plan.captions_per_second,
    },
  }
