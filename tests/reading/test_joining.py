"""References and predictions in several files: joined, or refused."""

import itertools

import pytest
import sacrebleu

from tests.make import files
from tests.make.command import xmcap
from tests.make.refusals import refusal
from xmcap.scoring import read_predictions, read_references, score_files

_TEXTS = {
  "ref1.txt": ["a dog runs on the sand", "two cats sleep on a couch", "a red car", "people on a hill"],
  "ref2.txt": ["the dog is on a beach", "", "the car is red and parked", ""],
  "ref3.txt": ["a dog on a beach runs", "cats on the couch", "", "some people walk up a hill"],
}
_PREDICTED = [
  "a dog runs on a beach",
  "two cats on the couch",
  "a red car is parked",
  "people walk on a hill",
]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  for name, lines in {**_TEXTS, "p.txt": _PREDICTED}.items():
    files.lines(name, *lines)


def _write(name, *rows):
  files.jsonl(name, *({"image/key": key, "language": code, "caption": text} for key, code, text in rows))
  return name


def _table(references, predictions="p.txt", **options):
  return score_files(
    references, predictions, "out", language="en", metrics="cider_d,bleu", only_tables=True, **options
  ).table


def test_joined_reference_text_files_equal_sacrebleu():
  streams = [[line or None for line in lines] for lines in _TEXTS.values()]
  expected = sacrebleu.corpus_bleu(_PREDICTED, streams, tokenize="none").score
  rows = [(str(n), "en", text) for lines in _TEXTS.values() for n, text in enumerate(lines, 1) if text]
  whole = _table(
    _write("whole.jsonl", *rows),
    _write("p.jsonl", *((str(n), "en", text) for n, text in enumerate(_PREDICTED, 1))),
  )
  for names in itertools.permutations(_TEXTS):
    table = _table(list(names))
    assert table.rows["en"]["bleu_4"] == pytest.approx(expected, abs=1e-9)
    assert (table.rows, table.signature) == (whole.rows, whole.signature)
  assert (
    "references: 3 files joined: ref3.txt (4 captions), ref2.txt (4 captions), ref1.txt (4 captions)"
    in table.notes
  )
  assert "references: 3 empty lines left out, where another file has a reference of the image" in table.notes


def test_joined_reference_files_merge_languages_and_images():
  rows = [("1", "en", "a"), ("2", "en", "b"), ("1", "de", "c"), ("1", "en", "d")]
  names = [_write(f"{number}.jsonl", row) for number, row in enumerate(rows)]
  expected = {"1": {"en": ["a", "d"], "de": ["c"]}, "2": {"en": ["b"]}}
  assert read_references(names) == expected
  assert read_references(names, ["de"]) == {"1": {"de": ["c"]}, "2": {}}
  _write("more/fr.jsonl", ("1", "fr", "e"))
  assert read_references([*names, "more"])["1"]["fr"] == ["e"]
  assert read_predictions(names[:3]) == {"1": {"en": "a", "de": "c"}, "2": {"en": "b"}}


def test_joined_karpathy_files_keep_splits():
  for split in ("val", "test"):
    image = {"filename": f"{split}.jpg", "split": split, "sentences": [{"raw": split}]}
    files.json(f"{split}.json", {"images": [image], "dataset": "x"})
  references = read_references(["val.json", "test.json"], language="en")
  assert references.splits == {"val.jpg": "val", "test.jpg": "test"}


@pytest.mark.parametrize(
  ("references", "message"),
  [
    (["ref1.txt", "./ref1.txt"], "ref1.txt and ./ref1.txt have the same captions; give one of them"),
    (["ref1.txt", "short.txt"], "ref1.txt has 4 lines and short.txt has 1; give a line per image, in the same order"),
    (["ref1.txt", "keyed.jsonl"], "ref1.txt and keyed.jsonl: only one of them has keys of images; give it to both"),
    (["ref1.txt", "nothing.jsonl"], "nothing.jsonl: contains no images"),
    ([], "[] must be the path of a file or folder, or a list of paths"),
    (["ref1.txt", 5], "path=['ref1.txt', 5] must be a string or a path or a list or an Input"),
  ],
)  # fmt: skip
def test_incompatible_reference_files_are_refused(references, message):
  files.lines("short.txt", "a dog")
  files.text("nothing.jsonl")
  _write("keyed.jsonl", ("1", "en", "a"))
  assert refusal(read_references, references, language="en").startswith(message)


def test_duplicate_predictions_in_two_files_are_refused():
  _write("a.jsonl", ("1", "en", "a"), ("2", "en", "b"))
  _write("b.jsonl", ("2", "en", "b"), ("1", "de", "c"))
  assert refusal(read_predictions, ["a.jsonl", "b.jsonl"]) == (
    "a.jsonl and b.jsonl: 1 caption of b.jsonl predicted by another file too (en 2); keep one per image and language"
  )


def test_joined_predictions_do_not_overwrite_an_input():
  _write("out/predictions.jsonl", ("1", "en", "a"))
  _write("de.jsonl", ("1", "de", "a"))
  _write("r.jsonl", ("1", "en", "a"), ("1", "de", "a"))
  paths = ["out/predictions.jsonl", "de.jsonl"]
  message = refusal(score_files, "r.jsonl", paths, "out")
  assert "all joined captions would be written over it; give another --out" in message
  command = xmcap("score", "-r", "r.jsonl", "-p", *paths, "-o", "out")
  command.refused("would overwrite the input --predictions=out/predictions.jsonl")
  assert score_files("r.jsonl", paths, "other", only_tables=True).table.rows.keys() == {"en", "de"}
