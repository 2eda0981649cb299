"""Tags and labels are compared as words, wherever they meet."""

import pytest

from tests.make import files
from tests.make.command import xmcap
from tests.ranked.tables import table
from xmcap.corpora.building import tag_labels
from xmcap.corpora.building.annotations import Annotated
from xmcap.corpora.releases import babel_labels
from xmcap.errors import UsageError
from xmcap.families.tagging import labels
from xmcap.human import annotation_report, rubric
from xmcap.human.annotations import Annotation, Suggested
from xmcap.ranked import zero_shot
from xmcap.ranked.tags import score_tags
from xmcap.reading import label_words, tag_files

FORMS = {
  "spaces at the ends": ("dog", " dog "),
  "two spaces": ("fire truck", "fire  truck"),
  "no-break space": ("fire truck", "fire\u00a0truck"),
  "full width": ("T恤", "Ｔ恤"),
  "half width": ("カメラ", "ｶﾒﾗ"),
  "decomposed": ("café", "cafe\u0301"),
  "presentation form": ("لا", "ﻻ"),
  "ligature": ("first", "ﬁrst"),
}
forms = pytest.mark.parametrize(("written", "other"), FORMS.values(), ids=FORMS)


@forms
def test_score_tags_compares_words(tmp_path, written, other):
  for name, tag in (("true", written), ("ours", other)):
    files.jsonl(tmp_path / f"{name}.jsonl", {"image/key": "p", "language": "en", "tags": [tag]})
  files.lines(tmp_path / "labels.txt", written, "cat")
  given = f"--references={tmp_path / 'true.jsonl'}", f"--predictions={tmp_path / 'ours.jsonl'}", "--k=1"
  xmcap(
    "score", "tags", *given, f"--labels={tmp_path / 'labels.txt'}", f"--out={tmp_path / 'out'}"
  ).succeeded()
  scored = table(tmp_path / "out")
  assert scored["languages"]["en"]["tags_p1"] == 1 and not scored["notes"]
  again = score_tags(
    {"en": {"p": [written]}}, {"en": {"p": {written: 1.0}}}, (1,), vocabulary=[written, "cat"]
  )
  assert again.table.signature == scored["signature"]


ALIKE = [
  *(("dog", other) for other in ("Dog", "DOG", "do\u200dg", "\ufeffdog", "ＤＯＧ")),
  *(("ısparta", "ISPARTA"), ("izmir", "İzmir"), ("Straße", "STRASSE"), ("λόγος", "ΛΌΓΟΣ")),
  *(("كلب", "كـلب"), ("❤", "❤\ufe0f"), ("☎\ufe0e", "☎"), ("d'or", "d’or"), ("e-mail", "e\u2011mail")),
]


@pytest.mark.parametrize(("true", "other"), ALIKE)
def test_score_tags_notes_words_that_differ_in_case_or_form_alone(true, other):
  found = score_tags({"en": {"p": [true]}}, {"en": {"p": {other: 1.0}}}, (1,)).table
  assert found.rows["en"]["tags_p1"] == 0
  assert found.notes[0].startswith(
    "predicted tags that differ from true ones in case, form or invisible characters alone"
  )
  assert "en 1 (" in found.notes[0]


@forms
def test_tag_files_refuse_a_word_twice(tmp_path, written, other):
  row = {"image/key": "p", "language": "en", "tags": [written, other]}
  with pytest.raises(UsageError, match="given twice"):
    tag_files.read(files.jsonl(tmp_path / "a.jsonl", row))


def test_tag_files_take_languages_by_other_names(tmp_path):
  rows = (
    {"image/key": key, "language": name, "tags": ["x"]}
    for key, name in (("p", "iw"), ("q", "HE"), ("r", "Hebrew"))
  )
  assert tag_files.read(files.jsonl(tmp_path / "a.jsonl", *rows)).keys() == {"he"}


@forms
def test_labels_of_a_tagger_are_words(tmp_path, written, other):
  folder = tmp_path / "labels"
  files.lines(folder / "labels.txt", "cat", written)
  files.jsonl(folder / "train.jsonl", {"image/key": "p", "language": "en", "tags": [other]})
  folders = {"en": str(folder)}
  read = labels.read_pictures(folders, labels.read_names(folders), ["train"])
  assert read.columns["p"].tolist() == [1] and not read.unknown


@forms
def test_data_tags_counts_words(tmp_path, written, other):
  images = [
    Annotated(f"p{place}", "train", {"en": [tag]}) for place, tag in enumerate((written, other, "cat"))
  ]
  word = label_words.word(written)
  made = tag_labels.make(images, "en", source=tag_labels.TAGS, least=2)
  assert made.counts == {word: 2} and [of for _, _, of in made.images] == [[word], [word], []]
  given = tag_labels.read(files.lines(tmp_path / "labels.txt", other))
  assert tag_labels.make(images, "en", source=tag_labels.TAGS, given=given).counts == {word: 2}
  path = files.lines(tmp_path / "map.txt", f"{other}\teins", "cat\tzwei")
  mapped = list(tag_labels.mapped([Annotated("p", "train", {"en": [written, "cat"]})], str(path), "de"))
  assert mapped[0].tags == {"de": ["eins", "zwei"]}
  files.lines(tmp_path / "twice.txt", written, other)
  with pytest.raises(UsageError, match="given twice|already on line 1"):
    tag_labels.read(tmp_path / "twice.txt")


def test_map_and_classes_name_words_that_differ_in_case_alone(tmp_path):
  said = []
  path = files.lines(tmp_path / "map.txt", "dog\tHund", "cat\tKatze", "bird\tVogel")
  images = [Annotated("p", "train", {"en": ["Dog", "cat", "bird"]})]
  assert list(tag_labels.mapped(images, str(path), "de", said.append))[0].tags == {"de": ["Katze", "Vogel"]}
  assert "en 1 (Dog)" in said[0] and "case" in said[0]


@forms
def test_human_tags_are_words(written, other):
  def annotation(name, tags):
    suggested = Suggested([], [written, "cat"])
    return Annotation(
      key="p", language="en", annotator=name, caption="a dog", tags=tags, suggested=suggested, events=[]
    )

  annotations = [annotation("a", [written]), annotation("b", [other])]
  figures = annotation_report.evaluate(annotations)
  assert [row.jaccard for row in figures.agreement] == [1] and {row.accepted for row in figures.work} == {1}
  recommended = figures.comparison.recommended[0]
  assert (recommended.tag, recommended.recommended, recommended.accepted) == (label_words.word(written), 2, 2)


@forms
def test_judged_tags_are_words(tmp_path, written, other):
  rows = [
    {
      "image/key": "p",
      "language": "en",
      "system": system,
      "rater": "r",
      "protocol": "mine",
      "tag": tag,
      "fit": fit,
    }
    for system, tag, fit in (("a", written, 1), ("b", other, 1), ("b", "cat", 0))
  ]
  judged = rubric.evaluate(rubric.read([files.jsonl(tmp_path / "joined.jsonl", *rows)])).tags
  assert {(row.system, row.precision, row.recall) for row in judged} == {("a", 1, 1), ("b", 0.5, 1)}


@forms
def test_babel_labels_leave_out_english_words(written, other):
  senses = [
    babel_labels.Sense(language, lemma.replace(" ", "_"), "WIKI", False, "n00000001")
    for language, lemma in (("EN", written), ("DE", other), ("FR", "autre"))
  ]
  assert set(babel_labels.make(senses, ["n00000001"], least=1).labels) == {"EN", "FR"}


@pytest.mark.parametrize("other", [" dog", "DOG", "ｄｏｇ", "dog\u200b"])
def test_labels_of_two_classes_that_are_one_word_are_noted(tmp_path, other):
  files.json(tmp_path / "labels.json", {"EN": [[0, 1, 2], ["dog", other, "cat"]]})
  read = zero_shot.read_labels(tmp_path / "labels.json")
  assert zero_shot._alike_names(read)[0].endswith("may not tell them: en 2")
