"""Public functions of scoring take what other programs hand over, or name the wrong argument in one line."""

import json
import pathlib

import numpy as np
import pytest

import xmcap
from xmcap import scoring
from xmcap.errors import UsageError, XmcapError
from xmcap.human import quality, rubric, sxs, thumb_ratings
from xmcap.ranked import retrieval, tags
from xmcap.scoring import coco

_REFERENCES = {"1": {"en": ["a dog runs", "the dog"]}, "2": {"en": ["two cats sleep"]}}
_PREDICTIONS = {"1": {"en": "a dog"}, "2": {"en": "two cats"}}


class _Missing:
  """As pandas' NA."""

  def __bool__(self):
    raise TypeError("boolean value of NA is ambiguous")


class _Coco:
  def __init__(self, annotations):
    self.imgToAnns = annotations

  def getImgIds(self):
    return list(self.imgToAnns)


_ODD = {
  "None": lambda: None,
  "int": lambda: 5,
  "True": lambda: True,
  "NaN": lambda: float("nan"),
  "NumPy's number": lambda: np.int64(3),
  "NumPy's string": lambda: np.str_("x"),
  "bytes": lambda: b"en",
  "empty list": lambda: [],
  "empty dictionary": lambda: {},
  "set": lambda: {"a"},
  "generator": lambda: (text for text in ["a"]),
  "array of strings": lambda: np.array(["a", "b"]),
  "array of numbers": lambda: np.array([1.0, 2.0]),
  "list of None": lambda: [None],
  "nested lists": lambda: [[["a"]]],
  "missing value": _Missing,
  "object": object,
  "text": lambda: "a dog",
  "no path": lambda: "a\0b",
  "pycocoevalcap's gts": lambda: {1: ["a dog"], 2: ["two cats"]},
  "pycocoevalcap's res": lambda: {1: "a dog", 2: "two cats"},
  "lists by language": lambda: {"en": ["a dog", _Missing()]},
  "lists of None": lambda: {"en": [None, ["a"]]},
  "bytes by language": lambda: {"en": [[b"a"], b"a"]},
  "number of a language": lambda: {1: ["a"]},
  "None by language": lambda: {"1": {"en": None}, "2": {"en": [None]}},
  "key of None": lambda: {None: {"en": ["a"]}},
  "key of a tuple": lambda: {("a", 1): {"en": ["a"]}},
  "array of captions": lambda: {"1": {"en": np.array(["a"])}, "2": {"en": np.array(["b"])}},
  "scores of tags that are none": lambda: {"en": {"1": {"dog": None}, "2": {"cat": "x"}}},
}


def _functions(folder):
  """(function, good arguments, names of further parameters)."""
  result = scoring.score(_REFERENCES, _PREDICTIONS, metrics="cider_d")
  scoring.write(result, folder / "scored", only_tables=True)
  (folder / "r.jsonl").write_text('{"image/key": "1", "language": "en", "caption": "a dog"}\n')
  file, out, rows = folder / "r.jsonl", folder / "out", np.eye(2, 4, dtype=np.float32)
  captions = {"en": retrieval.CaptionRows(np.arange(2), ("a", "b"))}
  tagged = {"en": {"1": {"dog": 1.0}, "2": {"cat": 1.0}}}
  both = {"references": _REFERENCES, "predictions": _PREDICTIONS, "metrics": "exact"}
  files = {"references": file, "predictions": file, "out": out, "only_tables": True, "metrics": "exact"}
  embedded = {"images": rows, "keys": ["1", "2"], "captions": captions, "texts": {"en": lambda: rows}}
  annotations = _Coco({1: [{"caption": "a dog"}]})
  return [
    (xmcap.score, {"references": {"en": ["a"]}, "predictions": {"en": ["a"]}, "metrics": "exact"}, ""),
    (scoring.score, {**both, "health": False, "processes": 1},
     "languages protocol tokenizer document_frequencies scale title normalize subset clean vectors missing bootstrap "
     "seed wrong_language keep"),
    (scoring.score_files, files,
     "languages language key images_dir style document_frequencies save_document_frequencies baseline"),
    (scoring.read_references, {"path": file}, "languages language tokenized key longest"),
    (scoring.read_predictions, {"path": file}, "language references key longest"),
    (scoring.write_predictions, {"path": folder / "w.jsonl", "captions": _PREDICTIONS.items()}, ""),
    (scoring.write, {"result": result, "out": out, "only_tables": True}, "style scored"),
    (scoring.read_system, {"folder": folder / "scored"}, ""),
    (scoring.compare, {"systems": {"a": result, "b": result}, "resamples": 5}, "metrics seed title scale"),
    (scoring.References, {"captions": _REFERENCES}, "locales tokenized notes"),
    (scoring.Corpus, {"hypotheses": [["a"]], "references": [[["a"]]]}, ""),
    (scoring.Signature.parse, {"text": result.table.signature}, ""),
    (tags.score_tags, {"references": tagged, "predictions": tagged}, "depths vocabulary bootstrap title"),
    (retrieval.score_retrieval, embedded, "depths"),
    (coco.COCOEvalCap, {"coco": annotations, "cocoRes": annotations}, ""),
    (sxs.read, {"paths": file}, ""),
    (quality.read, {"paths": file}, ""),
    (rubric.read, {"paths": file}, ""),
    (thumb_ratings.read, {"paths": file}, "language"),
    (sxs.evaluate, {"ratings": []}, "baseline resamples"),
  ]  # fmt: skip


def test_odd_arguments_work_or_are_one_line(tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  leaks = []
  for function, arguments, names in _functions(tmp_path):
    for parameter in (*arguments, *names.split()):
      for kind, odd in _ODD.items():
        try:
          function(**{**arguments, parameter: odd()})
        except XmcapError as error:
          if "\n" in str(error):
            leaks.append((function, parameter, kind, str(error)))
        except Exception as error:
          leaks.append((function, parameter, kind, repr(error)))
  assert not leaks


def _of_numpy(value):
  """The same in strings of NumPy, as arrays and pandas hand them over."""
  if isinstance(value, dict):
    return {np.str_(key): _of_numpy(item) for key, item in value.items()}
  return list(np.array(value)) if isinstance(value, list) else np.str_(value)


def test_strings_of_numpy_score_as_strings(tmp_path):
  options = {"metrics": "cider_d,bleu,rouge_l", "health": True, "seed": np.int64(1), "bootstrap": np.int32(5)}
  expected = scoring.score(_REFERENCES, _PREDICTIONS, "en", **options)
  result = scoring.score(_of_numpy(_REFERENCES), _of_numpy(_PREDICTIONS), np.array(["en"]), **options)
  assert (result.table, result.health) == (expected.table, expected.health)
  scoring.write(result, tmp_path / "out")
  assert scoring.read_predictions(tmp_path / "out/predictions.jsonl") == _PREDICTIONS
  by_list = {
    "references": {"en": [["a dog runs", "the dog"], "two cats sleep"]},
    "predictions": {"en": ["a dog", "two cats"]},
  }
  arrays = {np.str_("en"): [list(np.array(["a dog runs", "the dog"])), np.str_("two cats sleep")]}
  scored = xmcap.score(arrays, {"en": list(np.array(["a dog", "two cats"]))}, metrics=["cider_d"])
  assert scored.table.rows == xmcap.score(**by_list, metrics="cider_d").table.rows
  scoring.write_predictions(tmp_path / "p.jsonl", _of_numpy(_PREDICTIONS).items())
  assert scoring.read_predictions(tmp_path / "p.jsonl") == _PREDICTIONS


@pytest.mark.parametrize("number", [int, np.int64])
def test_whole_numbers_as_keys_are_the_strings_of_files(tmp_path, number):
  references = {number(key): value for key, value in _REFERENCES.items()}
  predictions = {number(key): value for key, value in _PREDICTIONS.items()}
  expected = scoring.score(_REFERENCES, _PREDICTIONS, metrics="cider_d").table
  assert scoring.score(references, predictions, metrics="cider_d").table == expected
  file = pathlib.Path(tmp_path, "p.json")
  file.write_text(json.dumps([{"image_id": 1, "caption": "a dog"}, {"image_id": 2, "caption": "two cats"}]))
  read = scoring.read_predictions(file, "en", references)
  assert scoring.score(references, read, metrics="cider_d").table.rows == expected.rows


@pytest.mark.parametrize(
  ("function", "message"),
  [
    (
      xmcap.score,
      r"references: 1 is no language code: .* of pycocoevalcap's .* that is {'en': list\(gts.values\(\)\)}",
    ),
    (
      scoring.score,
      r"references\[1\]: \['a dog'\] must be a dictionary; the form is {image key: {language code: ",
    ),
  ],
)
def test_dictionaries_of_pycocoevalcap_are_refused_with_the_form(function, message):
  with pytest.raises(UsageError, match=message):
    function({1: ["a dog"]}, {1: ["a dog"]})


def test_corpus_refuses_captions_that_are_not_tokenized():
  with pytest.raises(UsageError, match="as lists of words"):
    scoring.Corpus(["a dog"], [["the dog"]])
