"""Tags new images with a tagger that `runs/tag_mono.gin`, `tag_multitask.gin` or `tag_cascade.gin` trained.

The run's folder is enough: `model.json` has the sizes of the networks, `labels/CODE/labels.txt` the labels.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from xmcap.errors import UsageError
from xmcap.evaluation import image_features, sharded_params
from xmcap.families.tagging import labels as labels_lib
from xmcap.families.tagging.label_tagger import LabelTagger, TaggerConfig, columns
from xmcap.files import addresses
from xmcap.models import model_json
from xmcap.training.checkpoints import read

_AT_ONCE = 64  # images on the devices

Tags = dict[str, dict[str, float]]
"""Language code -> tag -> probability, the most probable first."""


class ImageTagger:
  """Predicts the labels of images, or of their stored features if the model was trained on such.

  Args:
    model_dir, step, weights: as in `image_features.read_params`.

  Attributes:
    names: language code -> its labels.
    image_size: side of the images that the model sees; None: it takes stored features.
    width: numbers of an image's stored features, if it takes such.

  Raises:
    UsageError: the folder holds no tagger, or other labels than it was trained with.
    XmcapError: the parameters belong to another model.
  """

  def __init__(self, model_dir: str, step: int | None = None, weights: str | None = None):
    model = model_json.of_folder(model_dir)
    vit, tagger = model.image_config(), model.config("tagger")
    if not isinstance(tagger, TaggerConfig):
      raise UsageError(
        f"{model_dir} holds no tagger ({model_json.NAME} has no 'tagger'): give the MODEL_DIR of a run of "
        "runs/tag_mono.gin or tag_cascade.gin"
      )
    folders = {
      language: addresses.join(model_dir, labels_lib.FOLDER, language) for language, _ in tagger.sizes
    }
    self.names = labels_lib.read_names(folders)
    for language, size in tagger.sizes:
      if len(self.names[language]) != size:
        raise UsageError(
          f"{folders[language]}: {len(self.names[language]):,} labels, but the model was trained with {size:,}: copy "
          "them from the run's folder"
        )
    params = image_features.read_params(model_dir, step, weights)
    arrays = read.flat(params)
    module = LabelTagger(vit, tagger)
    self.image_size = None if module.vit is None else module.vit.image_size
    # The first layer says how wide the features were; if it is absent, the comparison names it.
    first = np.shape(arrays.get("tags/hidden/kernel", np.zeros((1, 1))))
    self.width = first[0] if first else 1
    size = self.image_size
    inputs = (1, self.width) if size is None else (1, size, size, 3)
    shapes = jax.eval_shape(module.init, jax.random.key(0), jnp.zeros(inputs, jnp.float32))
    read.check_same(read.flat(shapes["params"]), arrays, f"the parameters of {model_dir}")
    self._parts = columns(tagger.sizes)
    self._sharded = sharded_params.for_evaluation(params, jax.local_devices())

    def compute(params: Any, batch: Any) -> jax.Array:
      logits: Any = module.apply({"params": params}, batch["image"])
      return jax.nn.sigmoid(logits)

    self._compute = jax.jit(compute)

  def __call__(
    self,
    keys: Sequence[str],
    load: Callable[[str], np.ndarray],
    languages: Sequence[str] = (),
    most: int = 10,
  ) -> Iterator[tuple[str, Tags]]:
    """Yields the key and the most probable labels of each image; of equally probable ones the first.

    Args:
      keys: the images.
      load: key -> pixels, uint8 [image_size, image_size, 3], or features, float32 [width].
      languages: codes, of `names`; (): all.
      most: labels for each image and language; fewer if a language has fewer.

    Raises:
      UsageError: the model has no labels in a language.
    """
    if unknown := [language for language in languages if language not in self.names]:
      raise UsageError(f"the model has no labels in {', '.join(unknown)}: choose of {', '.join(self.names)}")
    size = self._sharded.rounded(min(_AT_ONCE, max(1, len(keys))))
    batches = image_features.in_batches(keys, load, self._compute, self._sharded, size)
    for key, row in zip(keys, itertools.chain.from_iterable(batches), strict=True):
      tags = {}
      for language in languages or self.names:
        scores = row[self._parts[language]]
        best = np.argsort(-scores, kind="stable")[:most]
        tags[language] = named(self.names[language], scores[best], best)
      yield key, tags


def named(names: Sequence[str], scores: np.ndarray, places: np.ndarray) -> dict[str, float]:
  """Returns label -> score, for scores float32 [n] and the numbers of their labels, int [n].

  A score is the shortest decimal that stands for the float32, so that files are short and order is kept.
  """
  return {names[int(place)]: float(str(score)) for score, place in zip(scores, places, strict=True)}
