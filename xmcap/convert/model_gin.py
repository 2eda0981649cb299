"""`model.gin`: what a configuration must say for the model to be the one whose weights lie beside it."""

import dataclasses

from xmcap.models.t5 import T5Config
from xmcap.models.vit import ViTConfig

# Of a run, not of the weights.
_NOT_OF_WEIGHTS = ("dropout_rate", "remat", "scan", "dtype")


def model_gin(config: T5Config | ViTConfig, what: str) -> str:
  """The gin text for a model; it may follow models/bb.gin and the like."""
  name = type(config).__name__
  lines = [
    f"# {'The ViT' if isinstance(config, ViTConfig) else 'The T5'} that the weights beside this file are: {what}.",
    "# Written by xmcap convert, to follow a model file: --gin_file=models/bb.gin --gin_file=FOLDER/model.gin",
    "",
    "import xmcap.models.captioner",
    "",
  ]
  for field in dataclasses.fields(config):
    if field.name in _NOT_OF_WEIGHTS:
      continue
    value = getattr(config, field.name)
    if field.name == "image_size":
      # The macro of the model files, from which the pictures take their size too.
      lines += [f"IMAGE_SIZE = {value}"]
      value_text = "%IMAGE_SIZE"
    else:
      value_text = repr(value)
    lines.append(f"{name}.{field.name} = {value_text}")
  return "\n".join(lines) + "\n"
