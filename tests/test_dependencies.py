"""setup.py, the locks, docs/dependencies.md and docs/install.md name the same packages and extras."""

import json
import pathlib
import re

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


def locked(name: str) -> dict[str, Version]:
  """Package -> version of a lock."""
  lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
  return {
    canonicalize_name(pin): Version(version)
    for pin, version in (line.split(";")[0].split("==") for line in lines)
  }


def test_all_that_is_asked_for_is_locked_in_its_bounds():
  pins, beam = locked("requirements.lock"), locked("requirements-beam.lock")
  found = asked_for()
  assert len(found) > 40
  for requirement in found:
    name = canonicalize_name(requirement.name)
    if name in NOT_LOCKED:
      continue
    versions = [pin[name] for pin in (pins, beam) if name in pin]
    assert any(requirement.specifier.contains(version, prereleases=True) for version in versions), requirement


@pytest.mark.parametrize("name", ["requirements.lock", "requirements-beam.lock"])
def test_a_lock_names_no_address(name):
  text = (ROOT / name).read_text(encoding="utf-8")
  assert not re.search(r"://|--|@|/", text)


def test_every_dependency_has_its_reason():
  page = "".join(
    (ROOT / f"docs/{name}.md").read_text(encoding="utf-8") for name in ("dependencies", "install")
  ).lower()
  for requirement in asked_for():
    assert requirement.name.lower() in page, requirement.name


def test_every_extra_is_on_the_page_and_all_has_those_that_it_says():
  rows = re.findall(
    r"^\| (`[\w`, ]+) \|(.*)\|$", (ROOT / "docs/install.md").read_text(encoding="utf-8"), re.MULTILINE
  )
  shown = {
    name: rest.strip().endswith("yes") for names, rest in rows for name in re.findall(r"`(\w+)`", names)
  }
  extras = setup_py.extras()
  held = {str(asked) for asked in extras["all"]}
  for name, requirements in extras.items():
    if name != "all":
      assert shown[name] == ({str(asked) for asked in requirements} <= held), name


def test_the_page_has_the_figures_of_the_benchmark():
  measured = json.loads((ROOT / "benchmarks/results/install.json").read_text(encoding="utf-8"))["rows"]
  page = (ROOT / "docs/install.md").read_text(encoding="utf-8")
  for install, *figures, _ in measured:
    (row,) = [line for line in page.splitlines() if line.startswith(f"| {install} |")]
    assert row.endswith(f"| {' | '.join(figures)} |"), f"{row}: measured are {figures}"
