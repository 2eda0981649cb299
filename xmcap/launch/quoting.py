"""Quotes words for bash."""

import re
import shlex
from collections.abc import Sequence

from xmcap.terminal import is_plain

# Kubernetes expands $(NAME) in a container's command, and XPK formats its templates with braces.
_XPK_UNSAFE = re.compile(r"[^ -~]|[${}]")
_OPTION = re.compile(r"--[a-z][a-z-]*=")


def word(text: str) -> str:
  """Quotes a text as one word on one line, without control characters."""
  return shlex.quote(text) if is_plain(text) else _escaped(text)


def words(texts: Sequence[str]) -> str:
  """Quotes a simple command on one line."""
  return " ".join(map(word, texts))


def shown(texts: Sequence[str]) -> str:
  """Quotes a simple command for printing: a script within an argument keeps its lines."""
  parts = []
  for text in texts:
    option = _OPTION.match(text)
    name = option[0] if option else ""
    value = text[len(name) :]
    parts.append(name + (shlex.quote(value) if all(map(is_plain, value.split("\n"))) else _escaped(value)))
  return " ".join(parts)


def xpk_words(texts: Sequence[str]) -> str:
  """Quotes a simple command so that it also passes through XPK's template, YAML and Kubernetes unchanged.

  The result is one line of ASCII without `{`, `}` and `$`, except for `$'` at the beginning of a word.
  """
  return " ".join(_escaped(text) if _XPK_UNSAFE.search(text) else shlex.quote(text) for text in texts)


def _escaped(text: str) -> str:
  """Returns `$'...'`, in which shell characters and everything but printable ASCII are octal escapes."""
  parts = []
  for byte in text.encode("utf-8", "surrogateescape"):
    plain = 32 <= byte < 127 and chr(byte) not in "\\'${}`!"
    # Always three digits, so that a following digit is not part of the escape.
    parts.append(chr(byte) if plain else f"\\{byte:03o}")
  return "$'" + "".join(parts) + "'"
