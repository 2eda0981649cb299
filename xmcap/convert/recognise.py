"""The format of an input, by its content and not by its name."""

import pathlib

from xmcap.convert import big_vision, hf, t5x
from xmcap.convert.source import Source
from xmcap.errors import UsageError
from xmcap.models.vit import ViTConfig
from xmcap.tensors.files import PICKLES, refuse_pickle
from xmcap.tensors.orbax import is_orbax
from xmcap.training.checkpoints.weights import PARAMS

FORMATS = ("hf", "t5x", "big_vision")
_KNOWN = "a Hugging Face folder, a checkpoint of t5x, an .npz of big_vision"


def open_source(path: str, format_name: str | None = None, pool: str | None = None) -> Source:
  """The model in a file or folder.

  Args:
    path: given by the user.
    format_name: one of FORMATS, which it must then be; None: whichever it is.
    pool: for a ViT, instead of its own.

  Raises:
    UsageError: it is none of the formats, or not the one named.
  """
  if format_name is not None and format_name not in FORMATS:
    raise UsageError(f"--from={format_name}: unknown; use one of {', '.join(FORMATS)}")
  found, place = _recognise(pathlib.Path(path))
  if format_name not in (None, found):
    raise UsageError(
      f"{place}: holds the format {found}, not {format_name}: leave --from out, or give --from={found}"
    )
  if found == "t5x":
    source = t5x.open_checkpoint(place)
  else:
    source = hf.open_folder(place, pool) if found == "hf" else big_vision.open_npz(place, pool)
  if pool is not None and not isinstance(source.config, ViTConfig):
    raise UsageError(f"--pool={pool}: {place} is a T5, which has no pooling")
  return source


def is_xmcap(path: pathlib.Path) -> bool:
  """Whether it is a run's folder, a checkpoint of one, or converted weights."""
  return (
    (path / PARAMS).is_file()
    or is_orbax(path / "params")
    or (path / "checkpoints").is_dir()
    or (path.name == "checkpoints" and path.is_dir())
  )


def _recognise(path: pathlib.Path) -> tuple[str, pathlib.Path]:
  if not path.exists():
    raise UsageError(f"{path}: no such file or folder")
  if path.is_file():
    refuse_pickle(path)
    if big_vision.is_file(path):
      return "big_vision", path
    if path.suffix == ".safetensors" and hf.is_folder(path.parent):
      raise UsageError(f"{path}: give its folder, {path.parent}: the sizes are in its {hf.CONFIG}")
    if path.suffix == ".npz":
      raise UsageError(f"{path}: not an .npz (no zip file): fetch or copy it again")
    raise UsageError(f"{path}: not a file that xmcap converts: {_KNOWN}")
  if hf.is_folder(path):
    return "hf", path
  checkpoint = t5x.find(path)
  if checkpoint is not None:
    return "t5x", checkpoint
  if is_xmcap(path):
    raise UsageError(f"{path}: holds xmcap's own weights: name it in train.pretrained, or give --to=hf")
  names = sorted(file.name for file in path.iterdir())
  for name in names:
    if name.endswith(PICKLES):
      refuse_pickle(path / name)
  if any(name.endswith(".safetensors") for name in names):
    raise UsageError(f"{path}: no {hf.CONFIG} beside the safetensors: fetch it too, the sizes are in it")
  raise UsageError(f"{path}: nothing there that xmcap converts: {_KNOWN}")
