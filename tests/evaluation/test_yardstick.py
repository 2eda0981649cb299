"""The notes that compare a model with copying, on captions whose verdict is plain."""

import numpy as np
import pytest

from xmcap.evaluation import yardstick
from xmcap.evaluation.baselines import Measured
from xmcap.scoring.score import score

WORDS = [f"word{number}" for number in range(60)]


def captions(seed, pictures):
  rng = np.random.default_rng(seed)
  return {f"{n:03}": {"en": " ".join(rng.choice(WORDS, 5, replace=False))} for n in range(pictures)}


def noted(model, nearest, pictures, copied=0.0):
  references = {key: {"en": [of["en"]]} for key, of in captions(0, pictures).items()}
  trivial = {
    "most frequent caption": score(references, captions(9, pictures)),
    "nearest picture": score(references, nearest),
  }
  result = score(references, model)
  found = yardstick.with_notes(result, trivial, Measured({}, 270, copied, 0.05))
  notes = [note for note in found.table.notes if note.startswith("baselines: ")]
  assert not set(notes) & set(found.table.own_notes) and not any("docs/" in note for note in notes)
  return result, trivial, notes


def mixed(right, pictures):
  """Captions of which the first `right` are those of the references."""
  true, other = captions(0, pictures), captions(1, pictures)
  return {key: (true if place < right else other)[key] for place, key in enumerate(true)}


@pytest.mark.parametrize(
  "right, of_nearest, pictures, verdict",
  [
    (40, 4, 40, "better than copying"),
    (20, 20, 40, "no better than copying"),
    (2, 38, 40, "worse than copying"),
    (10, 1, 10, "10 pictures are too few"),
  ],
)
def test_yardstick_verdict_against_copying(right, of_nearest, pictures, verdict):
  result, trivial, notes = noted(mixed(right, pictures), mixed(of_nearest, pictures), pictures)
  assert len(notes) == 1 and f": {verdict}" in notes[0] or verdict in notes[0]
  for held in (result, *trivial.values()):
    assert held.table.shown("cider_d", list(held.table.means.values())[-1]["cider_d"]) in notes[0]
  assert ("pretrained ViT" in notes[0]) == (verdict in ("no better than copying", "worse than copying"))


def test_the_interval_is_that_of_a_paired_bootstrap():
  """numpy's own resamples of the differences, with document frequencies held fixed, give the same within a tenth."""
  pictures = 100
  result, trivial, notes = noted(mixed(80, pictures), mixed(30, pictures), pictures)
  differences = [
    held.statistics["en"].image_scores("cider_d") for held in (result, trivial["nearest picture"])
  ]
  paired = differences[0] - differences[1]
  draws = np.random.default_rng(5).choice(paired, (4000, pictures)).mean(axis=1)
  text = notes[0].partition("interval ")[2].partition(",")[0]
  found = [float(number) for number in text.split(" to ")]
  np.testing.assert_allclose(found, np.percentile(draws, (2.5, 97.5)), atol=0.1 * paired.mean())


@pytest.mark.parametrize("copied, said", [(0.92, True), (0.1, False)])
def test_yardstick_notes_a_model_that_copies_captions(copied, said):
  _, _, notes = noted(mixed(20, 40), mixed(20, 40), 40, copied)
  tell = (
    "baselines: 92% of the model's captions are captions of train, word for word (of the references 5%); such a"
    " model has usually learned captions, but hardly to see"
  )
  assert (tell in notes) == said
