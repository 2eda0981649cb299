"""Image keys, languages and captions by the names of columns in CSV, TSV and JSON."""

import pytest

from tests.make import files
from tests.make.refusals import refusal
from xmcap.corpora.folder import recognition
from xmcap.corpora.folder.table import Placed
from xmcap.reading.columns import ColumnNames
from xmcap.scoring import read_predictions, read_references


def _write(tmp_path, content):
  """Text as CSV, a row as JSON lines."""
  if isinstance(content, str):
    return files.text(tmp_path / "captions.csv", content)
  return files.jsonl(tmp_path / "captions.jsonl", content)


@pytest.mark.parametrize(
  ("text", "language", "captions", "note"),
  [
    # AI Hub's Korean COCO.
    (
      {"file_path": "val2014/7.jpg", "captions": ["a dog"], "caption_ko": ["개"], "id": 7},
      "ko",
      {"ko": ["개"]},
      "columns of other languages are left out: captions",
    ),
    ({"captions": ["a dog"], "caption_ko": ["개"], "id": 7}, "en", {"ko": ["개"], "en": ["a dog"]}, "captions (en)"),
    ("id,caption,caption_ko\n7,a dog,개\n", None, {"ko": ["개"]}, "left out: caption"),
    ("image_id,en,de,id\n7,a dog,,anjing itu\n", None, {"en": ["a dog"], "id": ["anjing itu"]}, "de (de)"),
    ("image_id,Korean,text_pt_BR\n7,개,cão\n", None, {"ko": ["개"], "pt-BR": ["cão"]}, "Korean (ko)"),
    ({"image/key": "7", "en": ["a dog"], "de": ["Hund"]}, None, {"en": ["a dog"], "de": ["Hund"]}, "en (en), de (de)"),
    # Names that only look like codes.
    ("no,image_id,id,caption_id,my_caption,caption\n1,7,3,c_2,x,a dog\n", "en", {"en": ["a dog"]}, ""),
    ({"image_id": 7, "language": "de", "caption": "Hund", "caption_en": "a dog"}, None, {"de": ["Hund"]}, ""),
  ],
)  # fmt: skip
def test_references_from_a_caption_column_per_language(tmp_path, text, language, captions, note):
  references = read_references(_write(tmp_path, text), language=language)
  assert references == {"7": captions}
  assert note in "; ".join(references.notes)


@pytest.mark.parametrize(
  "key", ["file_name", "image", "Image", "image_path", "photo", "file", "image_id", "key"]
)
@pytest.mark.parametrize("caption", ["text", "output", "response", "prediction", "generated_text", "Caption"])
def test_usual_names_of_columns_are_those_of_corpora(tmp_path, key, caption):
  path = files.jsonl(tmp_path / "p.jsonl", *({key: number, caption: "a dog"} for number in "78"))
  assert read_predictions(path, "en") == {"7": {"en": "a dog"}, "8": {"en": "a dog"}}
  placed = [Placed("x", {key: "7", caption: "a dog on the sand"})]
  table, _ = recognition.recognise(placed, ColumnNames(), "x")
  assert (table.image, [column.name for column in table.captions]) == (key, [caption])


def test_columns_that_are_asked_for(tmp_path):
  path = _write(tmp_path, "image,caption,prediction,raw,No\n7,a,b,c,x\n")
  assert (
    "'caption' and 'prediction' may both be the predictions: choose one with --caption_columns=prediction"
    in refusal(read_predictions, path, "en")
  )
  for captions, text in ((("prediction",), "b"), (("Raw",), "c"), (("en=raw",), "c")):
    columns = ColumnNames(captions=captions)
    predictions = read_predictions(path, "en", columns=columns)
    assert predictions == {"7": {"en": text}} and predictions.columns == set(columns.by_caption)
  keyed = ColumnNames(image="no", captions=("prediction",))
  assert read_predictions(path, "en", columns=keyed) == {"x": {"en": "b"}}
  references = read_references(path, language="en", columns=ColumnNames(captions=("x", "prediction")))
  assert references == {"7": {"en": ["b"]}} and references.columns == {"prediction"}


def test_table_of_references_beside_predictions(tmp_path):
  path = _write(tmp_path, "image,reference,prediction\n7,a dog,a cat\n")
  assert read_references(path, language="en") == {"7": {"en": ["a dog"]}}
  assert read_predictions(path, "en") == {"7": {"en": "a cat"}}
  path = _write(tmp_path, "image,caption,reference\n7,a dog,a cat\n")
  assert "'caption' and 'reference' may both be the references" in refusal(
    read_references, path, language="en"
  )


def test_image_in_base64_is_no_key(tmp_path):
  path = _write(tmp_path, {"image": "/9j/" + 100 * "A", "caption": "a dog"})
  assert "/9j/" not in refusal(read_predictions, path, "en")


def test_predictions_from_a_caption_column_per_language(tmp_path):
  path = _write(tmp_path, "image_id,caption_en,caption_de\n7,a dog,Hund\n8,,Katze\n")
  assert read_predictions(path) == {"7": {"en": "a dog", "de": "Hund"}, "8": {"de": "Katze"}}
  assert read_predictions(path, "de") == {"7": {"de": "Hund"}, "8": {"de": "Katze"}}
  assert "line 1: the columns are 'image_id, caption_en, caption_de'" in refusal(read_predictions, path, "fr")


@pytest.mark.parametrize(
  ("text", "references", "prediction"),
  [
    ("file_name,caption_1,caption_2,caption_3\n7.wav,a,,b\n", {"7.wav": ["a", "b"]}, "twice, with another"),
    ("image,caption,caption.1\n7.jpg,a,b\n", {"7.jpg": ["a", "b"]}, "twice, with another"),
    ("image_id,caption,ref_1,ref_2\n7,a,b,c\n", {"7": ["b", "c"]}, {"7": {"en": "a"}}),
  ],
)
def test_numbered_caption_columns_are_captions_of_one_image(tmp_path, text, references, prediction):
  path = _write(tmp_path, text)
  held = read_references(path, language="en")
  assert held == {key: {"en": captions} for key, captions in references.items()}
  assert any("the captions of an image are " in note for note in held.notes)
  if isinstance(prediction, str):
    assert prediction in refusal(read_predictions, path, "en")
  else:
    assert read_predictions(path, "en") == prediction


@pytest.mark.parametrize(
  ("row", "key"),
  [
    ({"filename": "7.png"}, "7.png"),
    ({"image": "a/7.jpg"}, "a/7.jpg"),
    ({"img_id": 7, "filename": "8.jpg"}, "7"),
    ({"cocoid": 7, "imgid": 3, "filename": "8.jpg"}, "7"),
    ({"audiocap_id": 91, "youtube_id": "abc", "start_time": 30}, "abc"),
    ({"image_id": 7, "id": 3, "image": {"bytes": "x"}}, "7"),
  ],
)
def test_references_read_image_keys_from_known_fields(tmp_path, row, key):
  path = _write(tmp_path, {**row, "caption": ["a", "b"]})
  assert read_references(path, language="en") == {key: {"en": ["a", "b"]}}


def test_caption_ids_are_not_image_keys(tmp_path):
  path = _write(tmp_path, "id,image,caption\n1,a.jpg,x\n2,a.jpg,y\n3,b.jpg,z\n")
  references = read_references(path, language="en")
  assert references == {"a.jpg": {"en": ["x", "y"]}, "b.jpg": {"en": ["z"]}}
  assert references.notes == ("references: the key of an image is its image, as several ids have one",)


_NO_HEADER = "; put a line of names above it"


@pytest.mark.parametrize(
  ("text", "message"),
  [
    ("7.jpg,a dog\n7.jpg,a dog\n", _NO_HEADER),
    ("7,a dog\n7,a dog\n", _NO_HEADER),
    ("a dog,http://example.org/7.jpg\na dog,http://example.org/7.jpg\n", _NO_HEADER),
    ("image_id,caption\n7,['a dog' 'the dog']\n", "line 2: a list without commas"),  # as NumPy prints it
  ],
)
def test_csv_without_a_header_or_with_broken_lists_is_refused(tmp_path, text, message):
  assert message in refusal(read_references, _write(tmp_path, text), language="en")


@pytest.mark.parametrize(
  ("cell", "captions"),
  [
    ("['a dog', \"the dog\"]", ["a dog", "the dog"]),
    ('["a dog", "un caf\\u00e9"]', ["a dog", "un café"]),
    ("[UNK] a dog [SEP]", ["[UNK] a dog [SEP]"]),
    ("[1, 2]", ["[1, 2]"]),
  ],
)
def test_csv_cells_with_lists_of_captions(tmp_path, cell, captions):
  quoted = cell.replace('"', '""')
  references = read_references(_write(tmp_path, f'image_id,caption\n7,"{quoted}"\n'), language="en")
  assert references == {"7": {"en": captions}}
