"""Damaged Hugging Face folders and npz files: one line with the name, exit code 2, nothing written."""

import json
import pickle
import struct
import zipfile

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from tests.convert.test_hostile import archive, made, npy, theirs  # noqa: F401  fixtures

NAME = "encoder.block.0.layer.0.SelfAttention.q.weight"


@pytest.fixture
def mt5(theirs):  # noqa: F811
  return theirs["t5"]


def header_of(file):
  data = file.read_bytes()
  (length,) = struct.unpack("<Q", data[:8])
  return json.loads(data[8 : 8 + length]), data[8 + length :]


def with_header(file, header, numbers):
  text = json.dumps(header).encode()
  file.write_bytes(struct.pack("<Q", len(text)) + text + numbers)


def edit_header(change):
  def mutate(file):
    header, numbers = header_of(file)
    change(header)
    with_header(file, header, numbers)

  return mutate


MUTATIONS = {
  "cut short": (lambda file: file.write_bytes(file.read_bytes()[:-5]), "not a complete safetensors file"),
  "unknown dtype": (edit_header(lambda header: header[NAME].update(dtype="F12")), "not a complete safetensors file"),
  "text": (lambda file: file.write_text("version https://git-lfs.github.com/spec/v1\n"), "not a complete"),
  "pickle": (lambda file: file.write_bytes(pickle.dumps({"a": 1})), "a pickle, which can run code"),
  "renamed": (
    edit_header(lambda header: header.update({"renamed": header.pop(NAME)})),
    f"no tensor {NAME}, which config.json asks for with shape (24, 16)",
  ),
  "reshaped": (
    edit_header(lambda header: header[NAME].update(shape=[12, 32])),
    f"tensor {NAME} has shape (12, 32), and config.json asks for (24, 16)",
  ),
  "integers": (edit_header(lambda header: header[NAME].update(dtype="I32")), f"tensor {NAME} (24, 16) is int32, not"),
}  # fmt: skip


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_damaged_safetensors_is_refused(mt5, convert, mutation):
  mutate, message = MUTATIONS[mutation]
  mutate(mt5 / "model.safetensors")
  line = convert(mt5, code=2)
  assert message in line and str(mt5) in line


@pytest.mark.parametrize("dtype", ["F8_E4M3", "U8"])
def test_quantized_weights_are_refused(mt5, convert, dtype):
  file = mt5 / "model.safetensors"
  tensors = load_file(file)
  tensors[NAME] = tensors[NAME].astype(np.uint8)
  save_file(tensors, file)
  edit_header(lambda header: header[NAME].update(dtype=dtype))(file)
  line = convert(mt5, code=2)
  assert NAME in line and "quantised" in line


def test_extra_tensor_is_refused(mt5, convert):
  file = mt5 / "model.safetensors"
  save_file(load_file(file) | {"encoder.block.7.extra": np.zeros((2, 3), np.float32)}, file)
  assert "tensor encoder.block.7.extra (2, 3) has no place" in convert(mt5, code=2)


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "weights.pth", "last.ckpt"])
def test_folder_of_pickles_is_refused(mt5, convert, name):
  (mt5 / "model.safetensors").rename(mt5 / name)
  line = convert(mt5, code=2)
  assert name in line and "a pickle, which can run code" in line and "save_pretrained" in line


def test_pickle_under_another_name_is_refused(tmp_path, convert):
  """As torch.save writes them: a zip file with a pickle in it."""
  for name in ("model.pt", "vit.npz"):
    with zipfile.ZipFile(tmp_path / name, "w") as file:
      file.writestr("archive/data.pkl", b"\x80\x02}.")
    assert "a pickle, which can run code" in convert(tmp_path / name, code=2)


def shard(folder):
  """One file to two and an index."""
  tensors = load_file(folder / "model.safetensors")
  (folder / "model.safetensors").unlink()
  names = sorted(tensors)
  places = {name: f"model-0000{1 + (i > 9)}-of-00002.safetensors" for i, name in enumerate(names)}
  for file in set(places.values()):
    save_file({name: tensors[name] for name in names if places[name] == file}, folder / file)
  return places


def write_index(folder, places):
  (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))


@pytest.mark.parametrize(
  "change, message",
  [
    (lambda places: places.update({NAME: "../other.safetensors"}), "'../other.safetensors' is no file of this folder"),
    (lambda places: places.update({NAME: "/etc/passwd"}), "'/etc/passwd' is no file of this folder"),
    (lambda places: places.update({NAME: ".."}), "'..' is no file of this folder"),
    (lambda places: places.update({NAME: 3}), "no weight_map"),
    (lambda places: places.update({NAME: "model-00003-of-00003.safetensors"}), "the shard model-00003-of-00003.safet"),
    (lambda places: places.update({"lost": places[NAME]}), "no tensor lost, which model.safetensors.index.json places"),
    (lambda places: places.pop(NAME), f"tensor {NAME} (24, 16) is not in model.safetensors.index.json"),
  ],
)  # fmt: skip
def test_wrong_safetensors_index_is_refused(mt5, convert, change, message):
  places = shard(mt5)
  change(places)
  write_index(mt5, places)
  assert message in convert(mt5, code=2)


@pytest.mark.parametrize(
  "text, says",
  [
    ("{", "broken JSON"), ("[]", "not a JSON object"), ('"x"', "not a JSON object"), ("\x00", "broken JSON"),
    ("[" * 100_000, "nested too deeply"),
    ('{"a": 1, "a": 2}', "twice"),
    ('{"layer_norm_eps": NaN}', "NaN"), ('{"architectures": 5, "model_type": "mt5"}', "architectures is no list"),
    ('{"architectures": [[]], "model_type": "mt5"}', "architectures is no list"),
    ('{"architectures": ["\\u001b[31m"], "model_type": []}', "is not among what xmcap converts"),
  ],
)  # fmt: skip
def test_malformed_config_json_is_refused(mt5, convert, text, says):
  (mt5 / "config.json").write_text(text)
  line = convert(mt5, code=2)
  assert "config.json: " in line and says in line and line.isprintable()


def test_folder_without_config_json_is_refused(mt5, convert):
  (mt5 / "config.json").unlink()
  assert "holds model.safetensors, but no config.json: fetch it too" in convert(mt5, code=2)


def test_folder_without_weights_is_refused(mt5, convert):
  (mt5 / "model.safetensors").unlink()
  assert "neither model.safetensors nor" in convert(mt5, code=2)


def test_truncated_npz_is_refused(tmp_path, convert):
  np.savez(tmp_path / "vit.npz", a=np.zeros(100))
  data = (tmp_path / "vit.npz").read_bytes()
  (tmp_path / "vit.npz").write_bytes(data[:-30])
  assert "vit.npz: not what xmcap converts" in convert(tmp_path / "vit.npz", code=2)


def test_npz_with_a_wrong_header_is_refused(tmp_path, convert):
  archive(tmp_path / "vit.npz", [("a.npy", npy((1 << 40,)))])
  line = convert(tmp_path / "vit.npz", code=2)
  assert "a has 128 bytes, which does not match its shape (1099511627776,)" in line
