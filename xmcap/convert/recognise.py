"""Recognises the format of weights by their content."""

import pathlib

from xmcap import wording
from xmcap.convert import big_vision, big_vision_dual, hf, m_clip, open_clip, t5x, weight_files
from xmcap.convert.source import WeightSource
from xmcap.errors import UsageError
from xmcap.files import addresses
from xmcap.files.bucket_paths import epath
from xmcap.files.orbax import is_orbax
from xmcap.files.tensors import refuse_pickle
from xmcap.models.vit import ViTConfig
from xmcap.training.checkpoints.weights import PARAMS

_KNOWN = (
  f"a Hugging Face folder ({hf.CONFIG} beside the safetensors), a checkpoint of t5x, an .npz of big_vision, a "
  f"folder of OpenCLIP ({open_clip.CONFIG})"
)


def open_source(
  path: str,
  format_name: str | None = None,
  pool: str | None = None,
  dual: bool = False,
  image_tower: str | None = None,
) -> WeightSource:
  """Opens the model in a file or folder.

  Args:
    path: the file or folder.
    format_name: the format that it must have, `hf`, `t5x`, `big_vision` or `open_clip`; None: any.
    pool: pooling of a ViT, instead of its own.
    dual: whether to open both towers of a model that has two.
    image_tower: with `dual`, another model of two towers whose image tower joins the text tower at `path`.

  Raises:
    UsageError: it is none of the formats, or not the one named.
  """
  kind, place = _recognise(pathlib.Path(path), format_name)
  if format_name not in (None, kind):
    raise UsageError(
      f"{place}: holds the format {kind}, not {format_name}: leave --from out, or give --from={kind}"
    )
  if dual:
    return _open_dual(kind, place, pool, image_tower)
  if kind == "open_clip":
    raise UsageError(f"{place}: a model of two towers: give --part=dual")
  if kind == "t5x":
    source = t5x.open_checkpoint(place)
  else:
    source = hf.open_folder(place, pool) if kind == "hf" else big_vision.open_npz(place, pool)
  if pool is not None and not isinstance(source.config, ViTConfig):
    raise UsageError(f"--pool={pool}: {place} is a T5, which has no pooling")
  return source


def _open_dual(kind: str, place: pathlib.Path, pool: str | None, image_tower: str | None) -> WeightSource:
  if pool is not None or kind == "t5x":
    raise UsageError("--part=dual: takes a model of two towers (hf, big_vision, open_clip), and no --pool")
  if image_tower is not None:
    return m_clip.open_pair(place, open_source(image_tower, dual=True))
  if kind == "hf" and m_clip.is_folder(place):
    raise UsageError(f"{place}: a text tower alone: name the folder of its CLIP with --image_tower")
  opened = {"hf": hf.open_dual, "big_vision": big_vision_dual.open_npz, "open_clip": open_clip.open_folder}
  return opened[kind](place)


def place_of(path: str) -> pathlib.Path | epath.Path:
  """The path of a file or folder on a disk or in a bucket."""
  return epath.Path(path) if addresses.is_remote(path) else pathlib.Path(path)


def is_xmcap(path: pathlib.Path | epath.Path) -> bool:
  """Whether a folder, on a disk or in a bucket, is a run's, a checkpoint of one, or one of converted weights."""
  return (
    (path / PARAMS).is_file()
    or is_orbax(path / "params")
    or (path / "checkpoints").is_dir()
    or (path.name == "checkpoints" and path.is_dir())
  )


def _recognise(path: pathlib.Path, format_name: str | None) -> tuple[str, pathlib.Path]:
  if not path.exists():
    raise UsageError(f"{path}: no such file or folder")
  if path.is_file():
    refuse_pickle(path)
    if big_vision.is_file(path):
      return "big_vision", path
  # Folders of the Hugging Face hub often hold a model in both forms.
  elif open_clip.is_folder(path) and (format_name == "open_clip" or not hf.is_folder(path)):
    return "open_clip", path
  elif hf.is_folder(path) or m_clip.is_folder(path):
    return "hf", path
  elif checkpoint := t5x.find(path):
    return "t5x", checkpoint
  elif is_xmcap(path):
    raise UsageError(f"{path}: holds xmcap's own weights: name it in train.pretrained, or give --to=hf")
  else:
    names = sorted(file.name for file in path.iterdir())
    if weights := [name for name in names if name.endswith(".safetensors")]:
      raise UsageError(f"{path}: holds {wording.first_few(weights)}, but no {hf.CONFIG}: fetch it too")
    raise UsageError(f"{path}: {weight_files.absent(names, hf.WEIGHTS)}; xmcap converts {_KNOWN}")
  raise UsageError(f"{path}: not what xmcap converts: give {_KNOWN}")
