"""What compiling a step needs of this host, said before it begins, and refused where it cannot end well."""

from collections.abc import Callable

from xmcap import platforms
from xmcap.errors import UsageError
from xmcap.planning.run import PlannedRun

_MT5_VOCABULARY = 250_112


def needed_bytes(run: PlannedRun, programs: int = 1) -> float:
  """Bytes of memory that compiling takes, of `programs` lengths one after the other.

  Fitted with libtpu 0.0.42 to steps of mT5's vocabulary with 64 chips: 4.1 GB for 6 layers that are not scanned, 11.3
  GB for BB's 36, 15.3 GB for these with three lengths.
  """
  vocabulary = run.objective.module.t5.vocab_size / _MT5_VOCABULARY
  layers = 0.24e9 * _layers(run)
  return 0.65e9 + 2e9 * vocabulary + layers * (1 + 0.23 * (programs - 1))


def needed_minutes(run: PlannedRun, programs: int = 1) -> float:
  """Minutes that compiling takes on two cores; fitted like `needed_bytes` (some 7 for a length of BB)."""
  vocabulary = run.objective.module.t5.vocab_size / _MT5_VOCABULARY
  return programs * (4 * vocabulary + _layers(run) / 12)


def check(run: PlannedRun, programs: int, say: Callable[[str], None]) -> None:
  """Says what compiling needs; UsageError if this host's free memory is far from enough, as it would be killed.

  Far: a tenth, which the fit is not better than.
  """
  needed, free = needed_bytes(run, programs), platforms.free_memory()
  minutes = needed_minutes(run, programs)
  said = f"about {needed / 1e9:.0f} GB of this host's memory"
  noun = "a program" if programs == 1 else f"{programs} programs, one for each length of the targets,"
  of_free = "" if free is None else f", of {free / 1e9:.0f} GB free"
  long = f"{minutes:.0f} minutes" if minutes >= 2 else "a minute"
  say(f"compiling {noun} needs {said}{of_free}, and about {long} on 2 cores")
  if free is not None and free < 0.9 * needed:
    way = (
      "" if run.variant.scan else ", or --gin.ViTConfig.scan=True --gin.T5Config.scan=True, which need less"
    )
    raise UsageError(
      f"xmcap plan: compiling needs {said}, and {free / 1e9:.1f} GB are free: end other programs or take a larger "
      f"host{way}"
    )


def _layers(run: PlannedRun) -> int:
  """The number of layers that are compiled one by one; a scanned stack counts as one."""
  module = run.objective.module
  t5, vit = module.t5, module.vit
  stacks = ((vit, vit.depth), (t5, t5.num_encoder_layers), (t5, t5.num_decoder_layers))
  return sum(1 if config.scan else count for config, count in stacks)
