"""The searches that a server offers, by the names by which they are asked for."""

from typing import Any

from xmcap.errors import UsageError
from xmcap.models.decoding.beam_search import Beam
from xmcap.models.decoding.search import Greedy, Sample

MAX = 8
"""Searches that a server offers: each is compiled for several shapes."""


def parse(text: str) -> dict[str, Any]:
  """`greedy,beam:4,sample:0.7,model` as searches by name; None is the model's own. UsageError names a wrong one."""
  names = [name.strip() for name in text.split(",")]
  if len(names) > MAX or len(set(names)) < len(names):
    raise UsageError(f"--searches={text}: name at most {MAX}, and each once")
  return {name: _search(name) for name in names}


def _search(name: str) -> Any:
  kind, _, number = name.partition(":")
  try:
    if name == "model":
      return None
    if name == "greedy":
      return Greedy()
    if kind == "beam":
      return Beam(beams=int(number))
    if kind == "sample":
      return Sample(temperature=float(number))
  except ValueError:
    pass  # worded below
  raise UsageError(
    f"--searches: '{name}' is none: give greedy, beam:BEAMS such as beam:4, sample:TEMPERATURE such as sample:0.7, or "
    "model"
  )
