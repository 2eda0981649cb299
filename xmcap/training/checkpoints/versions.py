"""Keeps a run's versions of libraries and XLA flags in `versions.json`, and says on resume when they differ.

Other versions may give other bits: the same command resumes, but no longer ends as an undisturbed run would.
"""

import importlib.metadata
import json
import platform
from collections.abc import Callable

from xmcap import __version__, xla_flags
from xmcap.files.bucket_paths import epath
from xmcap.files.files import write_anywhere
from xmcap.training.checkpoints import small_json

NAME = "versions.json"

_PACKAGES = ("jax", "jaxlib", "libtpu", "flax", "optax", "orbax-checkpoint", "tensorstore", "numpy", "pillow")


def here() -> dict[str, str]:
  """Name -> version of what may change a run's numbers, as far as it is installed; and the flags of its compiler."""
  versions = {"python": platform.python_version(), "xmcap": __version__}
  for name in _PACKAGES:
    try:
      versions[name] = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
      continue
  return versions | xla_flags.in_use()


def keep(model_dir: epath.Path, step: int, say: Callable[[str], None] = print) -> None:
  """Writes the versions of a run that begins at `step`; a line says which differ from those of its last start.

  OSError if they cannot be written.
  """
  file, now = model_dir / NAME, here()
  if file.exists():
    try:
      before = small_json.read(file)
    except ValueError:
      before = {}
      say(f"{file}: cannot be read, so the versions of the last start are unknown")
    names = [name for name in dict.fromkeys([*now, *before]) if before and now.get(name) != before.get(name)]
    if names and step:
      changes = ", ".join(f"{name} {before.get(name, 'none')} -> {now.get(name, 'none')}" for name in names)
      say(f"other versions than at the last start: {changes}; the run may end with other bits")
    if before == now:
      return
  write_anywhere(file, (json.dumps(now, indent=2) + "\n").encode())
