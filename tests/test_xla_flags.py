"""XLA's flags by chip: what is in the sets, what a user gives, and what the compilers of this install know."""

import os
import re
from pathlib import Path

import pytest

from xmcap import platforms, xla_flags
from xmcap.errors import UsageError

_CHIPS = ("v4", "v5e", "v5p", "v6e", "tpu7x", "gpu", "cpu")
_TPU = ("v4", "v5e", "v5p", "v6e", "tpu7x")


@pytest.fixture(autouse=True)
def environment(monkeypatch):
  for name in xla_flags.VARIABLES:
    monkeypatch.setenv(name, "")


@pytest.fixture
def untried(monkeypatch):
  """The flags that would be tried, by variable; the compilers are not started."""
  tried = {}
  monkeypatch.setattr(xla_flags, "_try", lambda variable, flags, text: tried.update({variable: flags}))
  return tried


def _of(chips):
  """The flags of all sets for some chips, each once."""
  flags = {}
  for chip in chips:
    for entry in xla_flags.sets(chip).values():
      flags |= entry
  return " ".join(f"--{name}={value}" for name, value in flags.items())


def test_xla_flag_sets_have_a_purpose_for_every_flag():
  lines = (Path(xla_flags.__file__).with_suffix(".toml")).read_text().splitlines()
  flags = [line for line in lines if line.startswith("xla_")]
  assert len(flags) > 20 and all(re.fullmatch(r'\w+ = "[^"]+" # .{5,}', line) for line in flags)
  assert all(xla_flags.sets(chip) for chip in _CHIPS)


@pytest.mark.parametrize("variable, chips", [("LIBTPU_INIT_ARGS", _TPU), ("XLA_FLAGS", ("gpu", "cpu"))])
def test_xla_flag_sets_are_known_to_the_compilers(variable, chips):
  if variable == "LIBTPU_INIT_ARGS":
    pytest.importorskip("libtpu")
  xla_flags._try(variable, _of(chips), "all")
  with pytest.raises(UsageError, match="--xla_flags=all: there is no flag xla_no_such") as error:
    xla_flags._try(variable, f"{_of(chips)} --xla_no_such=1", "all")
  assert "\n" not in str(error.value)


def test_xla_flags_with_a_wrong_value_are_refused():
  with pytest.raises(UsageError, match="no value maybe of flag xla_cpu_multi_thread_eigen"):
    xla_flags.use("--xla_cpu_multi_thread_eigen=maybe", "cpu")
  assert not os.environ["XLA_FLAGS"]


@pytest.mark.parametrize(
  "chip, variable", [("tpu7x", "LIBTPU_INIT_ARGS"), ("v4", "LIBTPU_INIT_ARGS"), ("gpu", "XLA_FLAGS")]
)
def test_xla_flags_are_set_where_the_chip_reads_them(untried, chip, variable):
  xla_flags.use("--xla_a=1 --xla_b='' --xla_c", chip)
  assert untried[variable] == os.environ[variable] == "--xla_a=1 --xla_b='' --xla_c"
  assert xla_flags.in_use() == {variable: os.environ[variable]}


def test_xla_flags_of_the_environment_win(untried, monkeypatch):
  monkeypatch.setenv("XLA_FLAGS", "--xla_a=mine --xla_force_host_platform_device_count=8")
  xla_flags.use("--xla_a=1 --xla_b=2", "cpu")
  assert os.environ["XLA_FLAGS"] == "--xla_b=2 --xla_a=mine --xla_force_host_platform_device_count=8"
  assert xla_flags.in_use() == {"XLA_FLAGS": "--xla_b=2 --xla_a=mine"}


def test_xla_flags_none_sets_nothing(untried):
  xla_flags.use("none", "v4")
  assert not untried and not xla_flags.in_use()


@pytest.mark.parametrize(
  "text, said",
  [
    ("fast", "of a cpu there are none, one_thread, fast_compile"),
    ("overlap", "of a cpu there are none"),  # a set of GPUs
    ("--xla_a=1 b", "give flags as --NAME=VALUE"),
    ("", "of a cpu there are none"),
  ],
)
def test_xla_flags_refuses_other_texts(untried, text, said):
  with pytest.raises(UsageError, match=said):
    xla_flags.use(text, "cpu")
  assert not untried


@pytest.mark.parametrize(
  "chosen, tpu, chip",
  [("cpu", "", "cpu"), ("cuda,cpu", "", "gpu"), (None, "v6e", "v6e"), ("tpu,cpu", "tpu7x", "tpu7x")],
)
def test_xla_flags_chip_of_this_host(monkeypatch, chosen, tpu, chip):
  monkeypatch.setattr(platforms, "tpu_kind", lambda: tpu)
  monkeypatch.setenv("JAX_PLATFORMS", chosen or "")
  assert xla_flags.chip_here() == chip


@pytest.mark.parametrize("chosen", ["rocm", ""])
def test_xla_flags_of_an_unknown_chip_are_refused(monkeypatch, chosen):
  monkeypatch.setattr(platforms, "tpu_kind", lambda: "")
  monkeypatch.setenv("JAX_PLATFORMS", chosen)
  with pytest.raises(UsageError, match="the chip of this host is not known: set XLA_FLAGS"):
    xla_flags.chip_here()
