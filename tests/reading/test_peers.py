"""Prediction files of big_vision, lmms-eval, VLMEvalKit and others; the layouts follow the code that a test names."""

import json
import pickle
import zipfile

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.make import files, workbook
from tests.make.refusals import refusal
from xmcap.scoring import read_predictions, read_references, score
from xmcap.scoring.metrics import document_frequency_files

_REFERENCES = {"7": {"en": ["a dog", "the dog"]}, "8": {"en": ["a cat"]}}
_PREDICTIONS = {"7": {"en": "dog"}, "8": {"en": "cat"}}


def _assert_both_read(path):
  assert read_predictions(path, "en") == _PREDICTIONS
  assert read_references(path, language="en") == _REFERENCES


def test_big_vision_image_ids_contain_the_language(tmp_path):
  """coco_caption.py: lists of image_id and caption, where the image_id of XM3600 is KEY_CODE."""
  rows = [{"image_id": f"{key}_th", "caption": text} for key, text in (("7", "a"), ("7", "b"), ("8", "c"))]
  path = files.json(tmp_path / "xm3600_th_annotations.json", rows)
  references = read_references(path)
  assert references == {"7": {"th": ["a", "b"]}, "8": {"th": ["c"]}}
  path = files.json(tmp_path / "xm3600_th_preds.json", rows[1:])
  predictions = read_predictions(path, references=references)
  assert predictions == {"7": {"th": "b"}, "8": {"th": "c"}}
  assert "ids are KEY_CODE" in predictions.notes[0]
  assert predictions.notes[0] in score(references, predictions).table.notes
  assert "language is th, but --language says en" in refusal(read_predictions, path, "en")
  whole = {"7_th": {"en": "b"}, "8_th": {"en": "c"}}
  assert read_predictions(path, "en", key="(.*)") == whole
  assert read_predictions(path, "en", {"7_th": {"en": ["a"]}}) == whole


def test_big_vision_predictions_with_id_field(tmp_path):
  """storepreds.py: `id` (or what `id_key` says) and caption; the language is in the file's name alone."""
  rows = [{"id": "7", "caption": "x"}]
  predictions = read_predictions(files.json(tmp_path / "coco35l_dev_th_preds.json", rows))
  assert predictions == {"7": {"th": "x"}}
  assert "language 'th' is that of the file's name" in predictions.notes[1]
  other = files.json(tmp_path / "minival_xx_preds.json", rows)
  assert "'language' is missing" in refusal(read_predictions, other)


def _sample(number, image, pred, answers, **changes):
  metric = {"answer": answers, "pred": pred, "image_id": image, "id": number}
  row = {"doc_id": number, "target": str(answers), "filtered_resps": [pred], "input": "Caption the image."}
  return {**row, "coco_CIDEr": metric, "coco_Bleu_4": metric, **changes}


def test_lmms_eval_samples_are_read(tmp_path):
  """evaluation_tracker.py and tasks/coco_cap/utils.py."""
  rows = [_sample(0, 7, "dog", ["a dog", "the dog"]), _sample(1, 8, "cat", ["a cat"])]
  path = files.jsonl(tmp_path / "20260101_000000_samples_coco2017_cap_val.jsonl", *rows)
  _assert_both_read(path)
  note = "predictions: lmms-eval's samples: the key of an image is its image_id"
  assert read_predictions(path, "en").notes == (note,)


def test_lmms_eval_samples_without_image_id_use_doc_id(tmp_path):
  row = {"doc_id": 7, "target": "['a dog', 'the dog']", "resps": [["dog"]], "filtered_resps": [["dog"]]}
  path = files.jsonl(tmp_path / "samples.jsonl", row)
  assert read_predictions(path, "en") == {"7": {"en": "dog"}}
  assert read_references(path, language="en") == {"7": {"en": ["a dog", "the dog"]}}
  assert "the key of an image is its doc_id" in read_predictions(path, "en").notes[0]


def test_lmms_eval_coco_test_captions_in_lists(tmp_path):
  path = files.json(
    tmp_path / "coco_captions_test2014_alg_results.json", [{"image_id": 7, "caption": ["dog"]}]
  )
  assert read_predictions(path, "en") == {"7": {"en": "dog"}}


def _changed(**changes):
  return [_sample(0, 7, "dog", ["a dog"], **changes)]


@pytest.mark.parametrize(
  ("name", "rows", "message"),
  [
    ("s.jsonl", _changed(filtered_resps=["a", "b"]), "line 1: 'filtered_resps' has 2 captions; a prediction is one"),
    ("s.jsonl", _changed(coco_Bleu_4={"image_id": 9}), "line 1: its metrics name 2 images"),
    ("p.json", [{"image_id": 7, "caption": []}], "results[0]: 'caption' has 0 captions"),
    ("p.json", [{"image_id": 7, "caption": ["a", "b"]}], "results[0]: 'caption' has 2 captions"),
  ],
)  # fmt: skip
def test_lmms_eval_samples_of_several_captions_are_refused(tmp_path, name, rows, message):
  assert message in refusal(read_predictions, files.write(tmp_path / name, rows), "en")


def test_pangeabench_integer_keys_match_xm3600_keys(tmp_path):
  """neulab/Pangea's lmms_eval/tasks/xm100/utils.py: `a` is 1, and the whole becomes an integer."""
  keys = {"0034f42f8566fa07": 34642685666107, "00cf8a4f3bb5a5a9": 36814632251519}
  assert all(int("".join(str(ord(c) - 96) if c.isalpha() else c for c in key)) == keys[key] for key in keys)
  references = {key: {"de": ["ein Hund"]} for key in keys}
  texts = dict.fromkeys(keys.values(), "ein Hund")
  path = files.coco_results(tmp_path / "xm100_captions_val_alg_results.json", texts)
  predictions = read_predictions(path, "de", references)
  assert predictions == {key: {"de": "ein Hund"} for key in keys}
  assert "2 keys written another way, '34642685666107' for '0034f42f8566fa07'" in predictions.notes[0]
  other = read_predictions(files.coco_results(path, {**texts, 5: "ein Hund"}), "de", references)
  assert "none of the 3 predicted images is among the 2" in refusal(score, references, other)
  path = files.coco_results(path, {1: "ein Hund"})
  assert read_predictions(path, "de", {"a": {"de": ["ein Hund"]}}).keys() == {"1"}


_COLUMNS = ("index", "answer", "question", "prediction")
_TABLE = [(7, "['a dog', \"the dog\"]", "Describe.", "dog"), (8, "['a cat']", "Describe.", "cat")]


@pytest.mark.parametrize("suffix", ["json", "tsv", "xlsx"])
def test_vlmevalkit_tables_are_read(tmp_path, suffix):
  """smp/file.py: json of records, tsv with all cells quoted, xlsx; dataset/image_caption.py evaluates `answer`."""
  path = tmp_path / f"Qwen_COCO_VAL.{suffix}"
  if suffix == "json":
    files.json(path, [dict(zip(_COLUMNS, row, strict=True)) for row in _TABLE])
  elif suffix == "tsv":
    cells = [[str(cell).replace('"', '""') for cell in row] for row in (_COLUMNS, *_TABLE)]
    files.lines(path, *("\t".join(f'"{cell}"' for cell in row) for row in cells))
  else:
    pytest.importorskip("python_calamine")
    workbook.write(path, _COLUMNS, *_TABLE)
  _assert_both_read(path)


@pytest.mark.parametrize("answer", ["[1]", "['a'", "[" * 5000, "['a'] * 3", "[open('x')]", ""])
def test_vlmevalkit_answer_is_not_passed_to_eval(tmp_path, answer):
  path = files.json(tmp_path / "t.json", [{"index": 1, "answer": answer, "prediction": "dog"}])
  message = "results[0]: 'answer' is" if answer else "1 image with empty references only"
  assert message in refusal(read_references, path, language="en")


def test_centurio_outputs_and_mblip_references_are_read(tmp_path):
  """Centurio's src/baseline_eval/main.py dumps a table of samples; mBLIP's data/xm3600 makes COCO's annotations."""
  sample = {"model_id": "m", "dataspecs_name": "xm3600_de", "dataspec_name": "xm3600", "prompt": "Beschreibe.",
            "label": "", "pair_id": "N/A - NOT SET", "context": "German", "image_paths": ["a.jpg"]}  # fmt: skip
  texts = {"7": "ein Hund", "8": "eine Katze"}
  rows = [{**sample, "image_id": key, "text_label": "de", "output_text": text} for key, text in texts.items()]
  predictions = read_predictions(files.jsonl(tmp_path / "xm3600_de.jsonl", *rows))
  assert predictions == {key: {"de": text} for key, text in texts.items()}
  path = files.coco(tmp_path / "xm3600_coco_de.json", {key: [text] for key, text in texts.items()})
  references = read_references(path)
  assert score(references, predictions, metrics="exact").table.scores["de"]["exact"] == 1.0
  path = files.jsonl(tmp_path / "p.jsonl", rows[0] | {"text_label": "N/A - NOT SET"})
  assert "'N/A - NOT SET'" in refusal(read_predictions, path)


def _change_members(path, change):
  with zipfile.ZipFile(path) as archive:
    members = {name: archive.read(name) for name in archive.namelist()}
  with zipfile.ZipFile(path, "w") as archive:
    for name, content in members.items():
      archive.writestr(name, change(content))


def test_xlsx_without_captions_or_broken_is_refused(tmp_path):
  pytest.importorskip("python_calamine")
  path = workbook.write(tmp_path / "t.xlsx", ("a", "b"), ("1", "2"))
  assert "row 2: the columns are 'a, b'; wanted are 'caption'" in refusal(read_predictions, path, "en")
  excel = "an Excel workbook, not text: save the sheet as CSV UTF-8"
  assert excel in refusal(document_frequency_files.read, path, "default")
  _change_members(path, lambda content: b"<workbook")
  assert "t.xlsx: cannot be read (" in refusal(read_predictions, path, "en")


def test_xlsx_with_several_sheets_is_noted(tmp_path):
  pytest.importorskip("python_calamine")
  path = workbook.write(tmp_path / "t.xlsx", ("image_id", "caption"), ("7", "dog"))
  one = b'<sheet name="Sheet1" sheetId="1" r:id="r1"/>'
  two = one.replace(b'Sheet1" sheetId="1', b'Other" sheetId="2')
  _change_members(path, lambda content: content.replace(one, one + two))
  predictions = read_predictions(path, "en")
  assert predictions == {"7": {"en": "dog"}}
  assert predictions.notes == ("predictions: the sheet 'Sheet1', the first of 2",)


def _hf_row(key, captions):
  tokenized = {
    "captions_tokenized": [f"{caption} ." for caption in captions],
    "captions_tokenized_lowercase": captions,
  }
  return {"image_id": key, "image_locale": "de", "captions": captions, **tokenized}


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_hugging_face_xm3600_files_per_language_are_read(tmp_path, suffix):
  """floschne/xm3600: a split per language, data/th-00000-of-00001.parquet; the columns are those of its README."""
  rows = [_hf_row("k1", ["a", "b"]), _hf_row("k2", ["c"])]
  for code, part in (("en", rows), ("th", rows[:1])):
    path = tmp_path / f"{code}-00000-of-00001.{suffix}"
    if suffix == "jsonl":
      files.jsonl(path, *part)
    else:
      table = [{**row, "image": {"bytes": b"x", "path": None}} for row in part]
      pq.write_table(pa.Table.from_pylist(table), path)
  one = read_references(path, tokenized=True)
  assert one == {"k1": {"th": ["a", "b"]}}
  assert one.tokenized == {"k1": {"th": ["a .", "b ."]}} and one.locales == {"k1": "de"}
  assert read_references(tmp_path) == {"k1": {"en": ["a", "b"], "th": ["a", "b"]}, "k2": {"en": ["c"]}}


def test_broken_parquet_is_refused(tmp_path):
  path = files.text(tmp_path / "p.parquet", b"PAR1" + b"x" * 50)
  assert "p.parquet: cannot be read" in refusal(read_predictions, path, "en")


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("single", [False, True])
def test_json_object_of_image_ids_and_captions(tmp_path, indent, single):
  predictions = {"7": "dog" if single else ["dog"], "8": "cat"}
  path = files.text(tmp_path / "results.json", json.dumps(predictions, indent=indent))
  assert read_predictions(path, "en") == _PREDICTIONS
  files.text(path, json.dumps({"7": ["a dog", "the dog"], "8": "a cat"}, indent=indent))
  assert read_references(path, language="en") == _REFERENCES


def test_unknown_json_object_is_refused_by_member_names(tmp_path):
  for content in ('{"results": {"7": "dog"}, "config": 1}', '{\n"results": [1],\n"config": 1\n}'):
    assert "'results, config'" in refusal(read_predictions, files.text(tmp_path / "p.json", content), "en")


@pytest.mark.parametrize("name", ["image_id", "id", "key", "name"])
def test_jsonl_key_field_has_several_names(tmp_path, name):
  path = files.jsonl(tmp_path / "p.jsonl", {name: 7, "language": "en", "caption": "dog"})
  if name == "name":
    assert "line 1: the columns are 'name, language, caption'; wanted" in refusal(read_predictions, path)
  else:
    assert read_predictions(path) == {"7": {"en": "dog"}} and read_references(path) == {"7": {"en": ["dog"]}}


def _karpathy(key, split, **names):
  sentences = [{"raw": f"{split} {number}", "tokens": [], "sentid": number} for number in range(2)]
  return {"filename": f"COCO_val2014_{key:012}.jpg", "split": split, "sentences": sentences, **names}


def test_karpathy_references_use_the_predicted_split(tmp_path):
  """dataset_coco.json of "Deep visual-semantic alignments" (Karpathy and Fei-Fei, 2015)."""
  images = [_karpathy(key, split, cocoid=key) for key, split in ((7, "test"), (8, "train"), (9, "test"))]
  path = files.json(tmp_path / "dataset_coco.json", {"images": images, "dataset": "coco"})
  references = read_references(path, language="en")
  assert references["7"] == {"en": ["test 0", "test 1"]} and len(references) == 3
  result = score(references, {"7": {"en": "test"}, "9": {"en": "x"}})
  assert result.statistics["en"].keys == ("7", "9")
  assert "references: 2 images of the split 'test', of 3" in result.table.notes
  assert "1 of 2 predictions are missing (en 9)" in refusal(score, references, {"7": {"en": "test"}})
  flickr = files.json(tmp_path / "dataset_flickr30k.json", {"images": [_karpathy(7, "test")]})
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
  frequencies = {"document_frequency": {("a", "dog"): 3.0}, "ref_len": 10.5}
  path = files.text(tmp_path / "coco-val-df.p", pickle.dumps(frequencies, protocol))
  for read in (
    read_references,
    read_predictions,
    lambda path: document_frequency_files.read(path, "default"),
  ):
    message = refusal(read, path)
    assert "a Python pickle, which can run code and is never opened: " in message and "--save_df" in message


_BEGINS = "each line begins with the key"


@pytest.mark.parametrize(
  ("name", "text", "note"),
  [
    # Flickr8k.token.txt, results_20130124.token, and COCO-CN's coco-cn_ext.icap2020.txt.
    ("Flickr8k.token.txt", "7.jpg#0\ta dog\n7.jpg#1\tthe dog\n8.jpg#0\ta cat\n", _BEGINS),
    ("results.token", "7.jpg#0\ta dog\n\n7.jpg#1\tthe dog\n8.jpg#0\ta cat", _BEGINS),
    ("human.txt", "7#zhm#0 a dog\n7#zhm#1 the dog\n8#zhm#0 a cat\n", _BEGINS),
    ("captions.txt", "7.jpg   a dog\n7.jpg\tthe dog\n8.jpg a cat\n", _BEGINS),
    # Flickr8k and Flickr30k as Kaggle has them.
    ("captions.txt", 'image,caption\n7.jpg,a dog\n7.jpg,"the dog"\n8.jpg,a cat\n', "key of an image is its image"),
    (
      "results.csv",
      "image_name| comment_number| comment\n7.jpg| 0| a dog\n7.jpg| 1| the dog\n8.jpg| 0| a cat\n",
      "key of an image is its image_name",
    ),
  ],
)  # fmt: skip
def test_flickr_token_and_csv_files_are_read(tmp_path, name, text, note):
  references = read_references(files.text(tmp_path / name, text), language="en")
  assert {key.removesuffix(".jpg"): captions for key, captions in references.items()} == _REFERENCES
  assert [line for line in references.notes if note in line]
  path = files.jsonl(tmp_path / "ours.jsonl", *({"id": key, "caption": "dog"} for key in (7, 8)))
  assert read_predictions(path, "en", references).keys() == references.keys()


def test_flickr_csv_quotation_marks_are_literal(tmp_path):
  path = files.text(tmp_path / "results.csv", 'image_name| comment_number| comment\n7.jpg| 0| "a dog\n')
  assert read_references(path, language="en") == {"7.jpg": {"en": ['"a dog']}}


@pytest.mark.parametrize(
  ("name", "text", "message"),
  [
    ("captions.txt", "7.jpg,a dog\n8.jpg,a cat\n", "name of a picture; add the first line 'image,caption'"),
    ("Flickr8k.token.txt", "7.jpg#0\ta\n" * 5 + "a cat\n", "line 6: no key as on the first lines"),
    ("results.csv", "image_name| comment_number| comment\n7.jpg| a dog\n", "line 2: 2 cells under 3 headings"),
  ],
)  # fmt: skip
def test_malformed_flickr_lines_are_refused(tmp_path, name, text, message):
  assert message in refusal(read_references, files.text(tmp_path / name, text), language="en")


def test_text_captions_with_a_hash_are_not_flickr_keys(tmp_path):
  path = files.text(tmp_path / "ours.txt", "team#1 wins\na dog\n")
  references = {"a": {"en": ["x"]}, "b": {"en": ["y"]}}
  assert read_predictions(path, "en", references) == {"a": {"en": "team#1 wins"}, "b": {"en": "a dog"}}
