"""Whole inputs of every command, small; each case takes a copy of what it needs and damages it."""

import contextlib
import io
import json
import pathlib
import random
import shutil

import gin
import numpy as np

from tests.corpora import release_folders as releases
from tests.fuzz import strangers
from tests.make import small_corpus
from tests.training.reporting import synthetic
from xmcap import cli, gin_files

_KEYS = ("00000000000000aa", "7", "k\u00e9y")
_TEXTS = {
  "en": ("a red ball", "two \U0001f697 cars", "a dog"),
  "zh": ("一个红球", "两辆汽车", "一只狗"),
  "th": ("ลูกบอลสีแดง", "รถสองคัน", "สุนัข"),
}


def make(folder: pathlib.Path, models: bool) -> None:
  """Writes all inputs; those of models and corpora, which take half a minute, only if asked for."""
  folder.mkdir(parents=True, exist_ok=True)
  _captions(folder / "captions")
  _human(folder / "human")
  synthetic.captioner(folder / "runs" / "a", 1, 1000, 2000)
  synthetic.captioner(folder / "runs" / "b", 2, 600, 2000)
  if models:
    small_corpus.write(folder / "corpus", train=6, validation=3, languages=("en", "th", "ar"))
    releases.write_xm3600(folder / "xm3600", images=4)
    releases.write_coco35l(
      folder / "coco35l", images=4, dev=2, languages=("de", "th"), captions=2, layout="zip"
    )
    releases.write_cc3m35l(folder / "cc3m35l", images=4, dev=2, languages=("de", "th"))
    strangers.make(folder)
    shutil.copytree(gin_files.gin_folder(), folder / "gin")
    _models(folder)


def call(*arguments) -> None:
  """A call that must succeed."""
  said = io.StringIO()
  with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
    code = cli.main([str(argument) for argument in arguments])
  gin.clear_config()
  if code:
    raise RuntimeError(f"xmcap {' '.join(map(str, arguments))} ended with {code}: {said.getvalue()[-2000:]}")


def _jsonl(path: pathlib.Path, rows) -> None:
  path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


def _captions(folder: pathlib.Path) -> None:
  """References in three layouts, predictions in two, two folders of scores, and what else `score` reads."""
  folder.mkdir()
  release = []
  for place, key in enumerate(_KEYS):
    captions = {code: [texts[place], texts[place][::-1]] for code, texts in _TEXTS.items()}
    row = {code: {"caption": of, "caption/tokenized": of} for code, of in captions.items()}
    release.append({"image/key": key, "image/locale": "th", **row})
  _jsonl(folder / "references.jsonl", release)
  rows = [
    {"image/key": key, "language": code, "caption": texts[place]}
    for code, texts in _TEXTS.items()
    for place, key in enumerate(_KEYS)
  ]
  _jsonl(folder / "predictions.jsonl", rows)
  _jsonl(folder / "others.jsonl", [row | {"caption": row["caption"][:-1] + "x"} for row in rows])
  annotations = [{"id": n, "image_id": n, "caption": text} for n, text in enumerate(_TEXTS["en"])]
  images = [{"id": n} for n in range(3)]
  (folder / "coco.json").write_text(json.dumps({"images": images, "annotations": annotations}))
  (folder / "results.json").write_text(json.dumps([{"image_id": n, "caption": "a dog"} for n in range(3)]))
  criterion = {"name": "tone", "heading": "Tone", "question": "?", "choices": [[1, "no"], [2, "yes"]]}
  rubric = {"name": "style", "title": "Style", "task": "Rate.", "criteria": [criterion]}
  (folder / "rubric.json").write_text(json.dumps(rubric))
  (folder / "keys.txt").write_text("\n".join(_KEYS), encoding="utf-8")
  common = ("score", f"--references={folder / 'references.jsonl'}")
  for name in ("predictions", "others"):
    call(*common, f"--predictions={folder / name}.jsonl", f"--out={folder / 'scored' / name}",
         f"--save_df={folder / 'frequencies.json'}")  # fmt: skip


def _human(folder: pathlib.Path) -> None:
  """Ratings of three systems by three raters, THumB ratings, comparisons of systems, annotations."""
  folder.mkdir()
  rng = random.Random(0)
  rows = []
  for pair in (("A", "B"), ("A", "C"), ("B", "C")):
    for key, rater in ((f"k{k}", f"r{r}") for k in range(4) for r in range(3)):
      left, right = rng.sample(pair, 2)
      row = {"image/key": key, "language": "en", "rater": rater, "left": left, "right": right}
      rows.append({**row, "rating": rng.randint(-3, 3)})
  _jsonl(folder / "ratings.jsonl", rows)
  header = ",".join(rows[0])
  (folder / "ratings.csv").write_text(
    "\n".join([header, *(",".join(map(str, row.values())) for row in rows)]) + "\n"
  )
  scores = {"P": 4, "R": 3, "Fl": -0.0, "Inc": -0.0, "Con": -0.5}
  _jsonl(
    folder / "thumb.jsonl",
    [{"SYS": s, "seg_id": str(k), "hyp": f"a dog {k}", **scores} for s in ("M", "Human") for k in range(4)],
  )
  _jsonl(
    folder / "references.jsonl", [{"seg_id": str(k), "refs": ["a dog runs", "a small cat"]} for k in range(4)]
  )
  _jsonl(
    folder / "rubric.jsonl",
    [
      {"protocol": "coco_cn_tags", "image/key": f"k{k}", "language": "zh", "rater": rater, "system": system,
       "tag": tag, "relevance": rng.choice((1, 0, -1))}
      for k in range(3)
      for rater in "xy"
      for system in "AB"
      for tag in ("cat", "dog")
    ],
  )  # fmt: skip
  _jsonl(
    folder / "quality.jsonl",
    [
      {
        "image/key": f"k{k}",
        "language": "en",
        "rater": rater,
        "caption": "a dog",
        "quality": rng.randint(0, 4),
      }
      for k in range(3)
      for rater in "xyz"
    ],
  )
  cells = [f"k{k},{'fa sw'[: 2 * (k % 2)]},{rng.choice(('IR', 'KE', 'JP'))}\n" for k in range(9)]
  (folder / "candidates.csv").write_text("".join(["image/key,languages,country\n", *cells]))
  written = {"caption": "a dog", "tags": ["dog"], "suggested": {"sentences": ["a cat"], "tags": ["dog"]}}
  events = [{"time": time, "event": event} for time, event in enumerate(("open", "copy_sentence", "done"))]
  _jsonl(
    folder / "annotations.jsonl",
    [
      {"image/key": f"k{k}", "language": "en", "annotator": name, **written, "events": events}
      for name in "ab"
      for k in range(4)
    ],
  )
  (folder / "core.csv").write_text("m1,m2,lang,delta_sxs,delta_x\nA,B,en,1,2\nA,C,en,3,1\nB,C,en,-3,1\n")
  for number, system in enumerate("ABC"):
    (folder / system).mkdir()
    rows = {"en": {"cider": 0.1 * number}, "de": {"cider": {"score": 0.3 * number, "low": 0, "high": 1}}}
    (folder / system / "table.json").write_text(json.dumps({"signature": "tokenizer:x", "languages": rows}))


def _models(folder: pathlib.Path) -> None:
  """A captioner trained for two steps, its weights as transformers', and a ViT as big_vision's."""
  call("train", "--gin_file=models/tiny.gin", "--gin_file=data/coco35l.gin", "--gin_file=runs/train.gin",
       *small_corpus.SMALLER, f"--gin.DATA_DIR={folder / 'corpus'}", f"--gin.MODEL_DIR={folder / 'model'}",
       "--gin.TOTAL_STEPS=2", "--gin.BATCH_SIZE=4", "--gin.EVALUATORS=()", "--gin.Writers.tensorboard=False",
       "--gin.IMAGE_SIZE=16", "--gin.CaptionStream.target_lengths=()", "--gin.TARGET_LENGTH=8")  # fmt: skip
  call("convert", "--to=hf", f"--input={folder / 'model'}", f"--out={folder / 'hf'}")
  rng = np.random.default_rng(0)
  width, heads = 16, 2
  block = "Transformer/encoderblock_0"
  shapes = {"embedding/kernel": (4, 4, 3, width), "embedding/bias": (width,), "pos_embedding": (1, 9, width)}
  for norm in (f"{block}/LayerNorm_0", f"{block}/LayerNorm_1", "Transformer/encoder_norm"):
    shapes |= {f"{norm}/scale": (width,), f"{norm}/bias": (width,)}
  attention = f"{block}/MultiHeadDotProductAttention_0"
  for part in ("query", "key", "value"):
    shapes |= {f"{attention}/{part}/kernel": (width, heads, 8), f"{attention}/{part}/bias": (heads, 8)}
  shapes |= {f"{attention}/out/kernel": (heads, 8, width), f"{attention}/out/bias": (width,)}
  shapes |= {f"{block}/MlpBlock_0/Dense_0/kernel": (width, 24), f"{block}/MlpBlock_0/Dense_0/bias": (24,)}
  shapes |= {f"{block}/MlpBlock_0/Dense_1/kernel": (24, width), f"{block}/MlpBlock_0/Dense_1/bias": (width,)}
  weights = {f"params/{name}": rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
  (folder / "big_vision").mkdir()
  np.savez(folder / "big_vision" / "vit.npz", **weights)
  call("convert", f"--input={folder / 'big_vision/vit.npz'}", "--pool=gap", f"--out={folder / 'converted'}")
