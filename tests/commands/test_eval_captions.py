"""`xmcap eval` with captions of a file, an endpoint or a function in the place of weights."""

import json
import pathlib
import sys

import pytest

from tests.make import files, images, models
from tests.make.command import xmcap
from tests.make.endpoint import Endpoint

CAPTIONS = {
  f"k{number}": {"en": f"{name} on the grass", "th": f"{thai}บนหญ้า"}
  for number, (name, thai) in enumerate([("a dog", "สุนัข"), ("two cats", "แมวสองตัว"), ("a red car", "รถสีแดง")])
}
XM3600 = ("--gin_file=runs/eval_xm3600.gin", "--gin.XM3600=data/captions.jsonl")
ALONE = "--gin.EVALUATORS=[@xm3600/CaptionEvaluator()]"


@pytest.fixture(autouse=True)
def corpus(tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  monkeypatch.delenv("OPENAI_API_KEY", raising=False)
  files.captions("p.jsonl", CAPTIONS)
  references = {
    key: {code: [text, f"{text} {code}"] for code, text in of.items()} for key, of in CAPTIONS.items()
  }
  files.release("data/captions.jsonl", references)
  for number in range(3):
    files.write(f"data/images/k{number}.jpg", images.noise((24, 24), number, "JPEG"))


def _eval(*arguments):
  return xmcap("eval", "--gin.REFERENCES=data/captions.jsonl", "--gin.EVAL_DIR=e", *arguments)


def _score(captions, *arguments):
  xmcap(
    "score", "--references=data/captions.jsonl", f"--predictions={captions}", "--out=s", *arguments
  ).succeeded()


def _table(folder):
  return json.loads(pathlib.Path(folder, "table.json").read_text(encoding="utf-8"))


def test_a_file_has_the_table_of_score(tmp_path):
  assert "cider_d  " in _eval("--predictions=p.jsonl").succeeded().out
  _score("p.jsonl")
  for name in ("table.json", "table.tex", "predictions.jsonl", "captions.csv", "health.csv"):
    assert (tmp_path / "e" / name).read_bytes() == (tmp_path / "s" / name).read_bytes()
  assert sorted(path.name for path in (tmp_path / "e").iterdir()) == sorted(
    path.name for path in (tmp_path / "s").iterdir()
  )


def test_a_subset_and_languages_are_those_of_score():
  files.lines("keys.txt", "k0", "k2")
  _eval(
    "--predictions=p.jsonl", "--gin.CaptionEvaluator.subset='keys.txt'", "--gin.CaptionEvaluator.languages=('th',)"
  ).succeeded()  # fmt: skip
  _score("p.jsonl", "--subset=keys.txt", "--languages=th")
  assert _table("e") == _table("s") and "|subset:file#" in _table("e")["signature"]


def test_captions_of_weights_and_of_their_file_have_one_table():
  models.captioner(pathlib.Path("model"))
  _eval("--model_dir=model").succeeded()
  xmcap(
    "eval", *XM3600, ALONE, "--predictions=e/predictions.jsonl", "--gin.XM3600_OUT=again",
    "--gin.CaptionEvaluator.title=",
  ).succeeded("xm3600/cider_d")  # fmt: skip
  first, again = _table("e"), _table("again")
  assert first.pop("title") == "" and again.pop("title") == "XM3600"
  assert first == again


def test_an_endpoint_is_asked_once_and_named_in_the_signature():
  with Endpoint().serving() as server:
    options = f"--endpoint={server.url}", "--model=stub", "--prompt=xm100"
    _eval(*options).succeeded()
    assert "6 questions: 6 answered; 0 asked now" in _eval(*options).succeeded().err
  signature = _table("e")["signature"]
  assert "|captioner:stub,prompt=xm100" in signature
  _score("e/captions.jsonl")
  assert _table("s") == _table("e")


def test_a_function_captions_for_each_evaluator(monkeypatch):
  monkeypatch.setattr(sys, "path", sys.path.copy())
  files.text(
    "own_captioner.py", "def caption(image, codes):\n  return dict.fromkeys(codes, f'{image.width} dogs')\n"
  )
  xmcap(
    "eval", *XM3600, "--gin.COCO_35L=data/captions.jsonl", "--captioner=own_captioner:caption",
    "--gin.XM3600_OUT=x", "--gin.COCO_35L_DEV_OUT=c",
  ).succeeded("coco_35l_dev/cider_d")  # fmt: skip
  assert _table("x")["languages"] == _table("c")["languages"]
  assert "|captioner:own_captioner:caption#" in _table("c")["signature"]


def test_files_by_the_names_of_evaluators():
  files.captions("q.jsonl", {key: dict.fromkeys(of, "x") for key, of in CAPTIONS.items()})
  both = (*XM3600, "--gin.COCO_35L=data/captions.jsonl", "--gin.XM3600_OUT=x", "--gin.COCO_35L_DEV_OUT=c")
  xmcap("eval", *both, "--predictions", "xm3600=p.jsonl", "coco_35l_dev=q.jsonl").succeeded()
  assert _table("x")["languages"]["th"]["cider"] > 1 > _table("c")["languages"]["th"]["cider"]
  refused = "--predictions: none for the evaluator 'coco_35l_dev': give --predictions=coco_35l_dev=FILE"
  xmcap("eval", *both, "--predictions=xm3600=p.jsonl").refused(refused)


def test_missing_captions_are_refused_or_empty(tmp_path):
  files.captions("p.jsonl", {**CAPTIONS, "k1": {"en": "a dog"}})
  refused = _eval("--predictions=p.jsonl").refused("1 of 6 predictions are missing (th k1)")
  assert "--gin.CaptionEvaluator.missing=empty" in refused.err and not (tmp_path / "e").exists()
  _eval("--predictions=p.jsonl", "--gin.CaptionEvaluator.missing=empty").succeeded()
  _score("p.jsonl", "--missing=empty")
  assert _table("e") == _table("s")


@pytest.mark.parametrize(
  ("arguments", "message"),
  [
    ([], "give --model_dir of a trained model, --endpoint and --model of any other"),
    (["--predictions=p.jsonl", "--model_dir=m"], "give --model_dir of a trained model"),
    (["--endpoint=http://x"], "required: --model"),
    (["--predictions=p.jsonl", "--step=3"], "--step is of a trained model"),
    (["--predictions=p.jsonl", "--prompt=xm100"], "--prompt is of an endpoint, and not of a file"),
    (["--model_dir=m", "--prompt=xm100"], "--prompt is of an endpoint, and not of a trained model"),
    (["--predictions=p.jsonl", "--gin_file=model.json"], "--gin_file=model.json is of a trained model"),
    (["--predictions=none.jsonl"], "none.jsonl"),
    (["--predictions=e/predictions.jsonl"], "would overwrite the input --predictions"),
  ],
)
def test_refused_in_one_line(arguments, message):
  _eval(*arguments).refused(message)


def test_asked_captions_are_not_written_over_references():
  own = ("--captioner=json:loads", "--gin.REFERENCES=data/captions.jsonl", "--gin.EVAL_DIR=data")
  xmcap("eval", *own).refused("would overwrite the input CaptionEvaluator.references")


def test_evaluators_of_weights_are_named():
  refused = xmcap(
    "eval", "--predictions=p.jsonl", "--gin_file=data/emoji100.gin", "--gin_file=runs/eval_emoji100.gin"
  ).refused("--predictions has no weights for RetrievalEvaluator, ZeroShotEvaluator: give --model_dir")
  assert "[@CaptionEvaluator()]" in refused.err
