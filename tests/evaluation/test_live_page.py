"""The page and the lines that show a run's captions while it trains, and the names of what a tagger sees."""

import contextlib
import re
import types

import jax
import numpy as np
import pytest

from tests import drawn_params
from tests.make.images import encode
from tests.make.tiny_corpus import write_corpus
from xmcap.data import images, records
from xmcap.errors import UsageError
from xmcap.evaluation.live_page import LivePage
from xmcap.families.tagging.tag_names import TagNames
from xmcap.families.tagging.vit_objective import TagObjective
from xmcap.models.vit import ViTConfig

NAMES = {"dog": {"ar": "كلب", "en": "dog"}, "cat": {"en": "cat"}, "owl": {"ar": "بومة", "en": "owl"}}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
  rng = np.random.default_rng(0)
  folder = tmp_path_factory.mktemp("live")

  def record(number, *tags):
    held = {code: [NAMES[tag].get(code) for tag in tags] for code in ("en", "ar")}
    captions = [records.Caption(code, " & ".join(names)) for code, names in held.items() if None not in names]
    picture = encode(rng.integers(0, 256, (16, 16, 3)).astype(np.uint8))
    return records.Record(f"{number:02}", picture, captions, tags=list(tags))

  pictures = [("dog", "owl"), ("dog",), ("cat",), ("owl",), ("cat", "dog"), ("dog", "owl"), ("owl", "dog")]
  return write_corpus(folder, [record(n, *tags) for n, tags in enumerate(pictures)], train_vocabulary=False)


SHOWN = "train[4:]"


class Guesses:
  """Right about the first picture in English, else a caption that would run as HTML."""

  image_size = 8

  def __call__(self, params, keys, load, codes):
    assert load(keys[0]).shape == (8, 8, 3)
    for key in keys:
      yield key, {code: "dog & owl" if (key, code) == ("05", "en") else "<script>alert(1)" for code in codes}


def run_of(step, said):
  progress = types.SimpleNamespace(beside=lambda *what: None)
  return types.SimpleNamespace(
    step=step, total_steps=10, state=types.SimpleNamespace(weights=None), say=said.append, progress=progress,
    every=lambda steps: step == 10 or step % steps == 0,
  )  # fmt: skip


def test_live_page_shows_human_then_model_captions(corpus, tmp_path):
  out, said = tmp_path / "new" / "live.html", []
  page = LivePage(Guesses(), corpus, str(out), SHOWN, languages=("en", "ar"), every=5, note="So far.")
  page.begin(run_of(0, said))
  begun = out.read_text(encoding="utf-8")
  assert '<meta http-equiv="refresh" content="5">' in begun and "dog &amp; owl" in begun
  assert begun.count("<article") == 2, "the picture without Arabic is left out"
  page(run_of(4, said))
  assert len(said) == 1, "no look is due"
  page(run_of(5, said))
  text = out.read_text(encoding="utf-8")
  assert text.count('class="right"') == 1 and "step 5:" in text and "Step 5 of 10" in text
  assert "<script" not in text and "&lt;script&gt;alert(1)" in text
  assert not re.search(r"\s(style|on\w+)=", text), "no style attributes and no handlers"
  lines = said[-1].splitlines()
  assert len(lines) == 1 + 2 * 2
  assert lines[1].split() == ["picture", "1", "en", "dog", "&", "owl"]
  assert max(map(len, lines)) <= 80
  assert lines[2].endswith("<script>alert(1)  (كلب & بومة)")


def test_unwritable_live_page_is_reported_once(corpus, tmp_path):
  (tmp_path / "file").write_text("")
  said = []
  page = LivePage(Guesses(), corpus, str(tmp_path / "file" / "live.html"), SHOWN, every=5)
  for step in (5, 10):
    page(run_of(step, said))
  assert sum("the run goes on" in line for line in said) == 1 and len(said) == 3


def test_languages_that_no_picture_has_are_refused(corpus):
  with pytest.raises(UsageError, match="has captions in sw"):
    LivePage(Guesses(), corpus, languages=("sw",), split=SHOWN)
  with pytest.raises(UsageError, match="at least 1"):
    LivePage(Guesses(), corpus, every=0, split=SHOWN)


def test_tag_predictor_names_tags_as_for_single_images(corpus):
  vit = ViTConfig(16, 1, 24, 2, 4, 8, "map")
  objective = TagObjective(vit, num_classes=3, num_slots=2)
  pictures = {record.key: record.image for record in records.RecordSource(corpus, SHOWN)}
  pixels = {key: images.load(data, key, 8) for key, data in pictures.items()}
  batch = np.stack(list(pixels.values()))
  params = drawn_params.of(objective.module.init, batch)
  slots, _ = jax.jit(objective.module.apply)({"params": params}, batch)
  tags = ["dog", "cat", "owl"]
  expected = {}
  for key, row in zip(pixels, np.argmax(slots, -1), strict=True):
    found = [tags[slot - 1] for slot in row if slot]
    expected[key] = {code: ", ".join(NAMES[tag].get(code, tag) for tag in found) for code in ("en", "ar")}
  with contextlib.closing(
    iter(TagNames(objective, corpus)(params, list(pixels), pixels.get, ("en", "ar")))
  ) as named:
    assert dict(named) == expected
  assert any(captions["en"] for captions in expected.values())
