"""Settings of a resumed run: changed settings are reported, and other data are refused."""

import json
import shutil

import gin
import pytest
from etils import epath

from tests.make import small_corpus
from tests.training.test_loop import run
from tests.training.toy import ToyStream
from xmcap import configuration
from xmcap.data.stream import CaptionStream, TagStream
from xmcap.errors import UsageError, XmcapError
from xmcap.training.checkpoints import kept_config, settings
from xmcap.training.checkpoints.write import Checkpoints
from xmcap.training.hosts import join as hosts

NOW = settings.Settings({"BATCH_SIZE": "8", "train.seed": "0"}, {"batch_size": 8, "weights": {"en": 1.0}})


class SignedStream(ToyStream):
  def __init__(self, seed=0, **arguments):
    super().__init__(**arguments)
    self.seed = seed

  def signature(self):
    return {"batch_size": self.num_images, "seed": self.seed, "lengths": (8, 12)}


def bind(text):
  """Binds what gin reads, for one start of a run."""
  gin.clear_config()
  with gin.unlock_config():
    gin.parse_config(text)


# ---- of a run ------------------------------------------------------------------------------------


def test_each_setting_that_changed_is_said_with_both_values(tmp_path):
  bind("SEED = 3\nOptimizer.clip_norm = 0.5\nCheckpointPolicy.keep = 2")
  run(tmp_path, 7, SignedStream())
  bind("SEED = 4\nOptimizer.clip_norm = 0.5\nHangLimits.step = 60")
  _, lines = run(tmp_path, 14, SignedStream())
  assert lines[:3] == [
    "changed since checkpoint 7: CheckpointPolicy.keep: 2 -> not set",
    "changed since checkpoint 7: HangLimits.step: not set -> 60",
    "changed since checkpoint 7: SEED: 3 -> 4",
  ]
  assert "resuming from step 7" in lines[3]
  # Checkpoint 14 has the settings of its own start.
  bind("SEED = 5\nOptimizer.clip_norm = 0.5\nHangLimits.step = 60")
  _, lines = run(tmp_path, 20, SignedStream())
  assert lines[0] == "changed since checkpoint 14: SEED: 4 -> 5" and "resuming from step 14" in lines[1]


def test_resume_ignores_the_order_of_settings(tmp_path):
  bind("A = 1\nB = (1,  2)\nOptimizer.clip_norm = %A")
  run(tmp_path, 7, SignedStream())
  bind("B = (1, 2)  # the same\nOptimizer.clip_norm = %A\nA = 1")
  assert "resuming from step 7" in run(tmp_path, 14, SignedStream())[1][0]


@pytest.mark.parametrize(
  "stream, change",
  [(SignedStream(rows=16), "batch_size: 32 -> 16"), (SignedStream(seed=9), "seed: 0 -> 9")],
)
def test_resume_on_other_data_is_refused_without_other_data(tmp_path, stream, change):
  run(tmp_path, 7, SignedStream())
  begun = []
  with pytest.raises(UsageError, match=rf"checkpoints/7: was trained on other data \({change}\)") as error:
    run(tmp_path, 14, stream, begun=begun.append)
  assert "--other_data" in str(error.value).split("\n")[0]
  assert not begun and not (tmp_path / "damaged").exists()
  result, lines = run(tmp_path, 14, stream, other_data=True, begun=begun.append)
  assert lines[0] == f"continuing on other data: {change}" and result.step == 14 and begun == [7]
  # What was asked for once holds for what came of it.
  assert "resuming from step 14" in run(tmp_path, 20, stream)[1][0]
  with pytest.raises(UsageError, match="other data"):
    run(tmp_path, 21, SignedStream())


def test_process_with_other_data_is_named(tmp_path, monkeypatch):
  class Hosts:
    def agree(self, what, mine):
      return [mine, "f" * 64, mine]

    def describe(self, numbers):
      return ", ".join(f"process {number} (w-{number})" for number in numbers)

  monkeypatch.setattr(hosts, "_current", Hosts())
  with pytest.raises(UsageError, match=r"^process 1 \(w-1\) has different data from process 0"):
    settings.of_run(SignedStream())


def test_the_checkpoint_before_a_damaged_one_has_its_own_settings(tmp_path):
  run(tmp_path, 7, SignedStream())
  run(tmp_path, 14, SignedStream(seed=1), other_data=True)
  file = tmp_path / "checkpoints/14/training/settings.json"
  file.write_text(file.read_text().replace('"seed": 1', '"seed": 0'))  # its sum tells
  with pytest.raises(UsageError, match=r"checkpoints/7: was trained on other data \(seed: 0 -> 1\)"):
    run(tmp_path, 20, SignedStream(seed=1))
  assert (tmp_path / "damaged/14").is_dir()


def test_stream_without_a_signature_is_compared_by_batch_size(tmp_path):
  run(tmp_path, 7)
  with pytest.raises(UsageError, match=r"pictures: 32 -> 16"):
    run(tmp_path, 14, ToyStream(rows=16))


def test_a_checkpoint_without_settings_is_damaged(tmp_path, caplog):
  run(tmp_path, 7)
  item = tmp_path / "checkpoints/7/training"
  (item / "settings.json").unlink()
  (item / "crc32.json").unlink()
  with pytest.raises(XmcapError, match="none of the checkpoints"):
    run(tmp_path, 14)
  assert "training/settings.json is missing" in caplog.text and (tmp_path / "damaged/7").is_dir()


# ---- the file ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
  "text", ["[" * 100_000, "[]", "{}", '{"bindings": [], "data": {}}', '{"bindings": {}, "data": NaN}', "\x00"]
)
def test_malformed_settings_file_is_a_value_error(tmp_path, text):
  (tmp_path / "settings.json").write_text(text)
  with pytest.raises(ValueError):
    settings.read(epath.Path(tmp_path))


def test_settings_round_trip(tmp_path):
  (tmp_path / "settings.json").write_text(NOW.encode())
  assert settings.read(epath.Path(tmp_path)) == NOW


def test_settings_changes_in_mappings_and_long_values():
  assert settings.changes({"a": {"en": 1.0, "de": 2}}, {"a": {"en": 1.5, "de": 2}, "b": "x" * 300}) == [
    "a.en: 1.0 -> 1.5",
    "b: not set -> " + "x" * 97 + "...",
  ]


# ---- streams -------------------------------------------------------------------------------------


def signature(corpus, kind=CaptionStream, **arguments):
  import xmcap.tasks.coco35l  # noqa: F401  registers the corpus

  gin.bind_parameter("coco_35l.data_dir", str(corpus))
  defaults = {"mixture": "coco_35l", "batch_size": 8, "image_size": 16, "target_length": 12}
  return json.loads(json.dumps(kind(**{**defaults, **arguments}).signature()))


@pytest.mark.parametrize(
  "arguments, names",
  [
    ({"batch_size": 4}, ["batch_size"]),
    ({"captions_per_image": 2}, ["captions_per_image"]),
    ({"seed": 5}, ["seed"]),
    ({"split": "train[:6]"}, ["split", "pictures"]),
    ({"split": "validation"}, ["split", "pictures", "records"]),
    ({"image_size": 24}, ["image_size"]),
    ({"prompt_length": 5}, ["prompt_length"]),
    ({"target_length": 14}, ["target_lengths"]),
    ({"target_lengths": (6,)}, ["target_lengths"]),
    ({"target_lengths": (6,), "bucket_window": 4}, ["target_lengths", "bucket_window"]),
    ({"languages": ("en", "de")}, ["language_weights"]),
    ({"language_weights": {"en": 2.0}}, ["language_weights"]),
    ({"language_weights": "count"}, ["count_power"]),
    ({"language_weights": "count", "temperature": 2.0}, ["count_power"]),
    # How batches are made, and what becomes of a bad picture, is no other data.
    ({"workers": 3, "depth": 5, "prefetch_bytes": 0, "on_bad": "skip", "bad_limit": 7}, []),
  ],
)
def test_caption_stream_signature_names_changed_options(corpus, arguments, names):
  before, now = signature(corpus), signature(corpus, **arguments)
  assert sorted(name for name in now if now[name] != before[name]) == sorted(names)


def test_signature_of_a_moved_corpus_is_the_same(corpus, tmp_path):
  assert signature(shutil.copytree(corpus, tmp_path / "moved")) == signature(corpus)


def test_signature_of_another_corpus_differs(corpus, tmp_path):
  other = signature(small_corpus.write(tmp_path, train=11))
  before = signature(corpus)
  assert {name for name in other if other[name] != before[name]} == {"records", "pictures"}


def test_tag_and_caption_streams_have_different_signatures():
  assert TagStream.signature is not CaptionStream.signature


# ---- configurations ------------------------------------------------------------------------------


def test_config_gin_is_kept_for_each_start_with_its_step(tmp_path):
  folder = epath.Path(tmp_path)
  kept_config.keep(folder, 0, "A = 1\n")
  kept_config.keep(folder, 7, "A = 1\n")  # nothing new
  kept_config.keep(folder, 14, "A = 2\n")
  kept_config.keep(folder, 14, "A = 3\n")  # the one before came to no checkpoint
  found = {path.name: path.read_text() for path in (tmp_path / "configs").iterdir()}
  assert found == {"000000000.gin": "A = 1\n", "000000014.gin": "A = 2\n", "000000014.1.gin": "A = 3\n"}
  assert (tmp_path / "config.gin").read_text() == "A = 3\n"


def test_full_disk_keeps_the_previous_config_gin(tmp_path, monkeypatch):
  folder = epath.Path(tmp_path)
  kept_config.keep(folder, 0, "A = 1\n")

  def full(self, data):
    open(self, "wb").close()  # as a disk that is full leaves it
    raise OSError(28, "No space left on device")

  monkeypatch.setattr(type(folder), "write_bytes", full)
  with pytest.raises(OSError):
    kept_config.keep(folder, 7, "A = 2\n")
  assert (tmp_path / "config.gin").read_text() == "A = 1\n"


def test_bindings_are_macros_and_parameters_by_name():
  bind("RATE = 1e-4\nOptimizer.clip_norm = %RATE\na/Optimizer.frozen = ['^vit/']\nb/RATE = 2")
  found = configuration.bindings()
  assert found["RATE"] == "0.0001" and found["Optimizer.clip_norm"] == "%RATE"
  assert found["a/Optimizer.frozen"] == "['^vit/']" and found["b/RATE"] == "2"


def test_a_checkpoint_without_settings_is_compared_with_none(tmp_path):
  assert Checkpoints(tmp_path).settings is None
