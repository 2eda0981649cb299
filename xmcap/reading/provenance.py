"""What a file of captions came from: NAME.provenance.json beside NAME.jsonl, with the digest of that file."""

import hashlib
import json
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from xmcap import digests
from xmcap.errors import UsageError, one_line
from xmcap.files import files

_DIGEST = "captions_sha256"


def path_of(captions: str | os.PathLike) -> str:
  """Returns the path of the provenance of a file."""
  return f"{os.path.splitext(captions)[0]}.provenance.json"


def write(captions: str | os.PathLike, fields: Mapping[str, Any]) -> None:
  """Writes the provenance of a local file of captions beside it."""
  text = json.dumps({**fields, _DIGEST: _digest(captions)}, ensure_ascii=False, indent=2)
  files.write_text(path_of(captions), f"{text}\n")


def read(captions: str | os.PathLike) -> dict[str, Any] | None:
  """Returns the provenance of a file, None if it has none; UsageError if it is damaged or of another file."""
  path = pathlib.Path(path_of(captions))
  if not (path.is_file() and os.path.isfile(captions)):
    return None
  try:
    fields = json.loads(path.read_bytes())
    expected = fields[_DIGEST]
  except (OSError, ValueError, LookupError, TypeError, RecursionError) as error:
    raise UsageError(f"{path}: not a provenance of captions ({one_line(error)}): remove it") from None
  if _digest(captions) != expected:
    raise UsageError(f"{captions} is not the file of {path}: write it again, or remove its provenance")
  return fields


def captioner(paths: Sequence[Any]) -> str:
  """Returns what wrote files of captions, for a signature; "" if one of them does not say."""
  named = [
    _named(fields) if isinstance(path, str | os.PathLike) and (fields := read(path)) else "" for path in paths
  ]
  return "+".join(dict.fromkeys(named)) if all(named) else ""


def _named(fields: Mapping[str, Any]) -> str:
  try:
    if "captioner" in fields:
      return f"{fields['captioner']}#{fields['module_sha256'][:8]}".replace("|", "/")
    shots, extra = fields["shots"], sorted(fields["extra_body"].items())
    named = [fields["model"], f"prompt={fields['prompt']['name']}", fields["strategy"]]
    named.append(f"shots={digests.of_texts(shots) if shots else 0}")
    named += [f"extra_body=#{digests.of_json(extra)}"] if extra else []
    return ",".join(named).replace("|", "/")
  except (LookupError, TypeError, AttributeError):
    raise UsageError(
      "a provenance of captions without model, prompt, strategy, shots and extra_body: remove it"
    ) from None


def _digest(path: str | os.PathLike) -> str:
  with open(path, "rb") as file:
    return hashlib.file_digest(file, "sha256").hexdigest()
