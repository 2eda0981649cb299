"""Annotation files: the strict schema of a line, the latest annotation, and export as a corpus."""

import json

import pytest

from tests.make import files
from xmcap.errors import UsageError
from xmcap.human import annotations


def row(key="k1", annotator="anna", caption="a dog", **more):
  return {
    "image/key": key, "image": f"sub/{key}.jpg", "language": "en", "annotator": annotator, "caption": caption,
    "tags": ["dog"], "skipped": "", "suggested": {"sentences": ["A dog."], "tags": ["dog", "cat"]},
    "events": [{"time": 1000, "event": "open", "text": ""}], **more,
  }  # fmt: skip


@pytest.fixture
def read(tmp_path):
  """Reads files of rows; returns annotations and how many were replaced."""

  def run(*rows_of_files):
    paths = [tmp_path / f"{number}.jsonl" for number in range(len(rows_of_files))]
    for path, rows in zip(paths, rows_of_files, strict=True):
      files.jsonl(path, *rows)
    return annotations.read(paths)

  return run


def _events(time):
  return [{"time": time, "event": "done", "text": ""}]


def test_annotation_line_is_read(read):
  ((found,), replaced) = read([row()])
  assert (found.key, found.image, found.caption, found.tags) == ("k1", "sub/k1.jpg", "a dog", ["dog"])
  assert found.suggested.tags == ["dog", "cat"] and found.events[0].event == "open" and replaced == 0


@pytest.mark.parametrize(
  "change, error",
  [
    ({"caption": 3}, r"Expected `str`, got `int` - at `\$.caption`"),
    ({"more": 1}, "unknown field `more`"),
    ({"image/key": ""}, "length >= 1"),
    ({"tags": "dog"}, "Expected `array`"),
    ({"events": [{"time": 1.5, "event": "open"}]}, "Expected `int`"),
    ({"events": [{"time": 1, "event": "hacked"}]}, "Invalid enum value 'hacked'"),
    ({"suggested": {"sentences": []}}, "missing required field `tags`"),
    ({"language": "xx1"}, "unknown language 'xx1'"),
  ],
)
def test_annotation_line_damaged_is_refused_by_file_and_line(read, change, error):
  with pytest.raises(UsageError, match=rf"0.jsonl, line 2: .*{error}") as raised:
    read([row(), row(**change)])
  assert "\n" not in str(raised.value)


def test_annotation_file_without_annotations_is_refused(read):
  with pytest.raises(UsageError, match="no annotation in it"):
    read([])


@pytest.mark.parametrize("turned", [False, True])
def test_annotation_latest_of_an_annotator_replaces_earlier(read, turned):
  files = [[row(caption="early", events=_events(5))], [row(caption="late", events=_events(9))]]
  found, replaced = read(*(files[::-1] if turned else files))
  assert [each.caption for each in found] == ["late"] and replaced == 1


def test_annotation_last_read_wins_at_equal_times(read):
  found, replaced = read([row(caption="one"), row(caption="two")])
  assert [each.caption for each in found] == ["two"] and replaced == 1


def test_annotation_repeated_line_replaces_nothing(read):
  assert read([row()], [row()])[1] == 0


def test_annotations_are_separate_by_annotator_and_language(read):
  assert len(read([row(), row(annotator="bo"), row(language="de")])[0]) == 3


def test_annotations_are_written_as_corpus_files(read, tmp_path):
  found, _ = read(
    [
      row(caption="a\tdog", tags=["dog", "chair"]),
      row(annotator="bo", caption="the dog", tags=["chair", "sofa"], image=""),
      row(key="k2", caption="", skipped="dark"),
      row(key="k3", caption="eine Katze", language="de", tags=[]),
    ]
  )
  annotations.write_corpus(tmp_path / "out", found)
  read_lines = lambda name: [json.loads(line) for line in (tmp_path / "out" / name).read_text().splitlines()]  # noqa: E731
  assert read_lines("captions.jsonl") == [
    {"image/key": "k1", "image": "sub/k1.jpg", "language": "en", "caption": "a\tdog"},
    {"image/key": "k1", "language": "en", "caption": "the dog"},
    {"image/key": "k3", "image": "sub/k3.jpg", "language": "de", "caption": "eine Katze"},
  ]
  assert read_lines("tags.jsonl") == [
    {"image/key": "k1", "language": "en", "tags": ["chair", "dog", "sofa"]},
    {"image/key": "k3", "language": "de", "tags": []},
  ]
  assert (
    tmp_path / "out/en.tsv"
  ).read_text() == "k1\tanna\ta dog\tdog, chair\nk1\tbo\tthe dog\tchair, sofa\n"
  assert (tmp_path / "out/de.tsv").read_text() == "k3\tanna\teine Katze\t\n"
