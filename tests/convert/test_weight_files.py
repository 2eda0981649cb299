"""Names of files and tensors of published weights: wrapped names convert as bare ones, other files are named."""

import json
import shutil

import pytest
from safetensors.numpy import load_file, save_file

from tests.convert import open_clip_models
from tests.convert.conftest import write_mt5, write_tower
from tests.convert.test_hf_dual import write_dual
from xmcap.convert import weight_files

MODELS = {
  "mT5": (write_mt5, ()),
  "ViT": (lambda folder: write_tower(folder, "ViT"), ()),
  "CLIP": (lambda folder: write_dual(folder, "CLIP") and folder, ("--part=dual",)),
  "OpenCLIP": (lambda folder: open_clip_models.write(folder, "clip"), ("--part=dual",)),
}


def rename(folder, change):
  """Changes the names of all tensors."""
  (file,) = folder.glob("*.safetensors")
  save_file({change(name): tensor for name, tensor in load_file(file).items()}, file)


@pytest.mark.parametrize("kind", MODELS)
def test_wrapped_names_of_tensors_convert_as_bare_ones(tmp_path, convert, kind):
  write, options = MODELS[kind]
  write(tmp_path / "bare")
  bare = convert(tmp_path / "bare", *options)
  for prefix in ("_orig_mod.", "module.", "model.", "module._orig_mod.", "net.captioner."):
    folder = shutil.copytree(tmp_path / "bare", tmp_path / prefix)
    rename(folder, lambda name, prefix=prefix: prefix + name)
    wrapped = convert(folder, *options)
    for name in ("params.safetensors", "model.json"):
      assert (wrapped / name).read_bytes() == (bare / name).read_bytes(), prefix


def test_names_of_compiled_and_sharded_layers_convert_as_bare_ones(tmp_path, convert):
  source = write_mt5(tmp_path / "mt5")
  bare = convert(source)
  rename(source, lambda name: f"_fsdp_wrapped_module.{name.replace('.layer.', '._orig_mod.layer.')}")
  assert (convert(source) / "params.safetensors").read_bytes() == (bare / "params.safetensors").read_bytes()


def test_a_prefix_that_not_all_tensors_share_is_named(tmp_path, convert):
  source = write_mt5(tmp_path / "mt5")
  rename(source, lambda name: name if name == "lm_head.weight" else f"model.{name}")
  line = convert(source, code=2)
  assert (
    "no tensor shared.weight" in line and "; model.shared.weight is there, with a prefix that not all" in line
  )


def test_the_name_of_a_single_layer_is_no_prefix(tmp_path):
  tensors = dict.fromkeys(("module.linear.weight", "module.linear.bias"))
  assert list(weight_files.unwrapped(tensors, "w")) == ["linear.weight", "linear.bias"]


@pytest.mark.parametrize(
  ("names", "says"),
  [
    (["model.fp16.safetensors"], "but model.fp16.safetensors, the same weights in another precision: rename or link"),
    (["model.fp16-00001-of-00002.safetensors"], "a part of weights in another precision: fetch model.safetensors"),
    (["model-00001-of-00002.safetensors"], "a part of the weights: fetch model.safetensors.index.json too"),
    (["weights.safetensors"], "but weights.safetensors: if this is the same model's, rename or link it to model.safe"),
    (["flax_model.msgpack"], "but flax_model.msgpack, weights of Flax: if you trust it, in transformers 4 CLASS.from_"
                             "pretrained(FOLDER, from_flax=True).save_pretrained(NEW_FOLDER)"),
    (["tf_model.h5"], "but tf_model.h5, weights of TensorFlow: if you trust it, in transformers 4 CLASS.from_"),
    (["pytorch_model.bin"], "but pytorch_model.bin, a pickle, which can run code: if you trust it, in transformers"),
    (["adapter_model.safetensors", "adapter_config.json"], "but adapter_model.safetensors, a PEFT adapter: merge it"),
    (["model.Q4_K_M.gguf"], "but model.Q4_K_M.gguf, quantised weights of llama.cpp: fetch the model that"),
    (["tokenizer.json"], "but tokenizer.json, a tokenizer without weights: fetch the weights beside it"),
    ([], "neither model.safetensors nor model.safetensors.index.json there: fetch it"),
  ],
)  # fmt: skip
@pytest.mark.parametrize("with_config", [True, False])
def test_other_weights_of_a_folder_are_named(tmp_path, convert, names, says, with_config):
  source = write_mt5(tmp_path / "mt5")
  (source / "model.safetensors").unlink()
  if not with_config:
    (source / "config.json").unlink()
  for name in names:
    (source / name).write_bytes(b"")
  if with_config or not any(name.endswith(".safetensors") for name in names):
    assert says in convert(source, code=2)
  else:
    assert f"holds {names[0]}, but no config.json" in convert(source, code=2)


def test_a_folder_of_timm_is_named(tmp_path, convert):
  config = {"architecture": "vit_base_patch16_224", "num_classes": 1000, "pretrained_cfg": {"tag": "augreg"}}
  (tmp_path / "config.json").write_text(json.dumps(config))
  assert "vit_base_patch16_224 of timm, which xmcap does not read: give this ViT of" in convert(
    tmp_path, code=2
  )
