"""What is odd in a `tokenizer.json`: what would make tokenizers panic, run for hours, or draw lots."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from xmcap.terminal import shown

MOST_GROWTH = 64
"""The most that the normaliser may lengthen a text, in characters; NFKD's longest letter gives 18."""

_STEPS = {"normalizer": "normalizers", "pre_tokenizer": "pretokenizers", "post_processor": "processors"}
_MOST_STEPS = 64  # published tokenizers have ten; each of them reads every text
_MOST_ADDED = 1024


def oddity(values: Any) -> str:
  """Returns what is odd in the parsed file, in words; "" for a tokenizer that can be used.

  Only what is odd is looked for: other damage is the library's to refuse.
  """
  if not isinstance(values, Mapping):
    return "not an object"
  model = values.get("model")
  if isinstance(model, Mapping):
    if model.get("dropout"):
      return f"its BPE leaves out merges at random (dropout {shown(str(model['dropout']), 20)})"
    unknown, vocabulary = model.get("unk_token"), model.get("vocab")
    if isinstance(unknown, str) and isinstance(vocabulary, Mapping) and unknown not in vocabulary:
      return f"its token for unknown pieces, {shown(unknown, 40)}, is not in its vocabulary"
  for name, of_sequence in _STEPS.items():
    if (steps := sum(1 for _ in _parts(values.get(name), of_sequence))) > _MOST_STEPS:
      return f"its {name} has {steps:,} steps"
  for part in _parts(values.get("post_processor"), "processors"):
    if part.get("type") != "TemplateProcessing":
      continue
    special, added = part.get("special_tokens"), 0
    for name in _template(part):
      if not isinstance(special, Mapping) or name not in special:
        return f"its template adds {shown(name, 40)}, which it does not define"
      ids = special[name].get("ids") if isinstance(special[name], Mapping) else None
      added += len(ids) if isinstance(ids, list) else 1
    if added > _MOST_ADDED:
      return f"its template adds {added:,} tokens to a text"
  growth = 1.0
  for part in _parts(values.get("normalizer"), "normalizers"):
    growth *= _growth(part)
  return f"its normaliser makes texts up to {growth:,.0f} times as long" if growth > MOST_GROWTH else ""


def _parts(value: Any, of_sequence: str) -> Iterator[Mapping[str, Any]]:
  """Yields the parts of a value, which may be a Sequence of others."""
  left = [value]
  while left:
    value = left.pop()
    if isinstance(value, Mapping):
      yield value
      within = value.get(of_sequence)
      left += within if isinstance(within, list) else []


def _template(part: Mapping[str, Any]) -> Iterator[str]:
  for form in ("single", "pair"):
    pieces = part.get(form)
    for piece in pieces if isinstance(pieces, list) else ():
      token = piece.get("SpecialToken") if isinstance(piece, Mapping) else None
      if isinstance(token, Mapping) and isinstance(token.get("id"), str):
        yield token["id"]


def _growth(part: Mapping[str, Any]) -> float:
  """Returns how many characters a normaliser may make of one."""
  if part.get("type") == "Prepend":
    return 1.0 + len(str(part.get("prepend")))
  content, pattern = part.get("content"), part.get("pattern")
  if part.get("type") != "Replace" or not isinstance(content, str) or not isinstance(pattern, Mapping):
    return 1.0
  text = pattern.get("String")
  if isinstance(text, str):
    return max(1.0, len(content) / max(1, len(text)))
  # A regular expression that matches nothing inserts its content between all characters.
  regex = pattern.get("Regex")
  empty = isinstance(regex, str) and _matches_nothing(regex)
  return max(1.0, len(content) + empty)


def _matches_nothing(regex: str) -> bool:
  try:
    return re.compile(regex).fullmatch("") is not None
  except (re.error, RecursionError, OverflowError):  # the library has another dialect
    return True
