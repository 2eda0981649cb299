"""The folder that `build` writes for emoji36."""

import dataclasses
import json

import pytest

from tests.make import drawn_emoji, files
from tests.make.command import xmcap
from xmcap import languages
from xmcap.corpora.emoji import choice as emoji_choice
from xmcap.corpora.emoji import corpus as emoji_corpus
from xmcap.corpora.emoji import sources as emoji_sources
from xmcap.corpora.emoji.presets import DIFFICULTIES, EMOJI36
from xmcap.data import records
from xmcap.errors import UsageError, XmcapError

SMALL = dataclasses.replace(
  EMOJI36, num_emoji=12, num_train=60, num_validation=6, num_test=20, image_size=32, shard_records=25
)


@pytest.fixture(autouse=True, scope="module")
def drawn_source():
  with pytest.MonkeyPatch.context() as patch:
    patch.setattr(emoji_sources, "find", lambda way: drawn_emoji.source.__wrapped__())
    patch.setattr(emoji_choice, "_MIN_DISTANCE", 0.0)
    yield


def build(folder, processes=1, **changes):
  return emoji_corpus.build(dataclasses.replace(SMALL, **changes), folder, processes=processes)


def contents(folder):
  return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def release(folder, split):
  return files.rows(folder / split / "captions.jsonl")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
  return build(tmp_path_factory.mktemp("emoji36") / "corpus")


def test_emoji36_split_sizes(corpus):
  assert len(records.RecordSource(corpus, "train")) == 60
  assert len(records.RecordSource(corpus, "validation")) == 6
  assert len(release(corpus, "validation")) == 6
  assert len(release(corpus, "test")) == 20
  assert len(list((corpus / "test" / "images").iterdir())) == 20


def test_emoji36_records_are_valid_with_distinct_keys(corpus):
  found = [*records.RecordSource(corpus, "train"), *records.RecordSource(corpus, "validation")]
  for record in found:
    records.check(record)
  keys = [record.key for record in found] + [line["image/key"] for line in release(corpus, "test")]
  assert len(set(keys)) == len(keys)


def test_emoji36_captions_join_the_names_of_tags(corpus):
  for record in records.RecordSource(corpus, "train"):
    captions = {caption.language: caption.text for caption in record.captions}
    joined = {1: "{}", 2: "{} and {}", 3: "{}, {}, and {}"}[len(record.tags)].format(*record.tags)
    assert captions["en"] == joined
    assert captions["sw"] == joined.replace("en thing", "sw thing")


def test_emoji36_languages_without_a_name_have_no_caption(corpus):
  unnamed = {language: set() for language in ("mi", "quz")}
  for emoji in json.loads((corpus / "emoji36.json").read_text("utf-8"))["emoji"]:
    for language in emoji["lacks"]:
      unnamed[language].add(emoji["tag"])
  assert any(unnamed.values())
  for record in records.RecordSource(corpus, "train"):
    captioned = {caption.language for caption in record.captions}
    for language in languages.LANGUAGES:
      assert (language in captioned) == (not unnamed.get(language, set()) & set(record.tags))


def test_emoji36_tags_file_lists_the_classes(corpus):
  tags = records.read_tags(corpus)
  assert len(tags) == 12
  assert {tag for record in records.RecordSource(corpus, "train") for tag in record.tags} <= set(tags)


def test_emoji36_combinations_are_in_a_single_split(corpus):
  def combination(text):
    return frozenset(text.replace(" and ", ", ").replace(", , ", ", ").split(", "))

  train = {frozenset(record.tags) for record in records.RecordSource(corpus, "train")}
  validation = {frozenset(record.tags) for record in records.RecordSource(corpus, "validation")}
  test = {combination(line["en"]["caption"][0].replace(", and ", ", ")) for line in release(corpus, "test")}
  assert not train & validation and not train & test and not validation & test
  assert {len(one) for one in test} == {2, 3}


def test_emoji36_references_use_both_list_patterns(corpus):
  for line in release(corpus, "test"):
    assert line["image/locale"] == ""
    first, second = line["en"]["caption"]
    assert first.replace(" and ", " ").replace(",", "") == second.replace(",", "")
    assert len(line.get("mi", {"caption": [""]})["caption"]) == 1


def test_emoji36_validation_records_equal_the_release(corpus):
  for record, line in zip(
    records.RecordSource(corpus, "validation"), release(corpus, "validation"), strict=True
  ):
    assert record.key == line["image/key"]
    assert record.image == (corpus / "validation" / "images" / f"{record.key}.png").read_bytes()
    assert {c.language: c.text for c in record.captions} == {
      language: line[language]["caption"][0] for language in line if language in languages.LANGUAGES
    }


def test_emoji36_vocabulary_text_omits_held_out_captions(corpus):
  lines = set((corpus / "vocabulary_text.txt").read_text("utf-8").splitlines())
  assert "th thing 6" in lines or "th thing 7" in lines
  held_out = {text for line in release(corpus, "test") for text in line["en"]["caption"]}
  assert not lines & held_out


def test_emoji36_is_the_same_with_any_number_of_processes(corpus, tmp_path):
  assert contents(build(tmp_path / "two", processes=2)) == contents(corpus)


def test_emoji36_built_corpus_is_not_rebuilt(corpus, monkeypatch):
  before = contents(corpus)
  monkeypatch.setattr(emoji_sources, "find", lambda way: pytest.fail("built again"))
  build(corpus)
  assert contents(corpus) == before


def test_emoji36_refuses_other_options_in_the_same_folder(corpus):
  with pytest.raises(UsageError, match="with difficulty=medium, not easy"):
    build(corpus, difficulty="easy")


def test_emoji36_interrupted_build_resumes(corpus, tmp_path, monkeypatch):
  def interrupted(*arguments, **options):
    raise KeyboardInterrupt

  folder = tmp_path / "interrupted"
  with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
    patch.setattr("xmcap.data.record_writer.write_tags", interrupted)
    build(folder)
  (folder / ".emoji36-train.array_record-00000-of-00009.7.incomplete").write_bytes(b"half")
  written = (folder / "emoji36-train.array_record-00000-of-00003").stat().st_mtime_ns
  build(folder)
  assert contents(folder) == contents(corpus)
  assert (folder / "emoji36-train.array_record-00000-of-00003").stat().st_mtime_ns == written


def test_emoji36_refuses_a_folder_with_other_files(tmp_path):
  (tmp_path / "thesis.txt").write_text("years of work")
  with pytest.raises(UsageError, match="contains thesis.txt"):
    build(tmp_path)
  assert contents(tmp_path) == {"thesis.txt": b"years of work"}


@pytest.mark.parametrize("corpus", ["emoji36", "emoji100", "emoji_tags"])
@pytest.mark.parametrize(
  ("option", "message"),
  [
    ("--num_emoji=4", "--num_emoji=4: give a number from 5"),
    ("--num_train=0", "--num_train=0: give a number from 1"),
    ("--difficulty=extreme", f"unknown difficulty 'extreme': choose {', '.join(DIFFICULTIES)}"),
  ],
)
def test_emoji36_option_errors_are_one_line(corpus, option, message, tmp_path):
  xmcap("data", "build", corpus, f"--out={tmp_path / 'corpus'}", option).refused(f"error: {message}")


def test_emoji36_folder_that_cannot_be_created_is_refused(tmp_path):
  (tmp_path / "file").write_text("")
  with pytest.raises(XmcapError, match="file"):
    build(tmp_path / "file" / "corpus")
