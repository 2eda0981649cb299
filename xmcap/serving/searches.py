"""Parses the names of the searches that a server offers."""

import re
from typing import Any

from xmcap.errors import UsageError
from xmcap.models.decoding.beam_search import Beam
from xmcap.models.decoding.search import Greedy, Sample

MAX = 8
"""Largest number of searches; each is compiled for several shapes."""


def parse(text: str) -> dict[str, Any]:
  """Parses `greedy,beam:4,sample,model` to {name: search}; None: the model's own. UsageError names a wrong one."""
  names = [name.strip() for name in text.split(",")]
  if len(names) > MAX or len(set(names)) < len(names):
    raise UsageError(f"--searches={text}: give at most {MAX} searches, each once")
  return {name: _search(name) for name in names}


def _search(name: str) -> Any:
  named = {"model": None, "greedy": Greedy(), "sample": Sample()}
  if name in named:
    return named[name]
  if beam := re.fullmatch(r"beam:([0-9]{1,9})", name):
    return Beam(beams=int(beam[1]))
  if name.startswith("sample:"):
    raise UsageError(f"--searches: '{name}': give sample; each request sets its own temperature")
  raise UsageError(f"--searches: unknown '{name}': give greedy, beam:BEAMS such as beam:4, sample, or model")
