"""`xmcap train --measure`: the table over sets of flags, with made-up measurements; one is measured in truth."""

import subprocess

import pytest

from tests.make.command import forked, xmcap
from tests.make.small_corpus import SMALLER
from xmcap.commands import measure
from xmcap.launch import runner
from xmcap.planning.measure import Measured

_RUN = ["--gin_file=models/tiny.gin", "--gin_file=data/emoji36.gin", "--gin_file=runs/train.gin"]
_MADE_UP = [*SMALLER, "--gin.T5Config.vocab_size=64", "--gin.BATCH_SIZE=8", "--gin.TARGET_LENGTH=8"]


@pytest.fixture
def hosts(monkeypatch):
  """The commands that were run; `answers` maps a set to the milliseconds of its step, or to how its command fails."""
  commands, answers, limits = [], {}, []

  def execute(argv, limit, captured):
    assert captured
    commands.append(argv)
    limits.append(limit)
    answer = answers[argv[-1].removeprefix("--xla_flags=")]
    if isinstance(answer, str):
      return subprocess.CompletedProcess(argv, 1, b"", f"a line\n{answer}\n".encode())
    said = f"--xla_flags=x: {Measured(12.34, answer)}\n" if answer else ""
    return subprocess.CompletedProcess(argv, 0, said.encode(), b"")

  monkeypatch.setattr(runner, "execute", execute)
  return commands, answers, limits


def _rows(said):
  return [line.split() for line in said.out.splitlines()]


def test_measure_compares_all_sets_of_the_chip(hosts):
  commands, answers, limits = hosts
  answers |= {"none": 20.0, "one_thread": 18.0, "fast_compile": "xmcap: error: no memory"}
  said = xmcap(
    "train", *_RUN, "--gin.BATCH_SIZE=8", "--num_processes=2", "--process_id=1", "--measure"
  ).succeeded()
  assert _rows(said)[2:5] == [
    ["none", "12.3", "20.000", "1.000"],
    ["one_thread", "12.3", "18.000", "0.900"],
    ["fast_compile", "failed"],
  ]
  assert said.out.endswith("The fastest: --xla_flags=one_thread\n")
  assert "--xla_flags=fast_compile: xmcap: error: no memory" in said.err
  words = ["train", *_RUN, "--gin.BATCH_SIZE=8", "--num_processes=2", "--process_id=1", "--measure"]
  assert [command[4:] for command in commands] == [[*words, f"--xla_flags={name}"] for name in answers]
  # Each has its share of what is left of ten minutes.
  assert limits == [
    pytest.approx(600 / 3, abs=20),
    pytest.approx(600 / 2, abs=20),
    pytest.approx(600, abs=20),
  ]


def test_measure_recommends_nothing_for_less_than_a_hundredth(hosts):
  hosts[1].update({"none": 20.0, "--xla_a=1": 19.9})
  said = xmcap("train", *_RUN, "--measure", "--xla_flags=none", "--xla_flags=--xla_a=1").succeeded()
  assert said.out.endswith("No set is 1% faster than --xla_flags=none.\n")


def test_measure_prints_no_table_on_other_hosts(hosts):
  hosts[1].update({"none": None, "one_thread": None, "fast_compile": "lost"})
  assert xmcap("train", *_RUN, "--measure").succeeded().out == ""


def test_measure_without_any_result_fails(hosts):
  hosts[1].update({"none": "xmcap: error: a", "one_thread": "b"})
  said = xmcap("train", *_RUN, "--measure", "--xla_flags=none", "--xla_flags=one_thread")
  said.refused("no set of flags could be measured: xmcap: error: a", code=1)


@pytest.mark.parametrize(
  "options, said",
  [
    (["--measure", "--dry_run"], "--dry_run goes without --measure"),
    (["--measure", "--xla_flags=none", "--xla_flags=none"], "the same is given twice"),
    (["--xla_flags=none", "--xla_flags=one_thread"], "several sets are for xmcap train --measure"),
    (["--xla_flags=fast"], "of a cpu there are none, one_thread, fast_compile"),
  ],
)
def test_measure_refuses_options(hosts, options, said):
  xmcap("train", *_RUN, *options).refused(said)
  assert not hosts[0]


def test_measured_is_read_from_what_it_writes():
  assert Measured.parse(f"a line\n--xla_flags=x: {Measured(1.25, 1234.5)}\n") == Measured(1.2, 1234.5)
  assert Measured.parse("nothing") is None


def _measures():
  assert not measure.several(type("Arguments", (), {"measure": True, "xla_flags": ["none"]}))
  said = xmcap("train", *_RUN, *_MADE_UP, "--gin.Partitioning.fsdp=2", "--measure", "--xla_flags=none")
  said.succeeded()
  print(said.out, end="")


def test_measure_times_a_step_on_these_devices():
  said = forked(_measures, devices=2).succeeded("--xla_flags=none: compiled in")
  result = Measured.parse(said.out)
  assert result and result.compile_seconds > 0 and result.milliseconds > 0
