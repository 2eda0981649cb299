"""Untrusted weights: absurd sizes, zip bombs, NaN; each is refused in one line, at once."""

import io
import json
import math
import resource
import shutil
import struct
import time
import zipfile

import jax
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from tests.convert.conftest import edit_json
from tests.fuzz.readers import read_or_refused
from xmcap.convert import big_vision, exporting, hf, hf_text, t5x
from xmcap.convert.source import parameter_shapes
from xmcap.errors import UsageError
from xmcap.files.tensors import Tensor, read_safetensors
from xmcap.models import model_json
from xmcap.models.t5 import T5Config
from xmcap.models.vit import ViTConfig

CONFIGS = {
  "t5": T5Config(37, 16, 2, 12, 1, 1, 20),
  "vit": ViTConfig(16, 1, 24, 2, 4, 12, "tok", activation="gelu"),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
  """{part: a folder as transformers writes it}, made by way of ours."""
  folders = {}
  for part, config in CONFIGS.items():
    ours = tmp_path_factory.mktemp(part)
    rng = np.random.RandomState(0)
    arrays = {
      name: rng.standard_normal(shape).astype(np.float32) for name, shape in parameter_shapes(config).items()
    }
    save_file(arrays, ours / "params.safetensors")
    (ours / "model.json").write_text(
      model_json.as_text(model_json.Model({part: model_json.of_config(config)}))
    )
    exporting.export(str(ours), str(ours / "hf"), say=lambda line: None)
    folders[part] = ours / "hf"
  return folders


@pytest.fixture
def theirs(made, tmp_path):
  return {part: shutil.copytree(folder, tmp_path / part) for part, folder in made.items()}


@pytest.fixture(autouse=True)
def bounded():
  """Each refusal is quick and takes no memory to speak of."""
  began, before = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
  yield
  assert time.process_time() - began < 20
  assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 2**20  # kB


@pytest.mark.parametrize(
  "part, changes, says",
  [
    ("vit", {"image_size": -1}, "image_size is -1: give int >= 1"),
    ("vit", {"image_size": 2**40}, "image_size is 1099511627776"),
    ("vit", {"image_size": 16384, "patch_size": 1}, "patches: at most 1,048,576"),
    ("vit", {"patch_size": 0}, "patch_size is 0"),
    ("vit", {"num_attention_heads": 0}, "num_attention_heads is 0"),
    ("vit", {"num_hidden_layers": 10**9}, "num_hidden_layers is 1000000000: give int <= 1024"),
    ("vit", {"num_hidden_layers": 1000}, "no tensor "),
    ("vit", {"hidden_size": 2**16, "num_hidden_layers": 1000, "intermediate_size": 2**20}, "; xmcap supports at most"),
    ("vit", {"hidden_size": "768"}, "hidden_size is '768'"),
    ("vit", {"layer_norm_eps": "1e-6"}, "layer_norm_eps is '1e-6'"),
    ("vit", {"layer_norm_eps": float("nan")}, "NaN"),
    ("vit", {"layer_norm_eps": None}, "layer_norm_eps is None"),
    ("vit", {"hidden_act": ["gelu"]}, "hidden_act is ['gelu']"),
    ("vit", {"vision_config": "x"}, "another type"),
    ("vit", {"image_size": [12, 16]}, "one number"),
    ("t5", {"num_layers": 10**9}, "num_layers is 1000000000"),
    ("t5", {"num_heads": -2}, "num_heads is -2"),
    ("t5", {"vocab_size": 10**30}, "vocab_size is 1000000000"),
    ("t5", {"layer_norm_epsilon": "small"}, "layer_norm_epsilon is 'small'"),
    ("t5", {"layer_norm_epsilon": True}, "layer_norm_epsilon is True"),
    ("t5", {"relative_attention_num_buckets": 0}, "relative_attention_num_buckets is 0"),
    ("t5", {"d_model": None}, "d_model is None"),
  ],
)  # fmt: skip
def test_absurd_sizes_in_config_json_are_refused(theirs, convert, part, changes, says):
  edit_json(theirs[part] / "config.json", **changes)
  assert says in convert(theirs[part], code=2)


@pytest.mark.parametrize("value", [0.0, "x", [1, 2], {"a": 1}, [0.5, 0.5, None], [[1]] * 3])
def test_malformed_preprocessor_config_is_refused(theirs, convert, value):
  edit_json(theirs["vit"] / "preprocessor_config.json", image_std=value)
  assert "image_std (of preprocessor_config.json) is " in convert(theirs["vit"], code=2)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_nan_and_inf_weights_are_refused(theirs, convert, tmp_path, value):
  file = theirs["t5"] / "model.safetensors"
  tensors = load_file(file)
  name = "decoder.block.0.layer.2.DenseReluDense.wo.weight"
  tensors[name][3, 5] = value
  save_file(tensors, file)
  assert f"tensor {name} (16, 20) holds NaN or infinity" in convert(theirs["t5"], code=2)


def test_nan_and_inf_weights_are_not_exported(made, convert, tmp_path):
  ours = shutil.copytree(made["t5"].parent, tmp_path / "ours")
  tensors = load_file(ours / "params.safetensors")
  tensors["decoder/decoder_norm/scale"][0] = np.nan
  save_file(tensors, ours / "params.safetensors")
  assert "tensor decoder/decoder_norm/scale (16,) holds NaN" in convert(ours, "--to=hf", code=2)


def safetensors(header):
  text = header if isinstance(header, bytes) else json.dumps(header).encode()
  return struct.pack("<Q", len(text)) + text


F32 = {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}


@pytest.mark.parametrize(
  "data",
  [
    safetensors({"a": {**F32, "data_offsets": [-4, 0]}}) + bytes(4),
    safetensors({"a": {**F32, "data_offsets": [4, 0]}}) + bytes(4),
    safetensors({"a": {**F32, "data_offsets": [0, 2**63]}}) + bytes(4),
    safetensors({"a": {**F32, "shape": [-1]}}) + bytes(4),
    safetensors({"a": {**F32, "shape": [2**62, 4]}}) + bytes(4),
    safetensors({"a": F32, "b": F32}) + bytes(4),
    safetensors({"a": F32, "b": {**F32, "data_offsets": [8, 12]}}) + bytes(12),
    safetensors(b'{"a": {"dtype": "F32", "dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}') + bytes(4),
    safetensors(b" " * (2**24 + 1)),
    safetensors(b"[" * 100_000),
    safetensors({"a": F32}) + bytes(6),
    safetensors({"a": {**F32, "shape": [99, 99]}}) + bytes(4),
    safetensors({"a": F32})[:20],
    safetensors(b"{not json") + bytes(99),
    b"",
    safetensors({"a": 1}),
    safetensors([]),
    struct.pack("<Q", 2**63) + bytes(8),
    b"\0" * 7,
  ],
)
def test_malformed_safetensors_headers_are_refused(tmp_path, data):
  (tmp_path / "a.safetensors").write_bytes(data)
  with pytest.raises(UsageError, match="not a complete safetensors file") as error:
    read_safetensors(tmp_path / "a.safetensors")
  assert "\n" not in str(error.value)


def npy(shape, dtype="<f4", data=b""):
  file = io.BytesIO()
  np.lib.format.write_array_header_1_0(file, {"descr": dtype, "fortran_order": False, "shape": shape})
  return file.getvalue() + data


def archive(path, members, compression=zipfile.ZIP_DEFLATED):
  with zipfile.ZipFile(path, "w", compression) as file:
    for name, data in members:
      file.writestr(name, data)
  return path


def test_npz_zip_bomb_is_refused(tmp_path, convert):
  path = tmp_path / "vit.npz"
  archive(path, [("a.npy", npy((2**26,), data=bytes(2**28)))])
  assert path.stat().st_size < 2**19
  assert "claims 268,435,584 bytes of arrays, but its files have only" in convert(path, code=2)


@pytest.mark.parametrize(
  "members, compression, says",
  [
    ([("a.npy", npy((1,), data=bytes(4)))] * 2, zipfile.ZIP_STORED, "a is there twice"),
    ([("a.npy", npy((1,), data=bytes(4)))], zipfile.ZIP_LZMA, "compressed in another way"),
    ([(f"{i}.npy", b"") for i in range(20_001)], zipfile.ZIP_STORED, "20,001 arrays"),
    ([("a.npy", npy((0, 5)))], zipfile.ZIP_STORED, "not one ViT"),
    ([("embedding/kernel.npy", npy((0, 0, 0, 0)))], zipfile.ZIP_STORED, "no tensor pos_embedding"),
    ([("embedding/kernel.npy", npy(())), ("x.npy", npy((1,), "|O", bytes(8)))], zipfile.ZIP_STORED, "not match its"),
    ([("Transformer/encoderblock/a.npy", npy((10**9, 0))), ("embedding/kernel.npy", npy((0,) * 4))],
     zipfile.ZIP_STORED, "at most 1,024 layers"),
  ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_malformed_npz_archives_are_refused(tmp_path, convert, members, compression, says):
  assert says in convert(archive(tmp_path / "vit.npz", members, compression), code=2)


def test_encrypted_npz_is_refused(tmp_path, convert):
  path = archive(tmp_path / "vit.npz", [("a.npy", npy((1,), data=bytes(4)))], zipfile.ZIP_STORED)
  data = bytearray(path.read_bytes())
  for mark in (b"PK\x03\x04", b"PK\x01\x02"):
    data[data.index(mark) + (6 if mark == b"PK\x03\x04" else 8)] |= 1
  path.write_bytes(bytes(data))
  assert "not a whole .npz" in convert(path, code=2)


def msgpack_of(tree):
  from flax import serialization

  return serialization.msgpack_serialize(tree)


@pytest.mark.parametrize(
  "data, says",
  [
    (b"\xdd\xff\xff\xff\xff" * 500, "or not a msgpack checkpoint"),
    (b"\xdd\x00\x0f\xff\xff" * 300 + bytes(2**20), "or not a msgpack checkpoint"),
    (b"\x91" * 100_000, "or not a msgpack checkpoint"),
    (b"\xc7\xff\x01", "or not a msgpack checkpoint"),
    (msgpack_of({"optimizer": []}), "no optimizer/target"),
    (msgpack_of({"optimizer": {"target": {"a": {"driver": "zarr", "kvstore": {"path": "../.."}}}}}), "nor a zarr"),
    (msgpack_of({"optimizer": {"target": {"a\n\x1b": "text"}}}), "'target/a\\n\\x1b' is not a valid tensor name"),
    (msgpack_of({"optimizer": {"target": {"a": {"driver": "n5", "kvstore": {"path": "x"}}}}}), "nor a zarr folder"),
    (msgpack_of({"optimizer": {"target": {"a": "text"}}}), "neither an array"),
  ],
)  # fmt: skip
def test_malformed_t5x_msgpack_is_refused(tmp_path, convert, data, says):
  (tmp_path / "checkpoint").write_bytes(data)
  assert says in convert(tmp_path, code=2)


def test_t5x_msgpack_over_the_size_limit_is_refused(tmp_path, convert):
  with open(tmp_path / "checkpoint", "wb") as file:
    file.truncate(2**28 + 1)
  assert "checkpoint: 268,435,457 bytes; a msgpack of t5x has at most 268,435,456" in convert(
    tmp_path, code=2
  )


@pytest.mark.parametrize(
  "shape, chunks", [([10**12], [10**6]), ([10], [10**11]), ([1, 10**6], [10**5, 10**6])]
)
def test_zarr_with_absurd_shapes_is_refused(tmp_path, convert, shape, chunks):
  spec = {"driver": "zarr", "kvstore": {"driver": "file", "path": "x"}}
  (tmp_path / "checkpoint").write_bytes(msgpack_of({"optimizer": {"target": {"a": spec}}}))
  (tmp_path / "x").mkdir()
  array = {"zarr_format": 2, "shape": shape, "chunks": chunks, "dtype": "<f4", "compressor": None, "fill_value": 0,
           "order": "C", "filters": None}  # fmt: skip
  (tmp_path / "x/.zarray").write_text(json.dumps(array))
  assert "bytes of arrays, but its files have only" in convert(tmp_path, code=2)


@pytest.mark.parametrize("text", ["[" * 100_000, "{}", '{"zarr_format": 2, "shape": [-1]}', "\x00"])
def test_malformed_zarr_metadata_is_refused(tmp_path, convert, text):
  spec = {"driver": "zarr", "kvstore": {"driver": "file", "path": "x"}}
  (tmp_path / "checkpoint").write_bytes(msgpack_of({"optimizer": {"target": {"a": spec}}}))
  (tmp_path / "x").mkdir()
  (tmp_path / "x/.zarray").write_text(text)
  assert "cannot be read" in convert(tmp_path, code=2)


@pytest.mark.parametrize("shape", [(), (0, 8), (3,)])
def test_bert_with_malformed_token_type_embeddings_is_refused(shape):
  names = {"embeddings.word_embeddings.weight": (5, 8), "embeddings.token_type_embeddings.weight": shape}
  tensors = {name: Tensor(of, np.dtype(np.float32), lambda: np.zeros(0), "a") for name, of in names.items()}
  with pytest.raises(UsageError, match="^a: "):
    hf_text.recognise(tensors, "", "a")


@pytest.mark.parametrize(
  ("part", "name"),
  [
    ("t5", "config.json"),
    ("t5", "model.safetensors"),
    ("vit", "config.json"),
    ("vit", "preprocessor_config.json"),
  ],
)
def test_damaged_hf_folder_is_read_or_refused(theirs, part, name):
  folder = theirs[part]
  size = (folder / "model.safetensors").stat().st_size

  def read(path):
    for tensor in hf.open_folder(folder).tensors.values():
      assert math.prod(tensor.shape) * tensor.dtype.itemsize < size

  read_or_refused(folder / name, read, 100)


def test_damaged_npz_is_read_or_refused(tmp_path):
  def read(path):
    for tensor in big_vision.read_npz(path).values():
      tensor.read()

  members = [(f"{name}.npy", npy((2, 3), data=bytes(24))) for name in "abc"]
  read_or_refused(archive(tmp_path / "vit.npz", members), read, 60)


def test_damaged_t5x_checkpoint_is_read_or_refused(tmp_path):
  def read(path):
    for tensor in t5x.read(path.parent).values():
      tensor.read()

  tree = {"optimizer": {"target": {"norm": np.zeros((2, 3), np.float32), "bias": jax.numpy.ones(3)}}}
  (tmp_path / "checkpoint").write_bytes(msgpack_of(tree))
  read_or_refused(tmp_path / "checkpoint", read, 300)
