"""Image keys and language codes: matching, the option --key, and duplicates."""

import pytest

from tests.make import files
from tests.make.command import xmcap
from tests.make.refusals import refusal
from xmcap.errors import UsageError
from xmcap.reading import ids
from xmcap.scoring import read_predictions, read_references, score

_CAPTIONS = {"42": {"en": ["a dog"]}, "7": {"en": ["a cat"], "pt": ["um gato"]}}


def _predictions(tmp_path, rows):
  return files.jsonl(tmp_path / "p.jsonl", *rows)


def _of_keys(tmp_path, *keys):
  return _predictions(tmp_path, [{"id": key, "language": "en", "caption": f"of {key}"} for key in keys])


@pytest.mark.parametrize(
  "key", ["000000000042", "COCO_val2014_000000000042.jpg", "val2014/42.PNG", "42.0", "C:\\pictures\\42.webp"]
)
def test_image_keys_written_differently_are_matched_and_noted(tmp_path, key):
  predictions = read_predictions(_of_keys(tmp_path, key, "7"), references=_CAPTIONS)
  assert predictions == {"42": {"en": f"of {key}"}, "7": {"en": "of 7"}}
  assert any("1 key written another way" in note and "'42'" in note for note in predictions.notes)


@pytest.mark.parametrize("keys", [("a/42.jpg", "b/42.jpg"), ("42", "042"), ("43",), ("42.5",)])
def test_image_keys_without_a_unique_match_are_unchanged(tmp_path, keys):
  assert list(read_predictions(_of_keys(tmp_path, *keys), references=_CAPTIONS)) == list(keys)


def test_ambiguous_reference_basenames_match_no_key(tmp_path):
  references = {"a/1.jpg": {"en": ["x"]}, "b/1.jpg": {"en": ["y"]}}
  assert list(read_predictions(_of_keys(tmp_path, "1"), references=references)) == ["1"]


def test_integer_and_string_image_ids_are_equal(tmp_path):
  assert list(read_predictions(_of_keys(tmp_path, 42, "7", 8.0))) == ["42", "7", "8"]


def test_key_regular_expression_extracts_the_image_key(tmp_path):
  rows = [{"id": "img-42-en", "caption": "a"}, {"id": "img-7-pt", "caption": "b"}]
  path = _predictions(tmp_path, rows)
  assert read_predictions(path, "en", key=r"img-(\d+)-.*") == {"42": {"en": "a"}, "7": {"en": "b"}}
  expected = {"42": {"en": "a"}, "7": {"pt": "b"}}
  assert read_predictions(path, key=r"img-(\d+)-(?P<language>\w+)") == expected
  assert read_predictions(path, key=r"img-(?P<key>\d+)-(?P<language>\w+)") == expected
  references = read_references(path, key=r"img-(\d+)-(?P<language>\w+)")
  assert references == {"42": {"en": ["a"]}, "7": {"pt": ["b"]}}
  for key, message in (
    ("(.*)-en", "line 2: --key=(.*)-en does not match the id 'img-7-pt'"),
    (r"img-(\d+)-(?P<language>\w+)", "line 2: language is pt, but --language says en"),
  ):
    assert message in refusal(read_predictions, path, "en", key=key)


def test_key_regular_expression_on_references(tmp_path):
  assert list(read_references(_of_keys(tmp_path, "42", "7"), key="(.*)_en")) == ["42", "7"]
  path = _of_keys(tmp_path, "42_en", "7")
  assert "does not match the id '7'" in refusal(read_references, path, key="(.*)_en")


@pytest.mark.parametrize("key", ["(", "abc", "(a)(b)", "(?P<language>a)", "(a)(b)(?P<language>c)"])
def test_invalid_key_regular_expressions_are_refused(tmp_path, key):
  with pytest.raises(UsageError, match="--key=.*(no regular expression|needs one group)"):
    read_predictions(_of_keys(tmp_path, "42"), key=key)


@pytest.mark.parametrize(
  ("written", "code"),
  [
    ("iw", "he"), ("EN", "en"), ("eng", "en"), ("eng_Latn", "en"), ("zho_Hans", "zh"), ("tgl_Latn", "fil"),
    ("kor_Hang", "ko"), ("arb_Arab", "ar"), ("english", "en"), ("Deutsch", "de"), ("jp", "ja"), ("tl", "fil"),
  ],
)  # fmt: skip
def test_other_language_code_schemes_are_mapped_and_noted(tmp_path, written, code):
  path = _predictions(tmp_path, [{"image/key": "7", "language": written, "caption": "x"}])
  predictions = read_predictions(path)
  assert predictions == {"7": {code: "x"}}
  assert predictions.notes == (f"predictions: language '{written}' is read as '{code}'",)
  assert read_references(path) == {"7": {code: ["x"]}}


@pytest.mark.parametrize(
  ("written", "references", "code"),
  [
    ("pt-BR", ("pt",), "pt"),
    ("pt_BR", ("pt",), "pt"),
    ("zh-CN", ("zh",), "zh"),
    ("pt-BR", ("pt", "pt-BR"), "pt-BR"),
    ("pt-BR", ("en",), "pt-BR"),
    ("zh-TW", ("zh",), "zh-TW"),  # in other characters
  ],
)
def test_language_variety_maps_to_the_language_of_references(tmp_path, written, references, code):
  path = _predictions(tmp_path, [{"image/key": "7", "language": written, "caption": "x"}])
  held = {"7": {language: ["x"] for language in references}}
  predictions = read_predictions(path, references=held)
  assert predictions == {"7": {code: "x"}}
  assert any("of which it is a variety" in note for note in predictions.notes) == (code in ("pt", "zh"))


def test_mapped_language_names_share_one_note(tmp_path):
  names = {"French": "fr", "German": "de", "pt-BR": "pt-BR", "zh-CN": "zh-CN"}
  rows = [{"image/key": "7", "language": name, "caption": "x"} for name in names]
  held = {"7": {code: ["x"] for code in ("fr", "de", "pt", "zh")}}
  assert read_predictions(_predictions(tmp_path, rows), references=held).notes == (
    "predictions: 2 names of languages are read as codes: French -> fr, German -> de",
    "predictions: 2 varieties are read as their languages: pt-BR -> pt, zh-CN -> zh",
  )


def test_language_variety_beside_its_language_is_kept(tmp_path):
  rows = [{"image/key": "7", "language": code, "caption": code} for code in ("pt", "pt-BR")]
  assert read_predictions(_predictions(tmp_path, rows), references=_CAPTIONS)["7"].keys() == {"pt", "pt-BR"}


@pytest.mark.parametrize(
  ("name", "code"),
  [
    ("en.jsonl", "en"), ("xm3600_th_preds.json", "th"), ("coco35l_dev_fil_annotations.json", "fil"),
    ("quz-00000-of-00001.parquet", "quz"), ("ours.de.csv.gz", "de"), ("captions_val2014.json", None),
    ("preds.json", None),
    ("c_pt-BR.csv", "pt-BR"), ("dev.deu_Latn", "de"), ("th_dev.csv", "th"), ("no_x.csv", None),
    ("xm3600_en_preds_2.json", None), ("results_xx.json", None),
  ],
)  # fmt: skip
def test_language_of_name_reads_language_from_file_names(name, code):
  assert ids.language_of_name(f"some_en/{name}") == code


def test_duplicate_predictions_count_once_and_are_noted(tmp_path):
  path = _predictions(tmp_path, [{"image/key": "7", "language": "en", "caption": "x"}] * 3)
  predictions = read_predictions(path)
  assert predictions == {"7": {"en": "x"}}
  assert predictions.notes == ("predictions: 2 predictions given twice with the same caption; counted once",)


def test_predictions_folder_merges_notes_of_its_files(tmp_path):
  """Not one for each of its files, which hides the others."""
  for code in ("de", "en", "th"):
    files.jsonl(tmp_path / f"{code}.jsonl", *[{"image/key": "7", "caption": "x"}] * 2)
  predictions = read_predictions(tmp_path)
  assert predictions.notes == ("predictions: 3 predictions given twice with the same caption; counted once",)
  paths = [str(tmp_path / f"{code}.jsonl") for code in ("de", "en", "th")]
  notes = read_predictions(paths).notes
  (of_names,) = [note for note in notes if "names" in note]
  assert of_names == (
    "predictions: 3 languages are those of the files' names: de -> de.jsonl, en -> en.jsonl, th -> th.jsonl"
  )


@pytest.mark.parametrize("caption", ["{}", "{} dog cat", "{}\ta dog"])
def test_captions_that_begin_with_image_keys_are_refused(tmp_path, caption):
  rows = [
    {"image/key": f"p{number}", "language": "en", "caption": caption.format(f"p{number}")}
    for number in range(3)
  ]
  assert "3 of 3 captions begin with the key of their image" in refusal(
    read_predictions, _predictions(tmp_path, rows)
  )


def test_captions_that_begin_with_words_of_their_keys_are_taken(tmp_path):
  rows = [
    {"image/key": animal, "language": "en", "caption": f"{animal} on grass"}
    for animal in ("dog", "polar bear")
  ]
  assert len(read_predictions(_predictions(tmp_path, rows))) == 2


def test_empty_references_are_noted_or_refused(tmp_path):
  rows = [{"image/key": "7", "language": "en", "caption": ["a", " "]}]
  references = read_references(_predictions(tmp_path, rows))
  (note,) = references.notes
  assert "1 image with an empty reference among others (en 7)" in note
  assert note in score(references, {"7": {"en": "a"}}).table.notes
  rows.append({"image/key": "8", "language": "en", "caption": [""]})
  assert "1 image with empty references only (en 8)" in refusal(read_references, _predictions(tmp_path, rows))


def test_score_key_option_applies_to_references_and_predictions(tmp_path):
  rows = {"id": "a-1", "caption": ["x", "y"]}, {"id": "b-1", "caption": "z"}
  references = files.jsonl(tmp_path / "references.jsonl", *rows)
  predictions = _predictions(tmp_path, [{"id": "a-2", "caption": "x"}, {"id": "b-2", "caption": "z"}])
  options = [f"--out={tmp_path}/out", "--language=en", "--only_tables", "--no_health", r"--key=(\w)-\d"]
  result = xmcap("score", f"--references={references}", f"--predictions={predictions}", *options)
  result.succeeded("note: predictions: the key of an image is its id")
