"""What a release of jax may move: where a test fails, mend `jax_internals.py`, then raise the bound in setup.py."""

import inspect
import re
import sys
from pathlib import Path

import jax
import pytest

from xmcap.errors import XmcapError
from xmcap.training.hosts import jax_internals

ROOT = Path(__file__).parents[3]


def test_the_client_has_what_the_processes_say_to_each_other_by():
  from jax._src.lib import _jax

  assert jax_internals.coordination_client() is None, "no processes have joined"
  for name in ("key_value_set", "key_value_dir_get", "wait_at_barrier"):
    assert callable(getattr(_jax.DistributedRuntimeClient, name)), f"jax {jax.__version__}"


def test_the_search_for_a_cluster_takes_what_it_is_given():
  from jax._src.clusters import ClusterEnv

  names = list(inspect.signature(ClusterEnv.auto_detect_unset_distributed_params).parameters)
  assert names == ["coordinator_address", "num_processes", "process_id", "local_device_ids",
                   "cluster_detection_method", "initialization_timeout"], f"jax {jax.__version__}"  # fmt: skip
  assert jax_internals.find_cluster(1) == (None, None, None, None), "this machine is of no cluster"


@pytest.mark.parametrize(
  "module, call",
  [("distributed", jax_internals.coordination_client), ("clusters", lambda: jax_internals.find_cluster(1))],
)
def test_what_has_moved_is_one_line(monkeypatch, module, call):
  monkeypatch.delattr(sys.modules["jax._src"], module)
  monkeypatch.setitem(sys.modules, f"jax._src.{module}", None)
  with pytest.raises(
    XmcapError, match=rf"jax {re.escape(jax.__version__)} has no jax._src.{module}.*setup.py"
  ):
    call()


def test_no_other_file_of_the_package_uses_them():
  files = [path for path in (ROOT / "xmcap").rglob("*.py") if "jax._src" in path.read_text(encoding="utf-8")]
  assert [path.name for path in files] == ["jax_internals.py"]


def test_setup_bounds_jax():
  ((low, high),) = re.findall(
    r'"jax>=(\d+\.\d+\.\d+),<(\d+\.\d+)"', (ROOT / "setup.py").read_text(encoding="utf-8")
  )
  numbers = [tuple(map(int, version.split("."))) for version in (low, jax.__version__, high)]
  assert numbers[0] <= numbers[1] < numbers[2], "this jax was not tried: setup.py names others"
