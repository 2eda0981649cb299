"""Orbax: messages of TensorStore that are suppressed, and the size limit of metadata."""

import subprocess
import sys

import pytest
from etils import epath

from xmcap.errors import UsageError
from xmcap.files import orbax

_PROGRAM = """
import xmcap.files.orbax

class Late:
  def __del__(self):
    raise RuntimeError({said!r})

Late()
"""


@pytest.mark.parametrize("said, printed", [("Event loop is closed", False), ("something else", True)])
def test_closed_event_loop_of_tensorstore_prints_no_traceback(said, printed):
  """TensorStore reports it as Python does an error in `__del__`; pytest has a hook of its own for these."""
  done = subprocess.run([sys.executable, "-c", _PROGRAM.format(said=said)], capture_output=True, text=True)
  assert done.returncode == 0 and (said in done.stderr) is printed, done.stderr


def test_orbax_metadata_over_the_size_limit_are_refused(tmp_path):
  with open(tmp_path / "_METADATA", "wb") as file:
    file.truncate(2**26 + 1)
  with pytest.raises(UsageError, match="_METADATA: 67,108,865 bytes; a checkpoint has at most 67,108,864"):
    orbax.check_metadata(epath.Path(tmp_path))
