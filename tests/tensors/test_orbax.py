"""What libraries under Orbax print by themselves."""

import subprocess
import sys

import pytest

_PROGRAM = """
import xmcap.tensors.orbax

class Late:
  def __del__(self):
    raise RuntimeError({said!r})

Late()
"""


@pytest.mark.parametrize("said, printed", [("Event loop is closed", False), ("something else", True)])
def test_a_read_that_comes_in_too_late_is_no_traceback(said, printed):
  """TensorStore reports it as Python does an error in `__del__`; pytest has a hook of its own for these."""
  done = subprocess.run([sys.executable, "-c", _PROGRAM.format(said=said)], capture_output=True, text=True)
  assert done.returncode == 0 and (said in done.stderr) is printed, done.stderr
