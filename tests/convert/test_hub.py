"""`xmcap convert --input=OWNER/NAME`, from a hub on loopback."""

import json
import sys

import pytest

from tests.convert import fake_hub
from tests.convert.conftest import write_mt5, write_tower
from tests.make.command import forked, xmcap_forked
from xmcap.convert import hub as hub_lib
from xmcap.errors import UsageError
from xmcap.files.tensors import read_safetensors

NAME, COMMIT, OLDER = "someone/small-vit", "ab" * 20, "cd" * 20


@pytest.fixture
def home(tmp_path):
  return tmp_path / "home"


def variables(hub, home, **environment):
  """Of a process of its own, because huggingface_hub reads its settings when it is imported."""
  address = hub if isinstance(hub, str) else hub.address
  return {"HF_ENDPOINT": address, "HF_HOME": str(home), "HF_HUB_DISABLE_PROGRESS_BARS": "1", **environment}


def found(hub, home, *arguments, **environment):
  result = forked(fake_hub.find, *arguments, environment=variables(hub, home, **environment)).succeeded()
  line = result.out.removesuffix("\n")
  assert "\n" not in line
  return line


@pytest.fixture
def folder(tmp_path):
  """A repository as the hub has them: the weights in several forms, and files that nobody asks for."""
  made = write_tower(tmp_path / "repository", "ViT")
  for name in (
    "pytorch_model.bin",
    "tf_model.h5",
    "flax_model.msgpack",
    "README.md",
    "onnx/model.onnx",
    "run.py",
  ):
    (made / name).parent.mkdir(exist_ok=True)
    (made / name).write_bytes(b"x")
  return made


@pytest.fixture
def hub(folder):
  with fake_hub.running(NAME, folder, {"main": COMMIT, "v1": OLDER}) as running:
    yield running


def test_hub_model_is_converted_and_its_commit_recorded(hub, home, folder, tmp_path):
  convert = "convert", f"--input={NAME}", f"--out={tmp_path / 'out'}"
  xmcap_forked(*convert, environment=variables(hub, home)).succeeded()
  assert hub.downloaded() == {"config.json", "model.safetensors"}
  source = json.loads((tmp_path / "out" / "source.json").read_text())
  assert source == {"input": {"repository": NAME, "commit": COMMIT}}
  theirs = read_safetensors(folder / "model.safetensors")[
    "embeddings.patch_embeddings.projection.weight"
  ].read()
  ours = read_safetensors(tmp_path / "out" / "params.safetensors")["vit/patch_embedding/kernel"].read()
  assert (ours == theirs.transpose(2, 3, 1, 0)).all()


def test_hub_commit_is_converted_from_cache_offline(hub, home):
  assert found(hub, home, f"{NAME}@v1") == OLDER
  hub.refuse = (503, "")
  assert found(hub, home, f"{NAME}@{OLDER}") == OLDER
  assert found("http://127.0.0.1:9", home, f"{NAME}@{OLDER}", HF_HUB_OFFLINE="1") == OLDER
  # A branch may have moved.
  line = found("http://127.0.0.1:9", home, f"{NAME}@v1", HF_HUB_OFFLINE="1")
  assert (
    line.startswith(f"XmcapError: --input={NAME}@v1: no such file or folder here")
    and "cannot be downloaded" in line
  )


@pytest.mark.parametrize(
  ("status", "code", "value", "says"),
  [
    (403, "GatedRepo", NAME, "asks for consent"),
    (404, "RepoNotFound", NAME, f"no model {NAME}"),
    (None, "", "someone/else", "no model someone/else"),
    (None, "", f"{NAME}@v2", f"{NAME} has no revision v2"),
    (500, "", NAME, "cannot be downloaded"),
  ],
)
def test_hub_errors_are_one_line(hub, home, status, code, value, says):
  hub.refuse = None if status is None else (status, code)
  line = found(hub, home, value)
  assert (
    says in line and f"--input={value}: no such file or folder here" in line and line.count("Error: ") >= 1
  )


def test_hub_repository_of_pickles_is_not_downloaded(hub, home):
  del hub.files["model.safetensors"]
  line = found(hub, home, NAME)
  assert line.startswith("UsageError") and "but pytorch_model.bin, a pickle" in line
  assert hub.downloaded() == set()


def test_hub_conversion_without_huggingface_hub_is_refused(monkeypatch):
  monkeypatch.setitem(sys.modules, "huggingface_hub", None)
  with pytest.raises(UsageError, match=r"--input=a/b: no such file or folder; .* pip install '.\[hub\]'"):
    hub_lib.find("--input", "a/b")


def test_local_folder_wins_over_a_hub_name(tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  (tmp_path / NAME).mkdir(parents=True)
  monkeypatch.setitem(sys.modules, "huggingface_hub", None)
  for value in (NAME, "/a/b", "a", "a/b/c", "../a", "a/..", "gs://bucket-a/b", "~/a", "a/b@"):
    assert hub_lib.find("--input", value) is None


def test_hub_shards_are_fetched_with_their_index(home, tmp_path):
  made = write_mt5(tmp_path / "mt5")
  whole = made / "model.safetensors"
  whole.rename(made / "model-00001-of-00001.safetensors")
  names = read_safetensors(made / "model-00001-of-00001.safetensors")
  index = {"weight_map": dict.fromkeys(names, "model-00001-of-00001.safetensors")}
  (made / "model.safetensors.index.json").write_text(json.dumps(index))
  with fake_hub.running("google/small", made, {"main": COMMIT}) as hub:
    convert = "convert", "--input=google/small", f"--out={tmp_path / 'out'}"
    xmcap_forked(*convert, environment=variables(hub, home)).succeeded()
    assert "model-00001-of-00001.safetensors" in hub.downloaded()


@pytest.mark.parametrize(
  ("held", "format_name", "wanted"),
  [
    (["open_clip_config.json", "open_clip_model.safetensors", "model.safetensors", "config.json"], None,
     ["config.json", "model.safetensors", "open_clip_config.json"]),
    (["open_clip_config.json", "open_clip_model.safetensors", "model.safetensors", "config.json"], "open_clip",
     ["config.json", "open_clip_config.json", "open_clip_model.safetensors"]),
    (["open_clip_config.json", "open_clip_model.safetensors", "open_clip_pytorch_model.bin", "tokenizer.json"], None,
     ["open_clip_config.json", "open_clip_model.safetensors", "tokenizer.json"]),
    (["modules.json", "config.json", "2_Dense/config.json", "2_Dense/model.safetensors", "2_Dense/pytorch_model.bin",
      "model.safetensors", "openvino/openvino_model.xml", "onnx/config.json", "model.fp16.safetensors"], None,
     ["2_Dense/config.json", "2_Dense/model.safetensors", "config.json", "model.safetensors", "modules.json"]),
    (["config.json", "model.safetensors", "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors",
      "model.safetensors.index.json", "spiece.model", "evil/../x.json", "..json"], None,
     ["..json", "config.json", "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors",
      "model.safetensors.index.json", "spiece.model"]),
  ],
)  # fmt: skip
def test_hub_needed_files_of_a_repository(held, format_name, wanted):
  assert hub_lib.needed(held, format_name) == wanted
