"""TensorBoard reads what is written as it reads what `tf.summary` writes."""

import io
import pathlib
import types

import numpy as np
import pytest
from PIL import Image

from xmcap.training.reporting import event_files
from xmcap.training.reporting.event_files import TensorBoard

PICTURES = np.random.default_rng(0).integers(0, 256, (2, 5, 7, 3), np.uint8)


def read(folder):
  """(plugin, tag) -> [(step, value)], by TensorBoard's reader (2.21)."""
  from tensorboard.backend.event_processing.plugin_event_accumulator import EventAccumulator
  from tensorboard.util import tensor_util

  loaded = EventAccumulator(str(folder)).Reload()
  return {
    (plugin, tag): [
      (event.step, tensor_util.make_ndarray(event.tensor_proto).tolist()) for event in loaded.Tensors(tag)
    ]
    for plugin in loaded.ActivePlugins()
    for tag in loaded.PluginTagToContent(plugin)
  }


def write(folder):
  writer = TensorBoard(str(folder))
  writer.event(0, "started", {})
  writer.scalars(1, {"train/loss": 2.5, "eval/cider/zh-Hant": np.float32(0.1)})
  writer.scalars(2, {"train/loss": float("nan"), "time/steps": 10**12})
  writer.show(2, {"captions/xm 3600/0": "| a |\n| - |\n| ü |"}, {"captions/xm 3600": PICTURES})
  writer.close()


def test_event_files_read_as_tensorflows_in_tensorboard(tmp_path):
  tf = pytest.importorskip("tensorflow")
  write(tmp_path / "ours")
  with tf.summary.create_file_writer(str(tmp_path / "theirs")).as_default():
    for name, value in {"train/loss": 2.5, "eval/cider/zh-Hant": np.float32(0.1)}.items():
      tf.summary.scalar(name, value, step=1)
    for name, value in {"train/loss": float("nan"), "time/steps": 10**12}.items():
      tf.summary.scalar(name, value, step=2)
    tf.summary.text("captions/xm 3600/0", "| a |\n| - |\n| ü |", step=2)
    tf.summary.image("captions/xm 3600", PICTURES, step=2, max_outputs=2)
  ours, theirs = read(tmp_path / "ours"), read(tmp_path / "theirs")
  assert ours.keys() == theirs.keys() and len(ours) == 5
  images = ("images", "captions/xm 3600")
  (found,), (expected,) = ours.pop(images), theirs.pop(images)
  assert found[0] == expected[0] == 2 and found[1][:2] == expected[1][:2] == [b"7", b"5"]
  for place, picture in enumerate(PICTURES, start=2):
    np.testing.assert_array_equal(opened(found[1][place]), picture)
    np.testing.assert_array_equal(opened(expected[1][place]), picture)
  np.testing.assert_equal(ours, theirs)  # nan is nan


def opened(png):
  return np.asarray(Image.open(io.BytesIO(png)))


def test_resumed_event_file_purges_later_steps(tmp_path):
  for start, values in ((0, (1.0, 2.0, 3.0, 4.0)), (2, (30.0, 40.0))):
    writer = TensorBoard(str(tmp_path))
    writer.event(start, "started", {})
    for step, value in enumerate(values, start + 1):
      writer.scalars(step, {"loss": value})
    writer.close()
  assert len(list(tmp_path.iterdir())) == 2
  assert read(tmp_path) == {("scalars", "loss"): [(1, 1.0), (2, 2.0), (3, 30.0), (4, 40.0)]}


def test_event_file_is_flushed_after_each_value(tmp_path):
  writer = TensorBoard(str(tmp_path))
  for step in (1, 2):
    writer.scalars(step, {"loss": float(step)})
    assert read(tmp_path)["scalars", "loss"][-1] == (step, step)


def test_event_file_rewrites_events_cut_by_a_full_disk(tmp_path, monkeypatch):
  writer = TensorBoard(str(tmp_path))
  writer.scalars(1, {"loss": 1.0})
  (path,) = tmp_path.iterdir()

  def half(*arguments):
    with path.open("ab") as file:
      file.write(b"half of an event")
    raise OSError(28, "No space left on device")

  with monkeypatch.context() as patched:
    patched.setattr(event_files, "open", half, raising=False)
    with pytest.raises(OSError, match="No space"):
      writer.scalars(2, {"loss": 2.0})
  writer.scalars(3, {"loss": 3.0})
  assert read(tmp_path) == {("scalars", "loss"): [(1, 1.0), (2, 2.0), (3, 3.0)]}


def test_deleted_event_file_is_replaced(tmp_path):
  writer = TensorBoard(str(tmp_path))
  writer.scalars(1, {"loss": 1.0})
  (path,) = tmp_path.iterdir()
  path.unlink()
  writer.scalars(2, {"loss": 2.0})
  assert read(tmp_path) == {("scalars", "loss"): [(2, 2.0)]}


class Store:
  """Objects that are written as a whole; `refusing` says whether a write fails."""

  def __init__(self, monkeypatch, folder):
    self.folder, self.written, self.refusing = folder, [], False
    monkeypatch.setattr(event_files, "epath", types.SimpleNamespace(Path=self.path))

  def path(self, address):
    return types.SimpleNamespace(write_bytes=lambda data: self.write(address, data))

  def write(self, address, data):
    if self.refusing:
      raise OSError("refused")
    path = self.folder / pathlib.PurePosixPath(address).name
    path.write_bytes(data)
    self.written.append((path.name, len(data)))


def test_event_objects_in_a_bucket_are_small_and_rare(tmp_path, monkeypatch):
  now = [0.0]
  monkeypatch.setattr(event_files.time, "monotonic", lambda: now[0])
  monkeypatch.setattr(event_files, "_OBJECT", 2000)
  store = Store(monkeypatch, tmp_path)
  writer = TensorBoard("gs://bucket/run/tensorboard")
  for step in range(1, 101):
    store.refusing = 30 <= step < 40
    try:
      writer.scalars(step, {"loss": float(step)})
    except OSError:
      assert store.refusing
    now[0] += 10.0  # seconds
  writer.close()
  assert read(tmp_path) == {("scalars", "loss"): [(step, step) for step in range(1, 101)]}
  names = [name for name, _ in store.written]
  # A write each 30 seconds; none is much longer than an object may be.
  assert len(names) <= 35 and 1 < len(set(names)) == len(list(tmp_path.iterdir())) < 6
  assert names == sorted(names) and max(size for _, size in store.written) < 3000


def test_event_record_framing_golden():
  """Golden: `tf.io.TFRecordWriter` of TensorFlow 2.21."""
  event = bytes.fromhex("09000000000000f83f1a0e627261696e2e4576656e743a32")
  assert event_files._record(event).hex() == f"1800000000000000a37f4b22{event.hex()}19b0f7d8"
