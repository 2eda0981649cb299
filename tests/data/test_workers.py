"""Decoding in worker processes: the batches of threads, one-line errors, and no process left behind."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from tests.data.streams import captions, equal
from tests.make.tiny_corpus import NUM_PICTURES, SIDE, tiny_record, write_corpus
from tests.sessions import alive
from xmcap import processes as processes_lib
from xmcap.data import images
from xmcap.data import workers as decoders
from xmcap.data.stream import CaptionStream, TagStream
from xmcap.data.tag_prompts import TagPrompts
from xmcap.data.workers import reading_rate
from xmcap.errors import UsageError, XmcapError
from xmcap.processes import Killed

pytestmark = pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="needs Linux")

PROGRAM = """
import itertools, sys, time
import gin
from xmcap.data.registry import register_corpus
from xmcap.data.stream import TagStream
register_corpus("tiny_decoders")
gin.bind_parameter("tiny_decoders.data_dir", sys.argv[1])
stream = TagStream("tiny_decoders", batch_size=24, image_size=8, workers=2, processes=True)
next(stream.batches(3))
workers = []
while not stream.maker.decoders._idle.empty():
  workers.append(stream.maker.decoders._idle.get()[0])
print(*(worker._process.pid for worker in workers), flush=True)
if sys.argv[2] == "wait":
  time.sleep(600)
"""


def test_decoding_processes_give_the_batches_of_threads(tiny, tmp_path):
  tags = tmp_path / "tags.jsonl"
  keys = [f"{index:016x}" for index in range(NUM_PICTURES)]
  lines = [{"image/key": key, "language": "en", "tags": [key[-1]]} for key in keys]
  tags.write_text("\n".join(map(json.dumps, lines)))
  options = dict(
    batch_size=48, augment=images.Augment(min_area=0.5, flip=True), target_length=12, target_lengths=(6, 12),
    bucket_window=2, prompt_length=6, prompt_tags=TagPrompts(str(tags), language="en"),
  )  # fmt: skip
  in_threads = captions(tiny, workers=2, processes=False, **options)
  stream = captions(tiny, workers=2, processes=True, **options)
  try:
    endless, rows = stream.batches(3), np.arange(1, 24, 2)
    for step in (3, 4, 5):
      equal(next(endless), in_threads.batch(step))
    endless.close()
    # The same processes, far away, for some rows, and for a stream of other batches.
    far = 10**9
    equal(next(stream.batches(far, rows, num_steps=1)), in_threads.batch(far, rows))
    equal(next(stream.resized(10).batches(2, num_steps=1)), in_threads.resized(10).batch(2))
    assert stream.lost == in_threads.lost and stream.signature() == in_threads.signature()
    assert reading_rate(stream, 24, seconds=0.05) > 0
  finally:
    stream.close()
  assert not [thread for thread in threading.enumerate() if thread.name.startswith("prefetch")]


def test_bad_pictures_are_left_out_and_counted_once(tmp_path, register):
  pictures = [tiny_record(index) for index in range(NUM_PICTURES)]
  for index in (3, 8):
    pictures[index].image = pictures[index].image[:60]
  name = register(write_corpus(tmp_path / "corpus", pictures)).name
  made = {}
  for processes in (False, True):
    stream = TagStream(name, batch_size=12, image_size=SIDE, on_bad="skip", workers=2, processes=processes)
    stream.skipped.list_in(tmp_path / f"list{processes}")
    stream.begin()
    made[processes] = [*stream.batches(num_steps=4)], stream.lost
    stream.close()
  for one, other in zip(made[False][0], made[True][0], strict=True):
    equal(one, other)
  assert made[False][1] == made[True][1] == {"pictures that cannot be decoded": 4, **made[False][1]}
  listed = [sorted((tmp_path / f"list{processes}").read_text().splitlines()) for processes in (False, True)]
  assert listed[0] == listed[1] and len(listed[0]) == 2
  stream = TagStream(name, batch_size=12, image_size=SIDE, workers=1, processes=True)
  with pytest.raises(XmcapError, match=r"^picture '0{15}[38]': .*on_bad = 'skip'$"):
    [next(batches) for batches in [stream.batches()] for _ in range(4)]
  stream.close()


def test_killed_decoding_process_is_named_in_one_line(tiny):
  stream = TagStream(tiny.name, batch_size=24, image_size=SIDE, workers=1, processes=True)
  stream.begin()
  lane = stream.maker.decoders._idle.get()
  lane[0]._process.kill()
  stream.maker.decoders._idle.put(lane)
  with pytest.raises(Killed, match=r"killed \(signal 9; .*\): use fewer .* \(TagStream.workers is 1\)$"):
    next(stream.batches())
  stream.close()


@pytest.mark.parametrize("end", ["kill", "exit"])
def test_decoding_processes_end_with_the_program(tiny_dir, tmp_path, end):
  """The program has no guard around its main part: the processes must not run it again."""
  path = tmp_path / "program.py"
  path.write_text(PROGRAM)
  how = "wait" if end == "kill" else "go"
  program = subprocess.Popen([sys.executable, path, tiny_dir, how], stdout=subprocess.PIPE, text=True)
  pids = [int(pid) for pid in program.stdout.readline().split()]
  assert len(pids) == 2
  if end == "kill":
    assert all(map(alive, pids))
    # What has a name there would stay after a kill.
    for pid in (program.pid, *pids):
      maps = pathlib.Path(f"/proc/{pid}/maps").read_text()
      assert "/dev/shm" not in maps
      assert pid == program.pid or "/memfd:xmcap-pixels" in maps
    program.send_signal(signal.SIGKILL)
  assert program.wait(timeout=60) == (-signal.SIGKILL if end == "kill" else 0)
  program.stdout.close()
  deadline = time.monotonic() + 10
  while any(map(alive, pids)) and time.monotonic() < deadline:
    time.sleep(0.05)
  assert not any(map(alive, pids))


@pytest.mark.parametrize("cores, processes, workers", [(2, False, 2), (8, True, 8), (240, True, 64)])
def test_many_cores_are_used_by_processes(tiny, monkeypatch, cores, processes, workers):
  monkeypatch.setattr(processes_lib, "available_cores", lambda: cores)
  stream = captions(tiny, processes=None)
  assert (stream.processes, stream.workers) == (processes, workers)
  assert captions(tiny, processes=None, workers=100).workers == 100
  assert not captions(tiny).processes


def test_decoding_processes_are_refused_with_stored_features(tiny, monkeypatch):
  monkeypatch.setattr(processes_lib, "available_cores", lambda: 48)
  with pytest.raises(UsageError, match=r"^CaptionStream.processes: processes make batches only on Linux"):
    CaptionStream(tiny.name, batch_size=2, features="none", processes=True)


def test_cores_for_the_image_rate_of_a_host():
  """BB at K = 1 on v4-128 takes 2,148 pictures a second of each host."""
  assert decoders.cores_for(2_148) == 13  # 1.2 x 2,148 / 200 = 12.9
  assert decoders.cores_for(150) == 1
