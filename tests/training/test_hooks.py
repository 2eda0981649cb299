import pytest

from xmcap.training.hooks import Run, Starving


def run(step: int, waiting: float) -> Run:
  return Run(step, 100, None, None, None, metrics={"waiting_for_data": waiting, "steps_per_second": 2.0})


@pytest.mark.parametrize(
  "reads, said", [(900.0, "at the start this host read 900:"), (0.0, "a second: give")]
)
def test_a_host_whose_device_waits_for_data_says_so_once(caplog, reads, said):
  starving = Starving(rows=300, reads=reads)
  for step, waiting in ((10, 0.05), (20, 0.4), (30, 0.6)):
    starving(run(step, waiting))
  (record,) = caplog.records
  message = record.getMessage()
  assert "step 20: the device waits for data 40% of the time" in message
  assert "its steps take 1,000 pictures a second" in message and said in message


def test_no_warning_before_the_first_report(caplog):
  Starving(rows=300, reads=0)(Run(1, 100, None, None, None))
  assert not caplog.records


def test_a_device_that_only_waits(caplog):
  Starving(rows=300, reads=0)(run(10, 1.0))
  assert "100% of the time" in caplog.text
