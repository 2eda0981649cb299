"""Functions that numba compiles: once, where what is compiled can be kept for later processes.

Importing a module of such functions compiles them, or loads what was kept. numba keeps it in `__pycache__` beside the
source, or else in the user's own cache, or where NUMBA_CACHE_DIR says, and like the .pyc files there it is code. What
is kept is used for as long as the file of an entry stays as it is: so an entry calls what is compiled, and uses
constants, of its own file alone.
"""

from collections.abc import Callable

import numba

not_kept: list[str] = []  # why what this process compiled is not kept for others

inner = numba.njit(nogil=True)
"""For functions that entries call."""


def entry(signature: str) -> Callable[[Callable], Callable]:
  """For functions that Python calls; `signature` is of the arguments, such as "(int64[::1], int64)"."""

  def compile_or_load(function: Callable) -> Callable:
    try:
      return numba.njit(signature, nogil=True, cache=True)(function)
    except Exception as error:
      # No folder can be written to, the disk is full, or what was kept is damaged, which raises anything. If the
      # function is at fault, it is so again.
      compiled = numba.njit(signature, nogil=True)(function)
      not_kept.append(" ".join(str(error).split())[:200] or type(error).__name__)
      return compiled

  return compile_or_load
