"""The names of files and tensors of published weights: what to do about other files, and wrappers of names."""

import re
from collections.abc import Collection, Mapping

from xmcap.errors import UsageError
from xmcap.files.tensors import Tensor

# torch.compile, FSDP and checkpointing add these anywhere in a name, and no model has a part of that name.
_WRAPPERS = re.compile(r"\b(_orig_mod|_fsdp_wrapped_module|_checkpoint_wrapped_module)\.")
# Whoever trusts a file converts it once. transformers 5 reads neither Flax nor TensorFlow.
_LOAD = (
  "if you trust it, in transformers{version} CLASS.from_pretrained(FOLDER{how}).save_pretrained(NEW_FOLDER), with the"
  " class that config.json names"
)
_OTHERS = (
  (r".*\.(bin|pt|pth|ckpt)", "a pickle, which can run code", _LOAD.format(version="", how="")),
  (r"flax_model(-.*)?\.msgpack", "weights of Flax", _LOAD.format(version=" 4", how=", from_flax=True")),
  (r"tf_model(-.*)?\.h5", "weights of TensorFlow", _LOAD.format(version=" 4", how=", from_tf=True")),
  (
    r"adapter_model\.safetensors",
    "a PEFT adapter",
    "merge it with its model (merge_and_unload), and save that",
  ),
  (r".*\.gguf", "quantised weights of llama.cpp", "fetch the model that they were made from"),
  (r"tokenizer\.json|spiece\.model", "a tokenizer without weights", "fetch the weights beside it"),
)


def absent(names: Collection[str], weights: str) -> str:
  """Returns which weights a folder holds instead of the file `weights`, and what to do about it.

  Args:
    names: its files.
    weights: such as `model.safetensors`.
  """
  stem = weights.removesuffix(".safetensors")
  lacking = f"neither {weights} nor {weights}.index.json there"
  shards = sorted(name for name in names if re.fullmatch(rf"{re.escape(stem)}-\d+-of-\d+\.safetensors", name))
  if shards:
    return f"{lacking}, but {shards[0]}, a part of the weights: fetch {weights}.index.json too"
  others = sorted(name for name in names if name.endswith(".safetensors") and not name.startswith("adapter_"))
  variants = [name for name in others if re.fullmatch(rf"{re.escape(stem)}\.[^.-]+\.safetensors", name)]
  if one := next(iter(variants), None):
    return f"{lacking}, but {one}, the same weights in another precision: rename or link it to {weights}"
  if parts := [name for name in others if re.match(rf"{re.escape(stem)}\.", name)]:
    return f"{lacking}, but {parts[0]}, a part of weights in another precision: fetch {weights} instead"
  if others:
    return f"{lacking}, but {others[0]}: if this is the same model's, rename or link it to {weights}"
  for pattern, what, advice in _OTHERS:
    if one := next((name for name in sorted(names) if re.fullmatch(pattern, name)), None):
      return f"{lacking}, but {one}, {what}: {advice}"
  return f"{lacking}: fetch it"


def unwrapped(tensors: Mapping[str, Tensor], where: str) -> dict[str, Tensor]:
  """Returns tensors by their names in the model: without what torch.compile, FSDP or a shared prefix adds.

  A prefix that all names share, such as `module.` or `model.`, is of what held the model when it was saved; but the
  name of a single layer, as in `linear.weight` and `linear.bias`, stays. UsageError if two names become the same.
  """
  paths = [_WRAPPERS.sub("", name).split(".") for name in tensors]
  shared = 0
  while (
    all(len(path) > shared + 1 and path[: shared + 1] == paths[0][: shared + 1] for path in paths)
    and max(map(len, paths)) > shared + 2
  ):
    shared += 1
  named: dict[str, Tensor] = {}
  for (name, tensor), path in zip(tensors.items(), paths, strict=True):
    inner = ".".join(path[shared:])
    if inner in named:
      raise UsageError(
        f"{where}: {name} and another tensor are both {inner}: save the model without its wrappers"
      )
    named[inner] = tensor
  return named
