"""Files and folders in the place of others: each command says in one line what they are and where they belong."""

import gzip

import numpy as np
import pytest
from PIL import Image

from tests.make import files
from tests.make.command import xmcap
from xmcap.commands import misplaced

SXS = {"image/key": "a", "language": "en", "rater": "R", "left": "A", "right": "B", "rating": 1}
THUMB = {
  "SYS": "A", "seg_id": "a", "hyp": "a dog", "image": "a", "P": 5.0, "R": 4.0, "Fl": 0.0, "Inc": 0.0, "Con": 0.0,
}  # fmt: skip
RUBRIC = {
  "protocol": "mine",
  "image/key": "a",
  "language": "en",
  "rater": "R",
  "system": "A",
  "caption": "a dog",
}
ROWS = {
  "sxs": SXS,
  "thumb": THUMB,
  "quality": {**RUBRIC, "quality": "GOOD"},
  "rubric": {**RUBRIC, "detail": 1},
  "saved": {"item": "1", "rater": "R", "rating": 1},
  "key": {"item": "1", "protocol": "sxs", "image/key": "a", "language": "en", "left": "A", "right": "B"},
  "annotations": {"image/key": "a", "language": "zh", "annotator": "R", "events": [], "sentence": "狗"},
  "judgements": {"cand": "a dog", "refs": ["a dog"], "human_score": 1, "imgid": "a"},
  "tags": {"image/key": "a", "language": "en", "tags": ["dog"]},
  "references": {"image/key": "a", "en": {"caption": ["a dog", "the dog"]}},
  "captions": {"image/key": "a", "language": "en", "caption": "a dog"},
  "assignment": {"image/key": "a", "language": "zh", "annotator": "R"},
  "rubric_file": {"name": "mine", "title": "Mine", "task": "Rate.", "criteria": []},
  "frequencies": {"language": "en", "tokenizer": "default", "images": 1, "vocabulary": [], "orders": []},
  "prompts": {"DE": ["ein Bild von {}"]},
  "metrics": {"step": 1, "time": 1.5, "train/loss": 2.0},
}
"""Kind -> a line of it, as xmcap or its release writes it."""
TABLES = {
  "comparisons": "m1,m2,lang,delta_sxs,delta_cider\nA,B,en,1,2\n",
  "scores": "language,images,references,cider\nen,2,4,1.5\n",
  "counts": "language,count\nen,5\n",
}
MODELS = {
  "captioner": ("vit", "t5"), "tagger": ("vit", "tagger"), "dual": ("vit", "t5", "dual"), "words": ("words",),
  "language_model": ("t5",), "tower": ("vit",),
}  # fmt: skip
FOLDERS = {
  "exported": "captioner.json", "corpus": "dataset_info.json", "embedded": "embeddings.json", "scored": "table.json",
  "labelled": "labels.txt", "checked": "check.md", "compared": "comparison.json", "by_language": "en.npy",
  "hub": "config.json", "pictures": "a.jpg",
}  # fmt: skip
COCO = {"images": [{"id": 1, "file_name": "a.jpg"}], "annotations": [{"image_id": 1, "caption": "a dog"}]}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
  """A folder with a file or folder of each kind, named after it."""
  folder = tmp_path_factory.mktemp("kinds")
  for kind, row in ROWS.items():
    files.jsonl(folder / kind, row, row)
  for kind, text in TABLES.items():
    (folder / kind).write_text(text)
  (folder / "gin.gin").write_text("import xmcap\n")
  files.json(folder / "classes", {"DE": [[0, 1], ["Hund", "Katze"]]})
  (folder / "page").write_text("<!doctype html>\n<html lang=en><title>Report</title></html>")
  with open(folder / "array", "wb") as file:
    np.save(file, np.zeros((2, 3), np.float32))
  Image.new("RGB", (8, 8)).save(folder / "picture", "PNG")
  for kind, parts in MODELS.items():
    (folder / kind).mkdir()
    model = {"format": "xmcap.model", "version": 1, **dict.fromkeys(parts, {})}
    files.json(folder / kind / "model.json", model)
  for kind, name in FOLDERS.items():
    (folder / kind).mkdir()
    (folder / kind / name).write_text("{}")
  return folder


def test_every_kind_is_recognised(place):
  kinds = {path.stem: misplaced.recognised(str(path)) for path in place.iterdir()}
  assert kinds == {kind: kind for kind in misplaced.KINDS}


REFERENCES, PREDICTIONS = "--references={references}", "--predictions={captions}"
COMMANDS = {  # option of `misplaced._TAKES`, and of which command it stands for others -> a call with it
  "human sxs ratings": "human sxs --ratings={}",
  "human thumb ratings": "human thumb --ratings={}",
  "human rubric ratings": "human rubric --ratings={}",
  "human quality ratings": "human quality --ratings={}",
  "human rate ratings": "human rate --join={key} --out={out}.jsonl {}",
  "join": "human rate --join={} --out={out}.jsonl {saved}",
  "human rate predictions": "human rate --protocol=sxs --predictions A={} B={captions} --out={out}.html",
  "files": "human annotations {} --out={out}",
  "comparisons": "human sxs --comparisons=G={}",
  "judgements": "human judgements --judgements={}",
  "counts": "score correlation --counts={} --baseline=mSigLIP --out={out}",
  "zero_shot": "score correlation --zero_shot={} --retrieval={scored} --out={out}",
  "retrieval": "score correlation --zero_shot={scored} --retrieval={} --out={out}",
  "references": f"score --references={{}} {PREDICTIONS} --out={{out}} --processes=1",
  "predictions": f"score {REFERENCES} --predictions={{}} --out={{out}} --processes=1",
  "check systems": "check {}",
  "compare systems": "compare {} other={scored}",
  "scores": "human choose --scores A={} B={scored}",
  "score tags references": "score tags --references={} --predictions={tags} --out={out}",
  "score tags predictions": "score tags --references={tags} --predictions={} --out={out}",
  "score zero-shot labels": "score zero-shot --pictures={array} --targets={array} --labels={} --texts=t --out={out}",
  "score zero-shot pictures": "score zero-shot --pictures={} --targets={array} --labels={classes} --texts=t --out=o",
  "captions": "score retrieval --pictures={array} --captions={} --texts={out} --out={out}",
  "texts": "score retrieval --pictures={array} --captions={references} --texts={} --out={out}",
  "candidates": "retrieval scores --queries={array} --candidates={} --out={out}.npy",
  "sentences": "retrieval top --queries={embedded} --candidates={array} --sentences={} --language=en --out={out}.jsonl",
  "model_dir": "export --model_dir={} --to=hf --out={out}",
  "model_dir of serve": "serve --model_dir={} --port=0",
  "model_dir of caption": "caption --model_dir={} {picture}",
  "tag model_dir": "tag --model_dir={} {picture}",
  "embed model_dir": "embed --model_dir={} --captions={captions} --out={out}",
  "features model_dir": "features --model_dir={} --corpus={corpus} --out={out}.safetensors",
  "eval model_dir": "eval --model_dir={}",
  "images of caption": "caption --model_dir={captioner} {}",
  "dir": "data show {} --out={out}.html",
  "dir of data stats": "data stats {} --processes=1",
  "dir of data tags": "data tags {} --out={out}",
  "runs dirs": "runs {}",
  "corpus": "features --model_dir={tower} --corpus={} --out={out}.safetensors",
  "score baseline": f"score {REFERENCES} {PREDICTIONS} --baseline={{}} --out={{out}} --processes=1",
  "silver": "human choose --scores A={scored} --silver A={}",
  "score retrieval pictures": "score retrieval --pictures={} --captions={references} --texts={out} --out={out}",
  "targets": "score zero-shot --pictures={array} --targets={} --labels={classes} --texts={out} --out={out}",
  "queries": "retrieval scores --queries={} --candidates={array} --out={out}.npy",
  "tags": "data tags {corpus} --tags={} --out={out}",
  "embed labels": "embed --model_dir={dual} --labels={} --out={out}",
  "score tags labels": "score tags --references={tags} --predictions={tags} --labels={} --out={out}",
  "input": "convert --input={} --out={out}",
  "df": f"score {REFERENCES} {PREDICTIONS} --df={{}} --out={{out}} --processes=1",
  "subset": f"score {REFERENCES} {PREDICTIONS} --subset={{}} --out={{out}} --processes=1",
  "score vectors": f"score {REFERENCES} {PREDICTIONS} --metrics=clip_score --vectors={{}} --out={{out}} --processes=1",
  "prompts": "data labels --labels={classes} --prompts={} --out={out}.json",
  "assignment": "human annotations {annotations} --assignment={} --out={out}",
  "watch_list": "human annotations {annotations} --watch_list={} --out={out}",
  "guidelines": "human annotate --images={pictures} --language=en --guidelines={} --out={out}",
  "human rate protocol": "human rate --protocol={} --predictions A={captions} --out={out}.html",
  "keys": "score retrieval --scores={array} --language=en --keys={} --out={out}",
  "gin_file": "plan --gin_file={} --params",
  "validation_scores": "retrieval fuse --scores {array} {array} --validation_scores {} {array} --out={out}.npy",
  "against": "data check {corpus} --against={} --out={out}",
  "data labels labels": "data labels --labels={} --out={out}.json",
  "data words vectors": "data words {corpus} --vectors={} --out={out}",
  "data tags labels": "data tags {corpus} --labels={} --out={out}",
  "map": "data tags {corpus} --map={} --out={out}",
  "classes": "data tags {corpus} --classes={} --out={out}",
  "features pictures": "features --model_dir={tower} {} --out={out}.safetensors",
  "adapters": "embed --model_dir={dual} --labels={classes} --adapters={} --out={out}",
  "features": "data tags {corpus} --features={} --out={out}",
}


@pytest.mark.parametrize("of_option", COMMANDS)
def test_command_says_what_each_wrong_input_is(place, tmp_path, of_option):
  takes = misplaced._TAKES[of_option.partition(" of ")[0]]
  paths = {kind: str(place / ("gin.gin" if kind == "gin" else kind)) for kind in misplaced.KINDS}
  for number, kind in enumerate(misplaced.KINDS.keys() - takes):
    words = COMMANDS[of_option].split()
    argv = [word.format(paths[kind], out=tmp_path / str(number), **paths) for word in words]
    xmcap(*argv).refused(f"{paths[kind]}: {misplaced.KINDS[kind].name}: ")


def test_every_option_that_takes_kinds_has_a_call():
  called = {of_option.partition(" of ")[0] for of_option in COMMANDS}
  assert misplaced._TAKES.keys() == called


def test_command_for_the_right_place_names_the_path(place, tmp_path):
  (tmp_path / "my ratings.jsonl").write_bytes((place / "thumb").read_bytes())
  message = f"xmcap human thumb --ratings='{tmp_path}/my ratings.jsonl'"
  xmcap("human", "sxs", f"--ratings={tmp_path}/my ratings.jsonl").refused(message)
  packed = tmp_path / "thumb.gz"
  packed.write_bytes(gzip.compress((place / "thumb").read_bytes()))
  xmcap("human", "sxs", f"--ratings={packed}").refused("these are ratings by THumB")


@pytest.mark.parametrize(
  "content", ["", "one caption\n", "a dog, and a cat\n", "{broken", "[1, 2]", "\0\1\2"]
)
def test_unknown_content_keeps_the_own_error(tmp_path, content):
  path = files.text(tmp_path / "file.jsonl", content)
  assert misplaced.recognised(str(path)) is None
  assert "belongs" not in xmcap("human", "sxs", f"--ratings={path}").refused("file.jsonl").err


def test_right_input_keeps_the_own_error(place, tmp_path):
  xmcap("human", "sxs", f"--ratings={place / 'sxs'}").refused("line 2: 'R' rated")
