from types import SimpleNamespace

import pytest

from xmcap.files.range_cache import RecordCache
from xmcap.training.hooks import Starving
from xmcap.training.run import Run


def run(step: int, waiting: float | None, reads: float = 0.0) -> Run:
  stream = SimpleNamespace(workers=2, faster=["use more cores", "store smaller pictures"])
  feed = SimpleNamespace(stream=stream, rows=range(300), reading_rate=lambda start: reads)
  metrics = {} if waiting is None else {"waiting_for_data": waiting, "steps_per_second": 2.0}
  return Run("", step, 100, None, feed, None, None, lambda line: None, metrics=metrics)


@pytest.mark.parametrize(
  "reads, said",
  [
    (900.0, "this host read 900 at the start: use more cores, or store smaller pictures"),
    (0.0, "a second: use more cores"),
  ],
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
  (1000.0, "the devices take 600 pictures a second, and this host reads 1,000: enough"),
  (
    700.0,
    "this host reads 700 pictures a second, and the devices could take 600: to be safe it should read 1.2 times that,"
    " 720",
  ),
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


def test_starving_says_nothing_of_pictures_to_a_stream_of_texts(caplog):
  now = run(10, 0.5)
  now.feed.stream = object()
  Starving()(now)
  assert caplog.text.rstrip().endswith("it could train on 1,200 examples a second")


def test_starving_says_what_the_bucket_must_give(monkeypatch):
  monkeypatch.setattr(RecordCache, "describe", lambda cache: "cached in FOLDER")
  lines = []
  starving = Starving()
  for step in (0, 10, 20):
    now = run(step, 0.0 if step else None, 1000.0)
    now.say = lines.append
    now.feed.stream = SimpleNamespace(
      workers=2,
      source=SimpleNamespace(is_remote=True),
      record_bytes=1e5,
      requests_per_image=lambda rows, step: 0.125,
    )
    (starving if step else starving.begin)(now)
  assert lines[1] == "cached in FOLDER"
  assert lines[3:] == [
    "for that, the bucket of all hosts gives 75 reads and 60 MB a second, less what is cached"
  ]


def test_starving_says_if_the_bucket_must_give_more_than_it_begins_with():
  stream = SimpleNamespace(record_bytes=163_200, requests_per_image=lambda rows, step: 1.0)
  now = SimpleNamespace(feed=SimpleNamespace(stream=stream, rows=range(128)), step=10)
  assert Starving()._of_bucket(now, 37_000) == (
    "for that, the bucket of all hosts gives 37,000 reads and 6,038 MB a second, less what is cached, but begins with "
    "about 5,000 reads: raise CaptionStream.neighbours or RecordCache.bytes"
  )


def test_starving_does_not_warn_before_the_first_report(caplog):
  Starving()(run(1, None))
  assert not caplog.records


def test_starving_warns_of_a_device_that_waits_all_the_time(caplog):
  Starving()(run(10, 1.0))
  assert "100% of the time" in caplog.text
