"""Writes the vectors of images by the image tower of a captioner, a tagger or a dual tower.

The processes of a run share the parts. A finished part is not computed again, so a run that was killed goes on.
"""

import dataclasses
import functools
import hashlib
import json
import os
import pathlib
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np

from xmcap import processes
from xmcap.data import features, images
from xmcap.data.workers import Job, prefetch
from xmcap.errors import UsageError, XmcapError
from xmcap.evaluation import parts as parts_lib
from xmcap.evaluation import sharded_params
from xmcap.files import plans
from xmcap.files.bucket_paths import epath
from xmcap.models import model_json, stacking
from xmcap.models.parts import IMAGE, ImageConfig, image_tower
from xmcap.progress import Say
from xmcap.training.checkpoints import read
from xmcap.training.checkpoints import weights as weights_lib
from xmcap.training.hosts import join as hosts
from xmcap.wording import count, first_few

_NAME, _VERSION = "features", "1"
_PARTS = ".parts"
_PART = 4_096  # images that are computed and stored at once
_CROPS = 256  # crops on the devices at once, about
_TOWER = f"{IMAGE}/"


def in_batches(
  pictures: Sequence[str],
  load: Callable[[str], np.ndarray],
  compute: Callable[[Any, Any], jax.Array],
  sharded: sharded_params.ShardedParams,
  batch_size: int,
) -> Iterator[np.ndarray]:
  """Yields the results of a compiled function for each batch of images, [N, D]; threads decode ahead.

  Args:
    load: image -> its pixels, or its stored features: arrays of one type and shape.
    compute: (parameters, {"image": [batch_size, ...]}) -> [batch_size, D].
    batch_size: a multiple of `sharded.groups`.
  """
  batches = [pictures[start : start + batch_size] for start in range(0, len(pictures), batch_size)]
  jobs = (Job([functools.partial(load, image) for image in batch], np.stack) for batch in batches)
  for batch, pixels in zip(batches, prefetch(jobs, processes.available_cores(), depth=2), strict=True):
    whole = np.zeros((batch_size, *pixels.shape[1:]), pixels.dtype)
    whole[: len(batch)] = pixels
    yield sharded.compute(compute, {"image": whole})[: len(batch)]


class ImageEncoder:
  """The image tower of a model and the devices that it computes on.

  Args:
    model_dir, step, weights: as in `read_params`.
    crops: 1 (the image as the model sees it), or 10 (the mean over `images.ten_crops`).
    vectors: `pooled`, the tower's own vector; or `mean`, the mean over its patch tokens. They are the same if the tower
      has pool `none` or `gap`.

  Raises:
    UsageError: the folder holds no image tower, or an option does not fit it.
  """

  def __init__(
    self,
    model_dir: str,
    step: int | None = None,
    weights: str | None = None,
    crops: int = 1,
    vectors: str = "pooled",
  ):
    vit, dual = _configs(model_dir)
    pool = getattr(vit, "pool", "none")
    if vectors == "mean" and pool == "tok":
      raise UsageError(f"{model_dir}: its ViT pools by a class token (tok): give --vectors=pooled")
    if vectors == "mean" and pool != "none":
      vit = dataclasses.replace(cast(Any, vit), pool="none")
    self._resize = "bilinear" if dual is None else dual.resize
    self._size, self._crops = vit.image_size, crops
    tower = _tower(_checkpoint(model_dir, step), weights)
    self._sharded = sharded_params.for_evaluation(tower, jax.local_devices())
    self._batch_size = self._sharded.rounded(_CROPS // crops)
    module = image_tower(vit, name=None)

    def compute(params, batch):
      image = batch["image"].reshape(-1, self._size, self._size, 3)
      tokens: Any = module.apply({"params": params}, image)
      vectors = jnp.mean(tokens.astype(jnp.float32), axis=1)
      return jnp.mean(vectors.reshape(len(batch["image"]), -1, vectors.shape[-1]), axis=1)

    self._compute = jax.jit(compute)

  def _pixels(self, data: bytes, key: str) -> np.ndarray:
    """The crops of an image, uint8 [crops, S, S, 3]."""
    if self._crops == 10:
      return images.ten_crops(data, key, self._size, bicubic=self._resize.startswith("bicubic"))
    return images.load_pixels(data, key, self._size, self._resize)[None]

  def __call__(
    self, pictures: Sequence[str], read: Callable[[str], bytes], skip_bad: bool = False
  ) -> tuple[np.ndarray, np.ndarray]:
    """Returns the vectors of images, float32 [N, D], and whether each could be decoded, bool [N].

    Raises:
      XmcapError: an image cannot be decoded, unless `skip_bad`.
    """
    bad = set()

    def load(image: str) -> np.ndarray:
      try:
        return self._pixels(read(image), image)
      except XmcapError:
        if not skip_bad:
          raise
        bad.add(image)
        return np.zeros((self._crops, self._size, self._size, 3), np.uint8)

    batches = in_batches(pictures, load, self._compute, self._sharded, self._batch_size)
    vectors = np.concatenate(list(batches))
    return vectors, np.array([image not in bad for image in pictures])


def write(
  out: str | os.PathLike,
  pictures: Mapping[str, str],
  read: Callable[[str], bytes],
  model_dir: str,
  step: int | None = None,
  weights: str | None = None,
  crops: int = 1,
  vectors: str = "pooled",
  form: str = "safetensors",
  skip_bad: bool = False,
  say: Say = lambda line: None,
) -> int:
  """Writes the vectors of images, as `data.features` reads them; returns how many images were left out.

  All processes of a run must call it with the same arguments. Process 0 alone joins the parts and knows how many were
  left out; the others return 0.

  Args:
    out: a file, or a folder for `bigfile`; `OUT.parts` beside it holds complete parts until the end.
    pictures: key -> argument of `read`, such as a file.
    read: returns the bytes of an image.
    skip_bad: whether to leave out images that cannot be decoded, rather than stop.
    say: takes lines of progress.
    model_dir, step, weights, crops, vectors: see `ImageEncoder`.

  Raises:
    UsageError: as `ImageEncoder` and `features.write`; another run was begun there; or the processes have different
      images or options.
    XmcapError: an image cannot be decoded, none can, or the disk is full or cannot be written.
  """
  _configs(model_dir)
  parts = pathlib.Path(f"{os.fspath(out).rstrip(os.sep)}{_PARTS}")
  keys = list(pictures)
  options = {
    "model": os.fspath(_checkpoint(model_dir, step)), "crops": crops, "vectors": vectors,
    "pictures": len(keys), "keys": hashlib.sha256("\n".join(keys).encode()).hexdigest()[:16],
    **which_weights(model_dir, step, weights),
  }  # fmt: skip
  if len(set(hosts.agree("pictures and options", json.dumps(options)))) > 1:
    raise UsageError("the processes have different pictures: give each the same options and files")
  first = jax.process_index() == 0
  if first:
    plans.begin(
      parts, parts / plans.WORK, {"corpus": _NAME, "version": _VERSION, "options": options, "inputs": {}}
    )
  if hosts.current():
    hosts.check_folder(epath.Path(parts / plans.WORK))
  encoder = functools.cache(lambda: ImageEncoder(model_dir, step, weights, crops, vectors))

  def make_part(number: int) -> dict[str, np.ndarray]:
    chosen = keys[number * _PART : (number + 1) * _PART]
    made, kept = encoder()(chosen, lambda key: read(pictures[key]), skip_bad)
    return {"vectors": made, "kept": kept}

  paths = [parts / f"{start}.npz" for start in range(0, len(keys), _PART)]
  parts_lib.make(paths, make_part, f"parts of {_PART:,} pictures", say)
  if not first:
    return 0
  kept = np.concatenate([_member(path, "kept") for path in paths])
  left_out = [key for key, there in zip(keys, kept, strict=True) if not there]
  if len(left_out) == len(keys):
    raise XmcapError(
      f"none of {count(len(keys), 'picture')} can be decoded ({first_few(left_out)}): replace them"
    )
  if left_out and not skip_bad:
    raise XmcapError(
      f"{parts} was begun with pictures left out ({first_few(left_out)}): give --on_bad=skip, or remove it"
    )
  whole, start = np.empty((int(kept.sum()), _member(paths[0], "vectors").shape[1]), np.float32), 0
  for path in paths:  # one by one, so that memory holds them once
    of_part = _member(path, "vectors")[_member(path, "kept")]
    whole[start : start + len(of_part)] = of_part
    start += len(of_part)
  names = tuple(key for key, there in zip(keys, kept, strict=True) if there)
  about = {name: str(value) for name, value in options.items()}
  features.write(out, features.Features(names, whole), form, about)
  shutil.rmtree(parts)
  if left_out:
    say(
      f"left out, because they cannot be decoded: {count(len(left_out), 'picture')} ({first_few(left_out)})"
    )
  return len(left_out)


def read_params(model_dir: str, step: int | None = None, weights: str | None = None) -> Any:
  """The parameters of `chosen_step` of a model; those of a converted dual tower have a bias, which CLIP lacks.

  `weights` is as in `read.chosen_weights`.
  """
  if (chosen := chosen_step(model_dir, step)) is not None:
    return read.load_params(model_dir, chosen, weights)
  params = weights_lib.read_all(model_dir, weights)
  if "logit_scale" in params:
    params.setdefault("logit_bias", np.zeros((), np.float32))
  return params


def chosen_step(model_dir: str, step: int | None) -> int | None:
  """The step to read: as given, else the best or newest; None: the weights that `xmcap convert` wrote into `model_dir`.

  Raises:
    UsageError: there is no such checkpoint.
  """
  if step is None and (epath.Path(model_dir) / weights_lib.PARAMS).exists():
    return None
  steps = read.steps_in(read.checkpoints_dir(model_dir))
  chosen = read.best_step(model_dir) if step is None else step
  if not steps:
    raise UsageError(f"{model_dir} holds no finished checkpoint: give a run that has saved one")
  if chosen not in (None, *steps):
    raise UsageError(f"{model_dir} holds no checkpoint of step {chosen}: it has {', '.join(map(str, steps))}")
  return steps[-1] if chosen is None else chosen


def which_weights(model_dir: str, step: int | None, weights: str | None) -> dict[str, str]:
  """`weights` with which of its weights are read from `chosen_step`, if it has an EMA; else {}."""
  checkpoint = _checkpoint(model_dir, step)
  chosen = read.chosen_weights(checkpoint, weights)
  return {"weights": chosen} if chosen == "ema" or read.has_ema(checkpoint) else {}


def _checkpoint(model_dir: str, step: int | None) -> epath.Path:
  """The folder of the parameters of `chosen_step`."""
  step = chosen_step(model_dir, step)
  return epath.Path(model_dir) if step is None else read.checkpoints_dir(model_dir) / str(step)


def _member(part: pathlib.Path, name: str) -> np.ndarray:
  with np.load(part, allow_pickle=False) as arrays:
    return arrays[name]


def _configs(model_dir: str) -> tuple[ImageConfig, Any]:
  model = model_json.of_folder(model_dir)
  vit, dual = model.image_config(), model.config("dual")
  if vit is None:
    raise UsageError(
      f"{model_dir} holds no image tower ({model_json.NAME} has no '{IMAGE}'): give another model"
    )
  return vit, dual


def _tower(folder: epath.Path, weights: str | None) -> Any:
  model = weights_lib.open_weights(folder, weights)
  read.say_weights(folder, "ema" if model.is_ema else "raw")
  tower = {
    path.removeprefix(_TOWER): np.asarray(tensor.read(), np.float32)
    for path, tensor in model.tensors.items()
    if path.startswith(_TOWER)
  }
  if not tower:
    raise UsageError(
      f"{model.where} has {', '.join(model.parts())}, but no '{IMAGE}': give a model with an image tower"
    )
  return stacking.nested(tower)
