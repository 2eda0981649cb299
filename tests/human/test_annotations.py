"""Annotation files: the strict schema of a line, the latest annotation, and export as a corpus."""

import json
import unicodedata

import hypothesis
import pytest
from hypothesis import strategies as st

from tests.make import files
from xmcap.errors import UsageError
from xmcap.human import annotation_page, annotation_report, annotations, fields
from xmcap.reading import inputs


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
    ({"annotator": "All "}, "'All' is no name of an annotator"),
    ({"annotator": " "}, "'' is no name of an annotator"),
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


_AHEAD = 8_000_000_000_000  # the year 2223


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(
  "first, later", [([5], [5, 3]), ([_AHEAD], [_AHEAD, 9]), ([_AHEAD], [_AHEAD, _AHEAD + 1])]
)
def test_annotation_whose_log_goes_on_is_later_whatever_the_clock(read, first, later, turned):
  events = [[event for time in times for event in _events(time)] for times in (first, later)]
  files = [[row(caption=text, events=log)] for text, log in zip(("early", "late"), events, strict=True)]
  found, replaced = read(*(files[::-1] if turned else files))
  assert [each.caption for each in found] == ["late"] and replaced == 1


@pytest.mark.parametrize("times", [(_AHEAD, 9), (9, _AHEAD)])
def test_annotation_of_a_clock_that_ran_ahead_replaces_none_of_another_log(read, times):
  with pytest.raises(
    UsageError, match=r"line 2: 'anna' has two annotations of 'k1', and a clock that ran ahead"
  ):
    read([row(caption=str(time), events=_events(time)) for time in times])


def test_annotation_that_is_taken_back_replaces_the_one_before(read, tmp_path):
  back = row(caption="", tags=[], events=[*_events(5), *_events(9)])
  found, replaced = read([row(events=_events(5)), row(key="k2")], [back])
  assert replaced == 1 and [each.is_empty for each in found] == [True, False]
  annotations.write_corpus(tmp_path / "out", found)
  assert (tmp_path / "out/captions.jsonl").read_text().count("\n") == 1
  findings = annotation_report.evaluate(found, replaced)
  assert findings.work[0].pictures == 1
  assert "1 annotations were taken back by their annotators" in findings.notes


def test_annotations_of_a_name_in_two_forms_are_one_persons(read):
  found, _ = read(
    [row(annotator="Jose\u0301"), row(annotator=" Jos\u00e9", key="k2"), row(annotator="JOS\u00c9")]
  )
  assert [each.annotator for each in found] == ["Jos\u00e9", "Jos\u00e9", "JOS\u00c9"]
  assert annotation_report.evaluate(found).notes[-1] == "counted as different people: JOS\u00c9 and Jos\u00e9"


def test_annotation_tags_with_a_comma_stay_one_tag(read, tmp_path):
  found, _ = read([row(tags=["dog, old", "cat"]), row(key="k2", caption="", tags=["x"])])
  annotations.write_corpus(tmp_path / "out", found)
  assert (tmp_path / "out/en.tsv").read_text() == "k1\tanna\ta dog\tdog old, cat\n"
  assert json.loads((tmp_path / "out/tags.jsonl").read_text())["tags"] == ["dog, old", "cat"]
  notes = annotation_report.evaluate(found).notes
  assert any(note.startswith("1 tags have a comma") for note in notes)
  assert any(note.startswith("1 annotations have tags and no sentence") for note in notes)


# Letters that NFC makes longer, of one and two UTF-16 units, and what JSON and UTF-8 make longer.
_LETTERS = st.sampled_from(["\u0958", "\U0001d15e", "\ufb2c", "\u0001", "\U0001f600", "a", "\u202e", '"'])


@hypothesis.given(st.data())
@hypothesis.settings(max_examples=30, suppress_health_check=list(hypothesis.HealthCheck))
def test_annotation_reader_takes_what_a_page_can_write(tmp_path, data):
  def text(kind):
    letter = data.draw(_LETTERS)
    most = {"name": fields.MAX_NAME, **annotation_page.LIMITS}[kind]
    return unicodedata.normalize("NFC", letter * (most // len(letter.encode("utf-16-le")) * 2))

  tags = [f"{number}{text('tag')}"[:600] for number in range(data.draw(st.sampled_from([0, 5, 1000])))]
  size = data.draw(st.sampled_from([1, 500]))
  events = [
    {"time": 2**50 + number, "event": "edit_sentence", "text": text("sentence")} for number in range(size)
  ]
  suggested = {"sentences": [text("sentence")] * 5, "tags": tags[:5]}
  written = row(
    caption=text("sentence"), tags=tags, skipped=text("reason"), suggested=suggested, events=events
  )
  ((found,), _) = annotations.read(
    [files.jsonl(tmp_path / "a.jsonl", {**written, "annotator": text("name") + "."})]
  )
  assert (found.caption, found.tags, len(found.events)) == (written["caption"], tags, size)


def test_annotation_page_log_is_shorter_than_a_line_and_than_the_reader_takes():
  limits = annotation_page.LIMITS
  # A control character takes six bytes in JSON, a tag of 600 letters up to 2,400, an event some 100 besides its text.
  log = 6 * (limits["log"] + 2 * limits["sentence"]) + 100 * limits["events"]
  assert log + 2_400 * limits["tags"] + 6 * 20 * limits["sentence"] < inputs.MAX_LINE
  assert limits["events"] < 100_000


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
