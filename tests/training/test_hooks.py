from types import SimpleNamespace

import pytest

from xmcap.training.hooks import Starving
from xmcap.training.run import Run


def run(step: int, waiting: float | None, reads: float = 0.0) -> Run:
  stream = SimpleNamespace(workers=2)
  feed = SimpleNamespace(stream=stream, rows=range(300), reading_rate=lambda start: reads)
  metrics = {} if waiting is None else {"waiting_for_data": waiting, "steps_per_second": 2.0}
  return Run("", step, 100, None, feed, None, None, lambda line: None, metrics=metrics)


@pytest.mark.parametrize(
  "reads, said", [(900.0, "this host read 900 at the start:"), (0.0, "a second: give")]
)
def test_starving_warns_once_when_the_device_waits_for_data(caplog, reads, said):
  starving = Starving()
  starving.begin(run(0, None, reads))
  for step, waiting in ((10, 0.05), (20, 0.4), (30, 0.6)):
    starving(run(step, waiting))
  (record,) = caplog.records
  message = record.getMessage()
  assert "step 20: the device waits for data 40% of the time" in message
  assert "it could train on 1,000 pictures a second" in message and said in message


@pytest.mark.parametrize("reads, said", [
  (1000.0, "the devices take 600 pictures a second of the 1,000: enough"),
  (700.0, "the devices take 600 pictures a second of the 700: too few: 1.2 times as many are safe"),
])  # fmt: skip
def test_starving_says_once_whether_the_host_reads_fast_enough(reads, said):
  lines = []
  starving = Starving()
  for step, waiting in ((0, None), (10, 0.0), (20, 0.0)):
    now = run(step, waiting, reads)
    now.say = lines.append
    if step:
      starving(now)
    else:
      starving.begin(now)
  assert lines == [f"this host reads {reads:,.0f} pictures a second with 2 threads", said]


def test_starving_does_not_warn_before_the_first_report(caplog):
  Starving()(run(1, None))
  assert not caplog.records


def test_starving_warns_of_a_device_that_waits_all_the_time(caplog):
  Starving()(run(10, 1.0))
  assert "100% of the time" in caplog.text
