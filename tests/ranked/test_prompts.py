"""Zero-shot prompt templates per language."""

import pytest

from tests.make import files
from xmcap.errors import UsageError
from xmcap.ranked import prompts


def write(folder, content):
  return files.write(folder / "prompts.json", content)


def test_read_prompts_strips_spaces(tmp_path):
  path = write(tmp_path, {"DE": [" ein Bild von {} ", "{}"], "TL": ["isang larawan ng {}."]})
  assert prompts.read_prompts(path) == {
    "de": ("ein Bild von {}", "{}"),
    "fil": ("isang larawan ng {}.",),
  }


def test_fill_prompt_ignores_other_braces():
  assert prompts.fill("a {0} {name} of {}!", "{x}") == "a {0} {name} of {x}!"


@pytest.mark.parametrize(
  ("content", "message"),
  [
    ({"DE": ["ein Bild"]}, r"'DE', prompt 0 \('ein Bild'\): has {} 0 times"),
    ({"DE": ["{}", "{} und {}"]}, r"'DE', prompt 1 \('{} und {}'\): has {} 2 times"),
    ({"DE": []}, "'DE': has no prompts"),
    ({"DE": ["{}"], "de": ["{}"]}, "the language 'de' occurs twice"),
    ({"xx-unknown": ["{}"]}, "unknown language 'xx-unknown'"),
    (["{}"], "not a file of prompts"),
    ("{", "prompts.json"),
  ],
)
def test_read_prompts_refuses_malformed_files(tmp_path, content, message):
  with pytest.raises(UsageError, match=message):
    prompts.read_prompts(write(tmp_path, content))


def test_read_prompts_of_the_paper(request):
  path = request.config.rootpath.parent / "shared" / "babel_imagenet" / "nllb_dist13b_prompts.json"
  if not path.exists():
    pytest.skip("../shared/babel_imagenet is not here")
  found = prompts.read_prompts(path)
  assert len(found) == 90 and {len(of_language) for of_language in found.values()} == {80}
  distinct = [len(set(of_language)) for of_language in found.values()]
  assert min(distinct) == 46 and max(distinct) == 79  # 80 where spaces around a prompt count


def test_prompts_and_labels_name_languages_that_one_lacks():
  assert prompts.unmatched(["de", "fr"], ["de", "th"]) == [
    "no prompts in th, whose names are embedded alone",
    "no labels in fr, whose prompts are not used",
  ]
  assert prompts.unmatched(["de"], ["de"]) == []
