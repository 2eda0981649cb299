"""setup.py, the locks and docs/install.md name the same packages and extras."""

import json
import pathlib
import re
import runpy

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests import setup_py

ROOT = pathlib.Path(__file__).parents[1]
NOT_LOCKED = {"t5x"}  # comes from its repository


def asked_for() -> list[Requirement]:
  """All requirements of setup.py, those of extras too."""
  return [*setup_py.scoring(), *(asked for of_extra in setup_py.extras().values() for asked in of_extra)]


def locked(name: str, python: str) -> dict[str, Version]:
  """Package -> version of a lock for a version of Python."""
  lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
  machine = {
    "python_full_version": python,
    "python_version": python.rpartition(".")[0],
    "sys_platform": "linux",
  }
  pins = [pin for pin in map(Requirement, lines) if pin.marker is None or pin.marker.evaluate(machine)]
  found = {canonicalize_name(pin.name): Version(str(pin.specifier).removeprefix("==")) for pin in pins}
  assert len(found) == len(pins), "one version of a package"
  return found


@pytest.mark.parametrize("python", ["3.11.0", "3.12.0", "3.13.0"])
def test_every_requirement_is_locked_within_its_bounds(python):
  pins, beam = locked("requirements.lock", python), locked("requirements-beam.lock", python)
  found = asked_for()
  assert len(found) > 40
  for requirement in found:
    name = canonicalize_name(requirement.name)
    if name in NOT_LOCKED:
      continue
    versions = [pin[name] for pin in (pins, beam) if name in pin]
    assert any(requirement.specifier.contains(version, prereleases=True) for version in versions), requirement


def test_jax_has_no_upper_bound_and_its_family_is_of_one_version():
  """Who has a newer jax than was tried keeps it; from 0.11 on, jax needs Python 3.12."""
  bounds = {str(asked.specifier) for asked in asked_for() if asked.name == "jax"}
  assert bounds == {">=0.10.2"}
  family = ("jax", "jaxlib", "jax-cuda12-plugin", "jax-cuda12-pjrt")
  for python, newer in (("3.11.0", False), ("3.12.0", True), ("3.13.0", True)):
    pins = locked("requirements.lock", python)
    assert len({pins[name] for name in family}) == 1
    assert (pins["jax"] >= Version("0.12")) == newer


@pytest.mark.parametrize("name", ["requirements.lock", "requirements-beam.lock"])
def test_lock_files_have_no_urls(name):
  text = (ROOT / name).read_text(encoding="utf-8")
  assert not re.search(r"://|--|@|/", text)


def test_every_dependency_of_whole_commands_has_its_reason_in_setup_py():
  text = (ROOT / "setup.py").read_text(encoding="utf-8")
  extras = setup_py.extras()
  for requirement in (*setup_py.scoring(), *extras["train"], *extras["seqio"], *extras["serve"]):
    assert re.search(rf'"{re.escape(requirement.name)}\W.*",  # \w', text), requirement


def test_install_page_names_every_extra_and_its_table_has_their_purposes():
  page = (ROOT / "docs/install.md").read_text(encoding="utf-8")
  table = runpy.run_path(str(ROOT / ".ci/tables.py"))["extras"]()
  purposes = dict(re.findall(r"^\| `(\w+)` \| (.+?) \|", table, re.MULTILINE))
  for name in setup_py.extras():
    assert f"`{name}`" in page, name
    assert name == "all" or re.search(r"\w{4}", purposes[name]), name


def test_install_page_has_the_sizes_of_the_benchmark():
  measured = json.loads((ROOT / "benchmarks/results/install.json").read_text(encoding="utf-8"))["rows"]
  page = (ROOT / "docs/install.md").read_text(encoding="utf-8")
  for install, *figures, _ in measured:
    (row,) = [line for line in page.splitlines() if line.startswith(f"| {install} |")]
    assert row.endswith(f"| {' | '.join(figures)} |"), f"{row}: measured are {figures}"
