"""A chip that fails in a run: another start, but not twice at the same step, and not for a fault of the program."""

import json
import os
import signal

import jax
import numpy as np
import pytest

from tests.training.test_loop import run
from tests.training.toy import ToyStream
from xmcap.errors import RestartError, XmcapError
from xmcap.training import device_faults, loop
from xmcap.training.checkpoints.retention import CheckpointPolicy
from xmcap.training.hosts import devices
from xmcap.training.hosts import join as hosts

HALTED = (
  "INTERNAL: Accelerator device halted prematurely. Node 0 halted unexpectedly at tag:pc TensorCore:1:0x1d9"
)

# Messages as they were reported, shortened; the last ones are not about a device that another start may mend.
FAULTS = (
  HALTED,
  "INTERNAL: Core halted unexpectedly: No error message available as no compiler metadata was provided.",
  "INTERNAL: Failed to execute program: core halted unexpectedly: INTERNAL: Uncorrectable HBM ECC error",
  "INTERNAL: observed errors are: [Hardware]",
  "FAILED_PRECONDITION: The program continuator has halted unexpectedly.",
  "INTERNAL: An unexpected peer shows up in the launch group with a different launch id than the group leader",
  "ABORTED: Slice is unhealthy",
  "UNAVAILABLE: Detected failure SLICE_FAILURE_CHIP_DRIVER_ERROR in session e6c8",
  "DATA_LOSS: Attempt to access corrupted buffer",
  "INTERNAL: cuDevicePrimaryCtxRetain: CUDA_ERROR_ECC_UNCORRECTABLE: uncorrectable ECC error encountered",
  "INTERNAL: Failed to launch CUDA kernel: fusion_1: CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was"
  " encountered",
  "INTERNAL: CUDA_ERROR_LAUNCH_FAILED: unspecified launch failure",
  "INTERNAL: CUDA error: uncorrectable NVLink error detected during the execution",
  "INTERNAL: stream did not block host until done; was already in an error state",
  "INTERNAL: NCCL operation ncclAllReduce failed: unhandled cuda error",
  "ncclUnhandledCudaError: Call to CUDA function failed. Last error: Cuda failure 999 'unknown error'",
  "NVRM: Xid (PCI:0000:06:00): 79, pid=1, GPU has fallen off the bus.",
  "INTERNAL: Xid 48",
  "INTERNAL: device is lost",
)
OTHERS = (
  "RESOURCE_EXHAUSTED: Ran out of memory in memory space hbm. Used 49.34G of 32.00G hbm.",
  "INTERNAL: CUDA_ERROR_OUT_OF_MEMORY: out of memory",
  "ncclUnhandledCudaError: Call to CUDA function failed. Last error: Cuda failure 2 'out of memory'",
  "INVALID_ARGUMENT: slice is unhealthy",
  "INTERNAL: Xid (PCI:0000:06:00): 13, pid=1",
  "UNAVAILABLE: connection reset",
  "INTERNAL: nvlink exited with non-zero error code 256",
)


def error(text):
  return jax.errors.JaxRuntimeError(text)


@pytest.mark.parametrize("text", FAULTS)
def test_messages_of_failed_devices_ask_for_a_restart(text):
  lost = hosts.as_lost(error(text))
  assert isinstance(lost, RestartError) and text[:60] in str(lost)


@pytest.mark.parametrize("text", OTHERS)
def test_other_messages_are_not_about_a_device(text):
  assert not devices.fault(error(text))


def test_a_corrupt_file_or_value_is_no_failed_device():
  assert devices.fault(ValueError(HALTED))  # of a dispatch
  assert not devices.fault(RuntimeError("DATA_LOSS: Invalid chunk")) and not devices.fault(
    ValueError("my chip is lost")
  )


def test_a_long_message_keeps_the_words_that_tell_and_the_device():
  said = devices.fault(
    error(f"INTERNAL: on device ordinal 3: {'x' * 300} GPU has fallen off the bus {'y' * 300}")
  )
  assert " GPU has fallen off the bus yyy" in said and said.endswith("(device ordinal 3)")


@pytest.fixture
def fail(monkeypatch):
  """Returns a function: the program of the step fails at this call, from 1 on; None: never."""
  at = []

  def fails_at(call, text=HALTED):
    at[:] = [call, text]

  jit = loop.plan_state

  def plan_state(*arguments, **named):
    plan = jit(*arguments, **named)
    made, calls = plan.jit, []

    def of_plan(step):
      program = made(step)

      def call(state, batch):
        calls.append(1)
        if at and len(calls) == at[0]:
          raise error(at[1])
        return program(state, batch)

      return call

    object.__setattr__(plan, "jit", of_plan)
    return plan

  monkeypatch.setattr(loop, "plan_state", plan_state)
  return fails_at


def ends(folder, kind, text, **arguments):
  with pytest.raises(XmcapError, match=text) as raised:
    run(folder, **arguments)
  assert raised.value.exit_code == kind.exit_code
  return str(raised.value)


def test_a_device_that_fails_once_costs_a_restart(tmp_path, fail):
  undisturbed = jax.device_get(run(tmp_path / "other")[0].state)
  fail(10)
  line = ends(
    tmp_path, RestartError, r"^step 10: a device of \S+ failed: INTERNAL: Accelerator device halted"
  )
  assert "start the run again to resume from its newest checkpoint" in line
  assert json.loads((tmp_path / device_faults.FILE).read_text())["step"] == 10
  fail(None)
  result, lines = run(tmp_path)
  assert "resuming from step 7" in lines[0] and not (tmp_path / device_faults.FILE).exists()
  jax.tree.map(np.testing.assert_array_equal, jax.device_get(result.state), undisturbed)


def test_a_second_failure_at_the_same_step_ends_the_run_with_both(tmp_path, fail):
  fail(10)
  ends(tmp_path, RestartError, "^step 10: ")
  fail(3, "INTERNAL: Uncorrectable ECC error")  # after the checkpoint of step 7
  for _ in range(2):
    line = ends(
      tmp_path, XmcapError, "^step 10: a device of .*Uncorrectable ECC.* ended at this step too, at "
    )
    assert "restart from step 7" in line
  fail(4)
  ends(tmp_path, RestartError, "^step 11: ")  # it got further


def test_a_stop_before_the_step_keeps_the_record_and_the_end_of_the_run_removes_it(tmp_path, fail):
  fail(10)
  ends(tmp_path, RestartError, "^step 10: ")
  fail(None)
  stopped = ToyStream(on_batch=lambda step: step == 7 and os.kill(os.getpid(), signal.SIGTERM))
  assert not run(tmp_path, stream=stopped)[0].finished and (tmp_path / device_faults.FILE).exists()
  run(tmp_path, 9)
  assert not (tmp_path / device_faults.FILE).exists()


@pytest.mark.parametrize("text", [HALTED, "INTERNAL: ncclUnhandledCudaError"])
def test_a_failure_in_the_first_step_is_no_reason_for_a_restart(tmp_path, fail, text):
  fail(1, text)
  ends(tmp_path, XmcapError, "^step 1: a device .* no restart, since it was the program's first step")
  assert not (tmp_path / device_faults.FILE).exists()


def test_the_first_run_of_another_program_is_a_first_step(tmp_path, fail):
  class Shapes(ToyStream):
    def batch(self, step, rows=None):
      batch = super().batch(step, rows)
      return (
        {**batch, "x": np.pad(batch["x"], ((0, 0), (0, 0)))} if step < 9 else {**batch, "more": batch["w"]}
      )

  fail(10)
  ends(tmp_path, XmcapError, "^step 10: .*no restart", stream=Shapes())


def test_lack_of_memory_is_no_failed_device(tmp_path, fail):
  fail(10, OTHERS[0])
  with pytest.raises(jax.errors.JaxRuntimeError, match="RESOURCE_EXHAUSTED"):
    run(tmp_path)


def test_a_device_that_fails_in_an_evaluation_or_a_checkpoint(tmp_path, monkeypatch):
  class Broken:
    def run(self, params, step):
      raise error(HALTED)

  policy = CheckpointPolicy(every=0)
  ends(tmp_path, RestartError, "^step 10: ", evaluators=[Broken()], eval_every=9, checkpoint=policy)
  ends(tmp_path, XmcapError, "^step 10: .* too, at", evaluators=[Broken()], eval_every=9, checkpoint=policy)
  assert not list((tmp_path / "checkpoints").glob("[0-9]*"))


@pytest.mark.parametrize("text", ["{", "[]", '{"step": "7"}', '{"step": 10, "host": 1}'])
def test_a_damaged_record_counts_as_none(tmp_path, fail, text, caplog):
  (tmp_path / device_faults.FILE).write_text(text)
  fail(10)
  ends(tmp_path, RestartError, "^step 10: ")
  assert "not used" in caplog.text
  assert json.loads((tmp_path / device_faults.FILE).read_text())["step"] == 10


@pytest.mark.parametrize("in_bucket", [False, True])
def test_the_record_of_another_host_is_not_removed(tmp_path, request, in_bucket):
  class Progress:
    done = 0

    def undone(self):
      return 5, True

  def start():
    return device_faults.DeviceFaults("gs://bucket/runs/toy" if in_bucket else tmp_path, Progress())

  folder = request.getfixturevalue("store").folder / "runs/toy" if in_bucket else tmp_path
  file = folder / device_faults.FILE
  for each in [start(), start()]:  # both fail in the same start: neither is a second failure
    with pytest.raises(RestartError), each:
      raise error(HALTED)
  assert [path.name for path in folder.iterdir()] == [file.name]
  last, again = start(), start()
  with pytest.raises(XmcapError, match="^step 5: .* too, at"), last:
    raise error(HALTED)
  record = file.read_text()
  file.write_text(record.replace('"step": 5', '"step": 6'))
  Progress.done = 5
  again.check()
  assert '"step": 6' in file.read_text()
  file.write_text(record)
  Progress.done = 4
  later = start()
  later.check()
  assert file.exists()
  Progress.done = 5
  later.check()
  assert not file.exists()
