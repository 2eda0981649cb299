"""Tags in the prompts of `xmcap caption` and `load_captioner`: their use, warnings and refusals."""

import dataclasses
import json
import shutil
import types

import numpy as np
import pytest
from PIL import Image

import xmcap as xmcap_lib
from tests.make import files, models
from tests.make.command import xmcap
from tests.options import changed
from xmcap import configuration
from xmcap.data import tag_prompts
from xmcap.errors import UsageError
from xmcap.evaluation import model_dir
from xmcap.models import model_json
from xmcap.training import compilation_cache

LENGTH = 24
TAGS = {"one": {"en": {"sea": 0.1, "dog": 0.9}}, "two": {"en": {}}}


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
  return models.captioner(tmp_path_factory.mktemp("plain") / "model")


@pytest.fixture(scope="module")
def tagged(plain, tmp_path_factory):
  """The same model, as if trained with tags in its prompts."""
  folder = shutil.copytree(plain, tmp_path_factory.mktemp("tagged") / "model")
  model = model_json.read(folder / model_json.NAME)
  model = dataclasses.replace(
    model, parts={**model.parts, "tags": {"prompt_length": LENGTH, "language": "", "most": 2}}
  )
  (folder / model_json.NAME).write_text(model_json.as_text(model))
  return folder


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
  folder = tmp_path_factory.mktemp("pictures")
  rng = np.random.RandomState(0)
  for name in TAGS:
    Image.fromarray(rng.randint(0, 256, (12, 12, 3), np.uint8)).save(folder / f"{name}.png")
  return folder


def predicted(folder, tags=TAGS):
  rows = [
    {"image/key": key, "language": language, "tags": of_language}
    for key, of_picture in tags.items()
    for language, of_language in of_picture.items()
  ]
  return files.jsonl(folder / "predictions.jsonl", *rows)


def prompts_seen(monkeypatch):
  """The prompts of all batches that are decoded from now on, without padding."""
  from xmcap.evaluation import predictor

  seen, decode = [], predictor.decode_batch

  def spy(generate, sharded, images, prompts, *more):
    seen.append(prompts)
    return decode(generate, sharded, images, prompts, *more)

  monkeypatch.setattr(predictor, "decode_batch", spy)
  return seen


def caption(folder, *arguments):
  return xmcap("caption", f"--model_dir={folder}", *arguments)


def test_caption_tags_are_sorted_by_score_in_command_and_python(tagged, pictures, tmp_path, monkeypatch):
  seen = prompts_seen(monkeypatch)
  file = predicted(tmp_path)
  found = caption(tagged, f"--tags={file}", "--json", pictures).succeeded()
  captioner = xmcap_lib.load_captioner(tagged)
  encode, start = captioner.vocabulary.encode, captioner.vocabulary.prompt("en")
  expected = [[*start, *encode("dog"), *encode("sea")], start]
  tags = tag_prompts.read(str(file))
  paths = [pictures / f"{key}.png" for key in TAGS]
  ours = captioner.caption(paths, ["en"], tags=[tags[key] for key in TAGS])
  assert len(seen) == 2
  for prompts in seen:
    assert [row[row != 0].tolist() for row in prompts[:2, 0]] == expected
  rows = [json.loads(line) for line in found.out.splitlines()]
  assert [(row["image/key"], row["caption"]) for row in rows] == [
    (key, caption["en"]) for key, caption in zip(TAGS, ours, strict=True)
  ]
  assert found.err == f"{compilation_cache.described()}\n"


def test_caption_looks_up_tags_by_key_or_path(tagged, pictures, tmp_path):
  out = caption(tagged, f"--tags={predicted(tmp_path)}", pictures).succeeded().out
  assert out.splitlines()[0] == f"{pictures}/one.png"
  by_path = predicted(tmp_path, {f"{pictures}/{key}.png": tags for key, tags in TAGS.items()})
  caption(tagged, f"--tags={by_path}", "--keys=path", pictures).succeeded()


@pytest.mark.parametrize(
  ("tags", "options", "messages"),
  [
    (TAGS, ["--languages=en,th"],
     ["no 'th' tags of 2 pictures (one, two), only in other languages: predict them, or set"]),
    (TAGS, ["--tags=none"], ["none"]),
    ({"one": TAGS["one"]}, [], ["predictions.jsonl: no tags of 1 picture (two): predict them first"]),
    (TAGS | {"two": {"en": {"a very long tag of many words": 1.0, "another": 0.5}}}, [],
     ["picture 'two': the prompt of 'en' with tags has",
      f"raise Predictor.prompt_length, which is {LENGTH}, or lower TagPrompts.most"]),
  ],
)  # fmt: skip
def test_caption_refuses_invalid_tags_in_one_line(tagged, pictures, tmp_path, tags, options, messages):
  file = f"--tags={predicted(tmp_path, tags)}"
  caption(tagged, *changed([file], options), pictures).refused(*messages)


def test_caption_refuses_tags_for_a_model_without_them(plain, pictures, tmp_path):
  message = f"{plain}: the model was trained without tags in its prompts: leave the tags out"
  caption(plain, f"--tags={predicted(tmp_path)}", pictures).refused(message)


def test_one_language_of_tags_serves_all_captions(tagged, pictures, tmp_path):
  options = ["--gin.TagPrompts.language='en'", "--languages=th", "--json"]
  caption(tagged, f"--tags={predicted(tmp_path)}", *options, pictures).succeeded()


def test_caption_warns_of_a_tag_model_without_tags(plain, tagged, pictures):
  assert caption(plain, "--languages=en", pictures).succeeded().err == f"{compilation_cache.described()}\n"
  assert caption(tagged, "--languages=en", pictures).succeeded().err == (
    f"{compilation_cache.described()}\n"
    "warning: the model was trained with tags in its prompts, and gets none: give --tags=FILE\n"
  )


def test_eval_warns_of_a_tag_model_without_tags(plain, tagged, capsys):
  evaluator = types.SimpleNamespace(
    run=lambda params, step: [], predictor=types.SimpleNamespace(prompt_tags=None, probabilities={})
  )
  said = []
  for folder, tags in ((plain, None), (tagged, tag_prompts.TagPrompts("own")), (tagged, None)):
    evaluator.predictor.prompt_tags = tags
    model_dir.evaluate(str(folder), [evaluator])
    said.append(capsys.readouterr().err)
  assert said[:2] == ["", ""] and said[2].endswith("gets none: set Predictor.prompt_tags\n")


def test_load_captioner_refuses_and_warns_about_tags(plain, tagged, pictures, caplog):
  picture = pictures / "one.png"
  with pytest.raises(UsageError, match="the model was trained without tags in its prompts"):
    xmcap_lib.load_captioner(plain).caption([picture], tags=[{"en": ["dog"]}])
  captioner = xmcap_lib.load_captioner(tagged)
  for tags, says in [
    ([], "of each of the 1 pictures"),
    ([["dog"]], "give {language: tags} of each"),
    ([{"th": ["dog"]}], "no 'en' tags of 1 picture"),
    ([{"en": ["a very long tag of many words"]}], f"raise prompt_length, which is {LENGTH}"),
  ]:
    with pytest.raises(UsageError, match=says):
      captioner.caption([picture], tags=tags)
  assert not caplog.records
  for _ in range(2):
    captioner.caption([picture])
  (record,) = caplog.records
  assert "trained with tags in its prompts, and gets none" in record.getMessage()


def test_tags_in_prompt_are_written_for_model_json():
  assert model_dir._tags_in_prompt() is None
  lines = ["CaptionStream.prompt_tags=@TagPrompts()", "TagPrompts.tags='own'", "TagPrompts.most=7"]
  configuration.parse([], lines)
  assert model_dir._tags_in_prompt() == {"prompt_length": 4, "language": "", "most": 7}
  configuration.parse([], [*lines, "CaptionStream.prompt_length=72", "TagPrompts.language='zh'"])
  assert model_dir._tags_in_prompt() == {"prompt_length": 72, "language": "zh", "most": 7}
