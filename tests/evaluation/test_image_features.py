"""The command `xmcap features`, on the folder of a small dual tower."""

import dataclasses
import pathlib
import socket
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

from tests.make import models
from tests.make.models import DUAL_VIT as VIT
from tests.make.tiny_corpus import NUM_PICTURES
from tests.options import changed
from xmcap.cli import main
from xmcap.data import features, images, record_features
from xmcap.data.records import RecordSource
from xmcap.errors import UsageError
from xmcap.evaluation import image_features
from xmcap.models.vit import ViT

ROOT = pathlib.Path(__file__).parents[2]
SIDE = VIT.image_size


@pytest.fixture(scope="module")
def run(tmp_path_factory, tiny_dir):
  """A run's folder, and the parameters of its ViT."""
  folder = models.dual_tower(tmp_path_factory.mktemp("dual") / "run", f"{tiny_dir}/vocabulary.model")
  return folder, models.dual_params()["vit"]


@pytest.fixture
def photos(tmp_path):
  rng = np.random.default_rng(0)
  (tmp_path / "photos").mkdir()
  for key, shape in {"a": (30, 40, 3), "b": (20, 18, 3), "c": (40, 40, 3)}.items():
    Image.fromarray(rng.integers(255, size=shape, dtype=np.uint8)).save(tmp_path / "photos" / f"{key}.png")
  return tmp_path / "photos"


def made(run, out, *options):
  return main(["features", *changed([f"--model_dir={run[0]}", f"--out={out}"], [*map(str, options)])])


def tokens(params, pixels, pool=VIT.pool):
  return np.asarray(ViT(dataclasses.replace(VIT, pool=pool)).apply({"params": params}, np.stack(pixels)))


def crops_by_hand(file):
  """Ten crops with Pillow's own crop and mirror."""
  picture = Image.open(file)
  side = round(SIDE * 256 / 224)
  scale = side / min(picture.size)
  picture = picture.resize([int(scale * length) for length in picture.size], Image.Resampling.BILINEAR)
  right, bottom = picture.width - SIDE, picture.height - SIDE
  corners = [(0, 0), (right, 0), (0, bottom), (right, bottom), (round(right / 2), round(bottom / 2))]
  crops = [picture.crop((x, y, x + SIDE, y + SIDE)) for x, y in corners]
  return [
    np.asarray(crop) for crop in crops + [crop.transpose(Image.Transpose.FLIP_LEFT_RIGHT) for crop in crops]
  ]


def test_features_of_a_split_are_in_the_order_of_records(run, tmp_path, tiny_dir):
  out = tmp_path / "f.safetensors"
  assert made(run, out, f"--corpus={tiny_dir}") == 0
  source = RecordSource(tiny_dir, "train")
  pixels = [images.load(record.image, "", SIDE) for record in source]
  found = record_features.of_source(out, source).vectors
  assert isinstance(found, np.memmap) and len(found) == NUM_PICTURES
  np.testing.assert_allclose(found, tokens(run[1], pixels).mean(1), atol=1e-5)
  assert not list(tmp_path.glob("*.parts"))


def test_ten_crops_as_a_big_file(run, tmp_path, photos):
  assert made(run, tmp_path / "f", photos, "--crops=10", "--format=bigfile") == 0
  found = features.read(tmp_path / "f")
  assert found.keys == ("a", "b", "c")
  for key, vector in zip(*found, strict=True):
    crops = crops_by_hand(photos / f"{key}.png")
    np.testing.assert_allclose(vector, tokens(run[1], crops).mean((0, 1)), atol=1e-5)


def test_the_mean_over_patch_tokens(run, tmp_path, photos):
  assert made(run, tmp_path / "f.safetensors", photos / "a.png", "--vectors=mean") == 0
  pixels = [images.load((photos / "a.png").read_bytes(), "", SIDE)]
  found = features.read(tmp_path / "f.safetensors").vectors
  np.testing.assert_allclose(found, tokens(run[1], pixels, "none").mean(1), atol=1e-5)


def test_killed_features_run_resumes_with_the_same_bytes(run, tmp_path, photos, monkeypatch):
  monkeypatch.setattr(image_features, "_PART", 2)
  assert made(run, tmp_path / "whole.safetensors", photos) == 0
  compute, calls = image_features.ImageEncoder.__call__, []

  def stopped(self, pictures, *arguments):
    calls.append(len(pictures))
    if len(calls) == 2:
      raise KeyboardInterrupt
    return compute(self, pictures, *arguments)

  monkeypatch.setattr(image_features.ImageEncoder, "__call__", stopped)
  out = tmp_path / "f.safetensors"
  assert made(run, out, photos) == 130
  assert made(run, out, photos) == 0
  assert calls == [2, 1, 1]
  assert out.read_bytes() == (tmp_path / "whole.safetensors").read_bytes()


_SMALL_PARTS = """
import sys
from xmcap.cli import main
from xmcap.errors import UsageError
from xmcap.evaluation import image_features

image_features._PART = 1
sys.exit(main(sys.argv[1:]))
"""


def launched(run, out, *options):
  """`xmcap features` in two processes, with a picture in each part; returns their exit codes and what they said."""
  with socket.socket() as free:
    free.bind(("localhost", 0))
    address = f"localhost:{free.getsockname()[1]}"
  common = ["features", f"--model_dir={run[0]}", f"--out={out}", *map(str, options)]
  common += [f"--coordinator_address={address}", "--num_processes=2"]
  processes = [
    subprocess.Popen(
      [sys.executable, "-c", _SMALL_PARTS, *common, f"--process_id={index}"],
      cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )
    for index in range(2)
  ]  # fmt: skip
  said = [process.communicate(timeout=300)[0] for process in processes]
  return [process.returncode for process in processes], "".join(said)


@pytest.mark.slow
def test_features_with_two_processes_equal_one(run, tmp_path, photos, monkeypatch):
  monkeypatch.setattr(image_features, "_PART", 1)
  one, two = tmp_path / "one.safetensors", tmp_path / "two.safetensors"
  assert made(run, one, photos) == 0
  whole = (photos / "b.png").read_bytes()
  (photos / "b.png").write_bytes(b"no picture")
  assert made(run, two, photos) == 1
  assert [path.name for path in (tmp_path / "two.safetensors.parts").glob("*.npz")] == ["0.npz"]
  (photos / "b.png").write_bytes(whole)
  codes, said = launched(run, two, photos)
  assert codes == [0, 0] and said.count("vectors of 3 pictures are ready") == 1, said
  assert said.count("parts of 1 pictures: 1 of 1") == 1, said  # process 1 has one part, process 0 two
  assert two.read_bytes() == one.read_bytes() and not (tmp_path / "two.safetensors.parts").exists()


def test_broken_pictures_are_counted_and_left_out(run, tmp_path, photos, capsys):
  (photos / "b.png").write_bytes(b"no picture")
  out = tmp_path / "f.safetensors"
  assert made(run, out, photos) == 1
  assert "picture 'b'" in capsys.readouterr().err
  assert made(run, out, photos, "--on_bad=skip") == 0
  said = capsys.readouterr()
  assert "cannot be decoded: 1 picture (b)" in said.err and "vectors of 2 pictures" in said.out
  assert features.read(out).keys == ("a", "c")


@pytest.mark.parametrize(
  ("options", "message"),
  [
    ([], "give either --corpus or pictures"),
    (["photos", "--corpus=corpus"], "give either --corpus or pictures"),
    (["photos", "--out=f.npy"], "give a name with .safetensors, or --format=bigfile"),
    (["photos", "--step=7"], "holds no checkpoint of step 7: it has 3"),
    (["photos", "--model_dir=photos"], "not a model folder"),
  ],
)
def test_features_usage_errors_are_one_line(run, tmp_path, photos, monkeypatch, capsys, options, message):
  monkeypatch.chdir(tmp_path)
  assert made(run, "f.safetensors", *options) == 2
  error = capsys.readouterr().err
  assert message in error and error.count("\n") == 1


def test_several_splits_in_one_file(run, tmp_path, tiny_dir):
  out = tmp_path / "f.safetensors"
  assert made(run, out, f"--corpus={tiny_dir}", "--split=train[20:]+train[:2]") == 0
  keys = [record.key for split in ("train[20:]", "train[:2]") for record in RecordSource(tiny_dir, split)]
  assert features.read(out).keys == (*keys,)
  for split in ("train[20:]", "train[:2]"):
    record_features.of_source(out, RecordSource(tiny_dir, split))


def test_converted_weights_have_no_steps(tmp_path):
  (tmp_path / "params.safetensors").touch()
  assert image_features.chosen_step(str(tmp_path), None) is None
  with pytest.raises(UsageError, match="holds no finished checkpoint"):
    image_features.chosen_step(str(tmp_path), 3)
