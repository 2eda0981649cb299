"""The programs of a plan, for the compilation cache of the run, which then need not compile them."""

import contextlib
import os
import pathlib
import tempfile
from collections.abc import Callable, Iterator

import jax

from xmcap.errors import UsageError, XmcapError, one_line
from xmcap.files import files
from xmcap.files.bucket_paths import epath
from xmcap.training import run_arguments
from xmcap.training.compilation_cache import CompilationCache

_SETTINGS = {"jax_enable_compilation_cache": True, "jax_persistent_cache_min_compile_time_secs": 0}


@contextlib.contextmanager
def kept(folder: str | os.PathLike, say: Callable[[str], None]) -> Iterator[None]:
  """Copies the training steps that are compiled within it to `folder`; after an error within, none.

  jax names a program by a hash of its code, the compiler's options and flags, the versions of jaxlib and libtpu, the
  ids of its devices and the topology. A run on such chips asks for its step by that name, so it cannot get that of
  another step or version. No pickle is read: the file holds the executable as libtpu wrote it.

  Raises:
    UsageError: the number of steps, which is part of the program, is not known without the data.
    XmcapError: `folder` cannot be written, or jax kept nothing.
  """
  try:
    run_arguments.Arguments()["total_steps"]()
  except XmcapError as error:
    raise UsageError(
      f"--programs: the number of steps is part of the program: give --gin.TOTAL_STEPS=N ({one_line(error)})"
    ) from None
  with tempfile.TemporaryDirectory() as here, contextlib.ExitStack() as stack:
    for name, value in _SETTINGS.items():
      stack.callback(jax.config.update, name, getattr(jax.config, name))
      jax.config.update(name, value)
    # Empty at first, as jax cannot read a program for chips that are not attached.
    cache = CompilationCache(here)
    stack.callback(cache.close)
    cache.open("", lambda line: None)
    yield
    programs = sorted(pathlib.Path(here).glob("jit_train_step-*-cache"))
    if not programs:
      raise XmcapError("--programs: jax did not keep the compiled step")
    for program in programs:
      try:
        files.write_anywhere(epath.Path(folder) / program.name, program.read_bytes())
      except Exception as error:  # object stores raise many types
        raise XmcapError(f"--programs={folder}: cannot write {program.name}: {one_line(error)}") from None
      say(f"{program.stat().st_size / 1e6:.1f} MB: {folder}/{program.name}")
