"""Prediction files of big_vision, lmms-eval, VLMEvalKit and others; the layouts follow the code that a test names."""

import json
import pickle
import zipfile

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.make import workbook
from xmcap.errors import UsageError
from xmcap.scoring import read_predictions, read_references, score
from xmcap.scoring.metrics import document_frequency_files

_REFERENCES = {"7": {"en": ["a dog", "the dog"]}, "8": {"en": ["a cat"]}}
_PREDICTIONS = {"7": {"en": "dog"}, "8": {"en": "cat"}}


def _json(path, value):
  path.write_text(json.dumps(value), encoding="utf-8")
  return path


def _lines(path, *rows):
  path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
  return path


def _text(path, text):
  path.write_text(text, encoding="utf-8")
  return path


def test_big_vision_image_ids_contain_the_language(tmp_path):
  """coco_caption.py: lists of image_id and caption, where the image_id of XM3600 is KEY_CODE."""
  annotations = [
    {"image_id": "7_th", "caption": "a"},
    {"image_id": "7_th", "caption": "b"},
    {"image_id": "8_th", "caption": "c"},
  ]
  preds = [{"image_id": "7_th", "caption": "x"}, {"image_id": "8_th", "caption": "y"}]
  references = read_references(_json(tmp_path / "xm3600_th_annotations.json", annotations))
  assert references == {"7": {"th": ["a", "b"]}, "8": {"th": ["c"]}}
  path = _json(tmp_path / "xm3600_th_preds.json", preds)
  predictions = read_predictions(path, references=references)
  assert predictions == {"7": {"th": "x"}, "8": {"th": "y"}}
  assert "ids are KEY_CODE" in predictions.notes[0]
  assert predictions.notes[0] in score(references, predictions).table.notes
  with pytest.raises(UsageError, match="language is th, but --language says en"):
    read_predictions(path, "en")
  assert read_predictions(path, "en", key="(.*)") == {"7_th": {"en": "x"}, "8_th": {"en": "y"}}
  assert read_predictions(path, "en", {"7_th": {"en": ["a"]}}) == {"7_th": {"en": "x"}, "8_th": {"en": "y"}}


def test_big_vision_predictions_with_id_field(tmp_path):
  """storepreds.py: `id` (or what `id_key` says) and caption; the language is in the file's name alone."""
  rows = [{"id": "7", "caption": "x"}]
  predictions = read_predictions(_json(tmp_path / "coco35l_dev_th_preds.json", rows))
  assert predictions == {"7": {"th": "x"}}
  assert "language 'th' is that of the file's name" in predictions.notes[1]
  with pytest.raises(UsageError, match="'language' is missing"):
    read_predictions(_json(tmp_path / "minival_xx_preds.json", rows))


def _sample(number, image, pred, answers):
  metric = {"answer": answers, "pred": pred, "image_id": image, "id": number}
  return {
    "doc_id": number,
    "target": str(answers),
    "filtered_resps": [pred],
    "doc_hash": "0",
    "coco_CIDEr": metric,
    "coco_Bleu_4": metric,
    "input": "Provide a one-sentence caption for the provided image.",
  }


def test_lmms_eval_samples_are_read(tmp_path):
  """evaluation_tracker.py and tasks/coco_cap/utils.py."""
  path = _lines(
    tmp_path / "20260101_000000_samples_coco2017_cap_val.jsonl",
    _sample(0, 7, "dog", ["a dog", "the dog"]),
    _sample(1, 8, "cat", ["a cat"]),
  )
  assert read_predictions(path, "en") == _PREDICTIONS
  assert read_references(path, language="en") == _REFERENCES
  assert read_predictions(path, "en").notes == (
    "predictions: lmms-eval's samples: the key of an image is its image_id",
  )


def test_lmms_eval_samples_without_image_id_use_doc_id(tmp_path):
  row = {"doc_id": 7, "target": "['a dog', 'the dog']", "resps": [["dog"]], "filtered_resps": [["dog"]]}
  path = _lines(tmp_path / "samples.jsonl", row)
  assert read_predictions(path, "en") == {"7": {"en": "dog"}}
  assert read_references(path, language="en") == {"7": {"en": ["a dog", "the dog"]}}
  assert "the key of an image is its doc_id" in read_predictions(path, "en").notes[0]


@pytest.mark.parametrize(
  ("change", "message"),
  [
    ({"filtered_resps": ["a", "b"]}, "'filtered_resps' has 2 captions; a prediction is one"),
    ({"coco_Bleu_4": {"image_id": 9}}, "its metrics name 2 images"),
  ],
)
def test_malformed_lmms_eval_samples_are_refused(tmp_path, change, message):
  with pytest.raises(UsageError, match=f"line 1: {message}"):
    read_predictions(_lines(tmp_path / "s.jsonl", {**_sample(0, 7, "dog", ["a dog"]), **change}), "en")


def test_lmms_eval_coco_test_captions_in_lists(tmp_path):
  path = _json(tmp_path / "coco_captions_test2014_alg_results.json", [{"image_id": 7, "caption": ["dog"]}])
  assert read_predictions(path, "en") == {"7": {"en": "dog"}}
  for captions in ([], ["a", "b"]):
    path = _json(tmp_path / "p.json", [{"image_id": 7, "caption": captions}])
    with pytest.raises(UsageError, match=rf"results\[0\]: 'caption' has {len(captions)} captions"):
      read_predictions(path, "en")


def test_pangeabench_integer_keys_match_xm3600_keys(tmp_path):
  """neulab/Pangea's lmms_eval/tasks/xm100/utils.py: `a` is 1, and the whole becomes an integer."""
  keys = {"0034f42f8566fa07": 34642685666107, "00cf8a4f3bb5a5a9": 36814632251519}
  assert all(int("".join(str(ord(c) - 96) if c.isalpha() else c for c in key)) == keys[key] for key in keys)
  references = {key: {"de": ["ein Hund"]} for key in keys}
  rows = [{"image_id": number, "caption": "ein Hund"} for number in keys.values()]
  path = _json(tmp_path / "xm100_captions_val_alg_results.json", rows)
  predictions = read_predictions(path, "de", references)
  assert predictions == {key: {"de": "ein Hund"} for key in keys}
  assert "2 keys written another way, '34642685666107' for '0034f42f8566fa07'" in predictions.notes[0]
  path = _json(path, [*rows, {"image_id": 5, "caption": "ein Hund"}])
  with pytest.raises(UsageError, match="none of the 3 predicted images is among the 2"):
    score(references, read_predictions(path, "de", references))
  others = _json(path, [{"image_id": 1, "caption": "ein Hund"}])
  assert read_predictions(others, "de", {"a": {"de": ["ein Hund"]}}).keys() == {"1"}


_TABLE = [(7, "['a dog', \"the dog\"]", "Describe.", "dog"), (8, "['a cat']", "Describe.", "cat")]
_COLUMNS = ("index", "answer", "question", "prediction")


@pytest.mark.parametrize("suffix", ["json", "tsv", "xlsx"])
def test_vlmevalkit_tables_are_read(tmp_path, suffix):
  """smp/file.py: json of records, tsv with all cells quoted, xlsx; dataset/image_caption.py evaluates `answer`."""
  path = tmp_path / f"Qwen_COCO_VAL.{suffix}"
  if suffix == "json":
    _json(path, [dict(zip(_COLUMNS, row, strict=True)) for row in _TABLE])
  elif suffix == "tsv":
    quoted = (
      "\t".join('"{}"'.format(str(cell).replace('"', '""')) for cell in row) for row in (_COLUMNS, *_TABLE)
    )
    path.write_text("\n".join(quoted))
  else:
    pytest.importorskip("python_calamine")
    workbook.write(path, _COLUMNS, *_TABLE)
  assert read_predictions(path, "en") == _PREDICTIONS
  assert read_references(path, language="en") == _REFERENCES


def test_centurio_outputs_and_mblip_references_are_read(tmp_path):
  """Centurio's src/baseline_eval/main.py dumps a table of samples; mBLIP's data/xm3600 makes COCO's annotations."""
  sample = {"model_id": "m", "dataspecs_name": "xm3600_de", "dataspec_name": "xm3600", "prompt": "Beschreibe.",
            "label": "", "pair_id": "N/A - NOT SET", "context": "German", "image_paths": ["a.jpg"]}  # fmt: skip
  rows = [("7", "de", "ein Hund"), ("8", "de", "eine Katze")]
  path = _lines(
    tmp_path / "xm3600_de.jsonl",
    *({**sample, "image_id": key, "text_label": code, "output_text": text} for key, code, text in rows),
  )
  predictions = read_predictions(path)
  assert predictions == {key: {code: text} for key, code, text in rows}
  path = _json(
    tmp_path / "xm3600_coco_de.json",
    {
      "annotations": [
        {"image_id": key, "id": place, "caption": text} for place, (key, _, text) in enumerate(rows)
      ],
      "images": [{"id": key} for key, *_ in rows],
    },
  )
  assert score(read_references(path), predictions, metrics="exact").table.scores["de"]["exact"] == 1.0
  with pytest.raises(UsageError, match="line 1: .*'N/A - NOT SET'"):
    read_predictions(
      _lines(path, {**sample, "image_id": "7", "text_label": "N/A - NOT SET", "output_text": "a"})
    )


@pytest.mark.parametrize("answer", ["[1]", "['a'", "[" * 5000, "['a'] * 3", "[open('x')]", ""])
def test_vlmevalkit_answer_is_not_passed_to_eval(tmp_path, answer):
  path = _json(tmp_path / "t.json", [{"index": 1, "answer": answer, "prediction": "dog"}])
  if answer:
    with pytest.raises(UsageError, match=r"results\[0\]: 'answer' is"):
      read_references(path, language="en")
  else:
    with pytest.raises(UsageError, match="1 image with empty references only"):
      read_references(path, language="en")


def test_xlsx_without_captions_or_broken_is_refused(tmp_path):
  pytest.importorskip("python_calamine")
  path = workbook.write(tmp_path / "t.xlsx", ("a", "b"), ("1", "2"))
  with pytest.raises(UsageError, match="row 2: the columns are 'a, b'; wanted are 'caption'"):
    read_predictions(path, "en")
  with pytest.raises(UsageError, match="an Excel workbook, not text: save the sheet as CSV UTF-8"):
    document_frequency_files.read(path, "default")
  with zipfile.ZipFile(path, "w") as archive:
    archive.writestr("xl/workbook.xml", "<workbook")
  with pytest.raises(UsageError, match=r"t.xlsx: cannot be read \(.*\); save the sheet as CSV UTF-8"):
    read_predictions(path, "en")


def test_xlsx_with_several_sheets_is_noted(tmp_path):
  pytest.importorskip("python_calamine")
  path = workbook.write(tmp_path / "t.xlsx", ("image_id", "caption"), ("7", "dog"))
  with zipfile.ZipFile(path) as archive:
    members = {name: archive.read(name) for name in archive.namelist()}
  one = b'<sheet name="Sheet1" sheetId="1" r:id="r1"/>'
  two = one.replace(b'Sheet1" sheetId="1', b'Other" sheetId="2')
  members["xl/workbook.xml"] = members["xl/workbook.xml"].replace(one, one + two)
  with zipfile.ZipFile(path, "w") as archive:
    for name, content in members.items():
      archive.writestr(name, content)
  predictions = read_predictions(path, "en")
  assert predictions == {"7": {"en": "dog"}}
  assert predictions.notes == ("predictions: the sheet 'Sheet1', the first of 2",)


def _hf_row(key, captions):
  return {
    "image_id": key,
    "image_locale": "de",
    "captions": captions,
    "captions_tokenized": [f"{caption} ." for caption in captions],
    "captions_tokenized_lowercase": captions,
  }


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_hugging_face_xm3600_files_per_language_are_read(tmp_path, suffix):
  """floschne/xm3600: a split per language, data/th-00000-of-00001.parquet; the columns are those of its README."""
  rows = [_hf_row("k1", ["a", "b"]), _hf_row("k2", ["c"])]
  for code, part in (("en", rows), ("th", rows[:1])):
    path = tmp_path / f"{code}-00000-of-00001.{suffix}"
    if suffix == "jsonl":
      _lines(path, *part)
    else:
      pq.write_table(
        pa.Table.from_pylist([{**row, "image": {"bytes": b"x", "path": None}} for row in part]), path
      )
  one = read_references(path, tokenized=True)
  assert one == {"k1": {"th": ["a", "b"]}}
  assert one.tokenized == {"k1": {"th": ["a .", "b ."]}} and one.locales == {"k1": "de"}
  assert read_references(tmp_path) == {"k1": {"en": ["a", "b"], "th": ["a", "b"]}, "k2": {"en": ["c"]}}


def test_broken_parquet_is_refused(tmp_path):
  (tmp_path / "p.parquet").write_bytes(b"PAR1" + b"x" * 50)
  with pytest.raises(UsageError, match="p.parquet: cannot be read"):
    read_predictions(tmp_path / "p.parquet", "en")


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("single", [False, True])
def test_json_object_of_image_ids_and_captions(tmp_path, indent, single):
  path = tmp_path / "results.json"
  path.write_text(json.dumps({"7": "dog" if single else ["dog"], "8": "cat"}, indent=indent))
  assert read_predictions(path, "en") == _PREDICTIONS
  path.write_text(json.dumps({"7": ["a dog", "the dog"], "8": "a cat"}, indent=indent))
  assert read_references(path, language="en") == _REFERENCES


def test_unknown_json_object_is_refused_by_member_names(tmp_path):
  for content in ('{"results": {"7": "dog"}, "config": 1}', '{\n"results": [1],\n"config": 1\n}'):
    (tmp_path / "p.json").write_text(content)
    with pytest.raises(UsageError, match="'results, config'"):
      read_predictions(tmp_path / "p.json", "en")


@pytest.mark.parametrize("name", ["image_id", "id", "key"])
def test_jsonl_key_field_has_several_names(tmp_path, name):
  path = _lines(tmp_path / "p.jsonl", {name: 7, "language": "en", "caption": "dog"})
  assert read_predictions(path) == {"7": {"en": "dog"}}
  assert read_references(path) == {"7": {"en": ["dog"]}}
  path = _lines(tmp_path / "p.jsonl", {"name": 7, "language": "en", "caption": "dog"})
  with pytest.raises(UsageError, match="line 1: the columns are 'name, language, caption'; wanted are"):
    read_predictions(path)


def _karpathy(key, split, **names):
  sentences = [{"raw": f"{split} {number}", "tokens": [], "sentid": number} for number in range(2)]
  return {"filename": f"COCO_val2014_{key:012}.jpg", "split": split, "sentences": sentences, **names}


def test_karpathy_references_use_the_predicted_split(tmp_path):
  """dataset_coco.json of "Deep visual-semantic alignments" (Karpathy and Fei-Fei, 2015)."""
  images = [_karpathy(7, "test", cocoid=7), _karpathy(8, "train", cocoid=8), _karpathy(9, "test", cocoid=9)]
  references = read_references(
    _json(tmp_path / "dataset_coco.json", {"images": images, "dataset": "coco"}), language="en"
  )
  assert references["7"] == {"en": ["test 0", "test 1"]} and len(references) == 3
  result = score(references, {"7": {"en": "test"}, "9": {"en": "x"}})
  assert result.statistics["en"].keys == ("7", "9")
  assert "references: 2 images of the split 'test', of 3" in result.table.notes
  with pytest.raises(UsageError, match=r"1 of 2 predictions are missing \(en 9\)"):
    score(references, {"7": {"en": "test"}})
  flickr = _json(tmp_path / "dataset_flickr30k.json", {"images": [_karpathy(7, "test")]})
  assert list(read_references(flickr, language="en")) == ["COCO_val2014_000000000007.jpg"]


def test_coco_server_results_zip_is_read(tmp_path):
  """codalab.lisn.upsaclay.fr/competitions/7404: both results in one archive."""
  with zipfile.ZipFile(tmp_path / "results.zip", "w") as archive:
    for split, caption in (("val", "dog"), ("test", "other")):
      rows = json.dumps([{"image_id": 7, "caption": caption}])
      archive.writestr(f"captions_{split}2014_alg_results.json", rows)
  assert read_predictions(tmp_path / "results.zip", "en") == {"7": {"en": "dog"}}


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickle_is_refused_without_loading_it(tmp_path, protocol):
  """pycocoevalcap's coco-val-df.p and the like."""
  path = tmp_path / "coco-val-df.p"
  path.write_bytes(pickle.dumps({"document_frequency": {("a", "dog"): 3.0}, "ref_len": 10.5}, protocol))
  for read in (
    read_references,
    read_predictions,
    lambda path: document_frequency_files.read(path, "default"),
  ):
    with pytest.raises(
      UsageError, match="a Python pickle, which can run code and is never opened: .*--save_df"
    ):
      read(path)


@pytest.mark.parametrize(
  ("name", "text", "note"),
  [
    # Flickr8k.token.txt, results_20130124.token, and COCO-CN's coco-cn_ext.icap2020.txt.
    (
      "Flickr8k.token.txt",
      "7.jpg#0\ta dog\n7.jpg#1\tthe dog\n8.jpg#0\ta cat\n",
      "each line begins with the key",
    ),
    ("results.token", "7.jpg#0\ta dog\n\n7.jpg#1\tthe dog\n8.jpg#0\ta cat", "each line begins with the key"),
    ("human.txt", "7#zhm#0 a dog\n7#zhm#1 the dog\n8#zhm#0 a cat\n", "each line begins with the key"),
    ("captions.txt", "7.jpg   a dog\n7.jpg\tthe dog\n8.jpg a cat\n", "each line begins with the key"),
    # Flickr8k and Flickr30k as Kaggle has them.
    (
      "captions.txt",
      'image,caption\n7.jpg,a dog\n7.jpg,"the dog"\n8.jpg,a cat\n',
      "key of an image is its image",
    ),
    (
      "results.csv",
      "image_name| comment_number| comment\n7.jpg| 0| a dog\n7.jpg| 1| the dog\n8.jpg| 0| a cat\n",
      "key of an image is its image_name",
    ),
  ],
)
def test_flickr_token_and_csv_files_are_read(tmp_path, name, text, note):
  references = read_references(_text(tmp_path / name, text), language="en")
  assert {key.removesuffix(".jpg"): held for key, held in references.items()} == _REFERENCES
  assert [line for line in references.notes if note in line]
  predicted = read_predictions(
    _lines(tmp_path / "ours.jsonl", *({"id": k, "caption": "dog"} for k in (7, 8))), "en", references
  )
  assert predicted.keys() == references.keys()


def test_flickr_csv_quotation_marks_are_literal(tmp_path):
  path = _text(tmp_path / "results.csv", 'image_name| comment_number| comment\n7.jpg| 0| "a dog\n')
  assert read_references(path, language="en") == {"7.jpg": {"en": ['"a dog']}}


@pytest.mark.parametrize(
  ("name", "text", "message"),
  [
    ("captions.txt", "7.jpg,a dog\n8.jpg,a cat\n", "name of a picture; add the first line 'image,caption'"),
    ("Flickr8k.token.txt", "7.jpg#0\ta\n" * 5 + "a cat\n", "line 6: no key as on the first lines"),
    (
      "results.csv",
      "image_name| comment_number| comment\n7.jpg| a dog\n",
      "line 2: 2 cells under 3 headings",
    ),
  ],
)
def test_malformed_flickr_lines_are_refused(tmp_path, name, text, message):
  with pytest.raises(UsageError, match=message):
    read_references(_text(tmp_path / name, text), language="en")


def test_text_captions_with_a_hash_are_not_flickr_keys(tmp_path):
  path = _text(tmp_path / "ours.txt", "team#1 wins\na dog\n")
  references = {"a": {"en": ["x"]}, "b": {"en": ["y"]}}
  assert read_predictions(path, "en", references) == {"a": {"en": "team#1 wins"}, "b": {"en": "a dog"}}
