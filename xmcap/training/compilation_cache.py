"""Keeps a run's compiled programs, so that a restart reads them instead of compiling them again.

JAX's persistent compilation cache does the work: process 0 writes programs that took a second or longer to compile,
and all processes look for theirs by a hash of program, compiler options, versions and topology
(https://docs.jax.dev/en/latest/persistent_compilation_cache.html).
"""

import contextlib
import dataclasses
import os
import re
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import gin
import jax
from jax.experimental.compilation_cache import compilation_cache as jax_cache

from xmcap.files.bucket_paths import epath

FOLDER = "compilation_cache"

# Names of jax's settings, which its type hints leave out.
_DIRECTORY, _XLA_CACHES = "jax_compilation_cache_dir", "jax_persistent_cache_enable_xla_caches"
_SOURCES = "jax_hlo_source_file_canonicalization_regex"
_FAILURE = re.compile(
  r"Error (reading|writing) persistent compilation cache entry for '(.*?)': (.*)", re.DOTALL
)


class Programs(NamedTuple):
  """How many programs this process has looked for in the cache, and found there."""

  asked: int = 0
  found: int = 0

  def all_found_since(self, before: "Programs") -> bool:
    """Whether programs were needed since `before`, and none of them was compiled."""
    return self.asked - before.asked == self.found - before.found > 0


_programs = Programs()


def programs() -> Programs:
  """The count so far."""
  return _programs


def _count(event: str, **_: Any) -> None:
  global _programs
  if event == "/jax/compilation_cache/compile_requests_use_cache":
    _programs = _programs._replace(asked=_programs.asked + 1)
  elif event == "/jax/compilation_cache/cache_hits":
    _programs = _programs._replace(found=_programs.found + 1)


jax.monitoring.register_event_listener(_count)


@gin.configurable
@dataclasses.dataclass(frozen=True)
class CompilationCache:
  """Where a run keeps its compiled programs. A cache that cannot be read or written is reported, and costs only time.

  Attributes:
    folder: a folder on a disk or in a bucket; "": none. None: `MODEL_DIR/compilation_cache` for several processes with
      TPUs or GPUs, else none: XLA's programs for CPUs may crash on another kind of CPU. If JAX_COMPILATION_CACHE_DIR is
      set, None leaves it in force. Who can write the folder can run code in the run.
  """

  folder: str | None = None

  def open(self, model_dir: str | os.PathLike, say: Callable[[str], None]) -> None:
    """Makes jax use the folder, until `close` or the next `open`."""
    self.close()
    folder = self._chosen(model_dir)
    if not folder:
      return
    _restored.callback(jax_cache.reset_cache)
    for name in (_DIRECTORY, _XLA_CACHES, _SOURCES):
      _restored.callback(jax.config.update, name, getattr(jax.config, name))
    _restored.callback(setattr, warnings, "showwarning", warnings.showwarning)
    jax_cache.reset_cache()
    jax_cache.set_cache_dir(folder)
    # XLA's own caches for GPUs would become part of the key, and their folder cannot be in a bucket.
    jax.config.update(_XLA_CACHES, "none")
    # Where a kernel's source lies would become part of the key: all but the last folder is left out.
    jax.config.update(_SOURCES, r".*/(?=[^/]+/[^/]+$)")
    warnings.showwarning = _Reporter(folder, say, warnings.showwarning)
    say(f"compiled programs are kept in {folder}")

  def close(self) -> None:
    """Restores jax's own settings."""
    _restored.close()

  def _chosen(self, model_dir: str | os.PathLike) -> str:
    if self.folder is not None:
      return self.folder
    is_pod = jax.process_count() > 1 and jax.default_backend() != "cpu"
    return os.path.join(model_dir, FOLDER) if is_pod and not getattr(jax.config, _DIRECTORY) else ""


def described() -> str:
  """Says where this process, which opened no `CompilationCache`, keeps its programs."""
  if folder := getattr(jax.config, _DIRECTORY):
    return f"compiled programs are kept in {folder}"
  return "compiled programs are not kept: JAX_COMPILATION_CACHE_DIR=FOLDER keeps them for the next start"


_restored = contextlib.ExitStack()


class _Reporter:
  """Stands for `warnings.showwarning`: says a failure of the cache in one line, once for reading and once for writing.

  A damaged program is deleted by process 0, because jax never replaces one; it is then compiled and written again.
  """

  def __init__(self, folder: str, say: Callable[[str], None], others: Callable[..., None]):
    self._folder, self._say, self._others = folder, say, others
    self._said: set[str] = set()

  def __call__(self, message: Warning | str, *rest: Any, **more: Any) -> None:
    failure = _FAILURE.match(str(message))
    if failure is None:
      self._others(message, *rest, **more)
      return
    kind, program, reason = failure.groups()
    if kind == "reading" and jax.process_index() == 0:
      with contextlib.suppress(Exception):  # object stores raise many types
        for path in epath.Path(self._folder).glob(f"{program}-*-cache"):
          path.unlink()
    if kind not in self._said:
      self._say(
        f"compilation cache {self._folder}: {kind} failed ({' '.join(reason.split())}); the run goes on without"
      )
      self._said.add(kind)
