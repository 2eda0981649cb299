"""The nearest picture by an image tower against scipy 1.x's cosine distances of the same vectors."""

import numpy as np
from scipy.spatial import distance

from tests.make import models
from tests.make.images import encode
from tests.make.tiny_corpus import write_corpus
from xmcap.data import records
from xmcap.evaluation.baselines import Baselines
from xmcap.evaluation.image_features import ImageEncoder
from xmcap.reading.references import References


def test_the_nearest_picture_by_an_encoder_is_that_of_scipy(tmp_path):
  rng = np.random.default_rng(0)
  files = {f"{number:02}": encode(rng.integers(0, 256, (14, 20, 3)).astype(np.uint8)) for number in range(15)}
  train = [
    records.Record(key, files[key], [records.Caption("fa", f"caption {key}")]) for key in list(files)[:12]
  ]
  (tmp_path / "data").mkdir()
  data = write_corpus(tmp_path / "data", train, train_vocabulary=False)
  model = str(models.captioner(tmp_path / "model"))
  queries = list(files)[12:]
  references = References({key: {"fa": ["x"], "sw": ["y"]} for key in queries})
  predictions = {key: {"fa": "caption 03", "sw": "caption 03"} for key in queries}

  measured = Baselines(data, encoder=model).measure(references, files.__getitem__, predictions)
  found = measured.predictions["nearest picture"]

  vectors, _ = ImageEncoder(model)(list(files), files.__getitem__)
  nearest = distance.cdist(vectors[12:], vectors[:12], "cosine").argmin(axis=1)
  assert len(set(nearest)) > 1
  assert found == {
    key: {"fa": f"caption {train[row].key}", "sw": ""} for key, row in zip(queries, nearest, strict=True)
  }
  assert measured.images == 12
  # There is no Swahili in training, and no reference is a caption of training.
  assert (measured.copied, measured.copied_references) == (0.5, 0.0)
