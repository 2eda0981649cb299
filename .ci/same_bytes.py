"""Whether another checkout of xmcap writes the same bytes as this one, for a fixed set of runs.

Each side builds a corpus of drawn pictures, trains a tiny captioner for six steps, captions, evaluates, stores
features, scores, compares and reports, by the same commands in a folder of its own. What they wrote is compared file
by file: records, vocabularies, predictions, tables, signatures, reports and what was printed as bytes; checkpoints by
their numbers.

usage: python .ci/same_bytes.py OTHER_CHECKOUT     (exits 1 if anything differs)
"""

import hashlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
from PIL import Image

HERE = pathlib.Path(__file__).parents[1]
_LANGUAGES = {
  "en": ("a {} square", "a field of {}"), "de": ("ein {} Quadrat", "ein Feld in {}"), "th": ("สี่เหลี่ยม{}", "พื้น{}"),
  "ar": ("مربع {}", "حقل {}"), "zh": ("一个{}方块", "{}的田野"), "tr": ("{} bir kare", "Işıklı {} alan"),
}  # fmt: skip
_COLOURS = [(r, g, b) for r in (0, 120, 255) for g in (0, 120, 255) for b in (0, 255)]
_SMALL = [
  f"--gin.{name}={value}"
  for name, value in {
    "ViTConfig.width": 32, "ViTConfig.depth": 1, "ViTConfig.mlp_dim": 64, "T5Config.emb_dim": 32,
    "T5Config.head_dim": 16, "T5Config.num_decoder_layers": 1, "T5Config.mlp_dim": 32, "Predictor.max_length": 6,
  }.items()
]  # fmt: skip
# Logs of times, what names modules, and files whose bytes depend on the moment: checkpoints are compared by numbers.
_LEFT_OUT = ("tensorboard", "checkpoints", "metrics.jsonl", "versions.json", "config", ".xmcap.lock")
_PARAMS = """
import hashlib, sys
import numpy as np
from xmcap.models import stacking
from xmcap.training.checkpoints import read
digest = hashlib.sha256()
for path, leaf in sorted(stacking.flatten(read.load_params(sys.argv[1])).items()):
  digest.update(f"{path} {leaf.shape}".encode() + np.ascontiguousarray(leaf).tobytes())
print(digest.hexdigest())
"""


def commands() -> list[tuple[str, list[str]]]:
  """Returns (name, arguments of `xmcap`) of each run, in order."""
  score = ["score", "--references=references.jsonl"]
  gin = ["--gin_file=models/tiny.gin", "--gin_file=data/folder.gin", "--gin_file=runs/folder.gin"]
  train = [
    *gin,
    "--gin.DATA_DIR=corpus",
    "--gin.MODEL_DIR=model",
    "--gin.TOTAL_STEPS=6",
    "--gin.BATCH_SIZE=8",
    *_SMALL,
  ]
  return [
    ("build", ["data", "build", "folder", "--captions=captions.csv", "--images=images", "--out=corpus",
               "--vocabulary=train:420", "--processes=1"]),
    ("check", ["data", "check", "corpus"]),
    ("train", ["train", *train]),
    ("caption", ["caption", "--model_dir=model", "--languages=en,th", "--out=captions.jsonl", "images"]),
    ("features", ["features", "--model_dir=model", "--corpus=corpus", "--split=train", "--out=features.safetensors"]),
    ("eval", ["eval", "--model_dir=model", "--gin_file=runs/eval_folder.gin", "--gin.DATA_DIR=corpus",
              "--gin.EVAL_DIR=evaluated", "--gin.Predictor.max_length=6"]),
    ("score", [*score, "--predictions=ours.jsonl", "--out=ours", "--metrics=cider,chrf,bleu", "--bootstrap=100"]),
    ("clean", [*score, "--predictions=theirs.jsonl", "--out=theirs", "--clean=all", "--missing=empty"]),
    ("zeroed", [*score, "--predictions=ours.jsonl", "--out=zeroed", "--wrong_language=zero", "--tokenizer=char"]),
    ("other", [*score, "--predictions=theirs.jsonl", "--out=other", "--wrong_language=zero", "--tokenizer=char",
               "--missing=empty"]),
    ("protocol", [*score, "--predictions=ours.jsonl", "--out=protocol", "--protocol=xm3600"]),
    ("compare", ["compare", "other", "zeroed", "--out=compared"]),
  ]  # fmt: skip


def write_inputs(folder: pathlib.Path) -> None:
  """Writes pictures of one colour with captions in six languages, references, and predictions of two systems."""
  (folder / "images").mkdir(parents=True)
  rows, references, ours, theirs = [], [], [], []
  for number, colour in enumerate(_COLOURS * 2):
    pixels = np.full((48, 64, 3), colour, np.uint8)
    pixels[: 2 + number, :5] = 255 - pixels[0, 0]
    Image.fromarray(pixels).save(folder / "images" / f"p{number:03d}.png")
    word = "rgb" + "".join(str(part // 60) for part in colour)
    line = {"image/key": f"p{number:03d}", "image/locale": ""}
    for place, (code, forms) in enumerate(_LANGUAGES.items()):
      texts = [form.format(word) for form in forms]
      rows.append(f"p{number:03d}.png,{code},{texts[0]}")
      line[code] = {"caption": texts}
      wrong = _LANGUAGES["en" if number % 7 == 3 else code][(number + place) % 2].format(word)
      ours.append({"image/key": line["image/key"], "language": code, "caption": wrong})
      if number % 5 or code != "de":
        residue = f"Caption: {texts[0]}</s>" if number % 3 == 0 else texts[1]
        theirs.append({"image/key": line["image/key"], "language": code, "caption": residue})
    references.append(line)
  (folder / "captions.csv").write_text("\n".join(["image,language,caption", *rows, ""]), encoding="utf-8")
  for name, lines in {"references": references, "ours": ours, "theirs": theirs}.items():
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    (folder / f"{name}.jsonl").write_text(text, encoding="utf-8")


def run(checkout: pathlib.Path, folder: pathlib.Path) -> dict[str, str]:
  """Makes all runs with a checkout in a folder; returns what was written -> its hash."""
  write_inputs(folder)
  environment = {**os.environ, "PYTHONPATH": str(checkout), "JAX_PLATFORMS": "cpu", "XLA_FLAGS": ""}
  hashes = {}
  for name, arguments in commands():
    done = subprocess.run(
      [sys.executable, "-P", "-m", "xmcap.cli", *arguments], cwd=folder, env=environment, capture_output=True
    )
    if done.returncode:
      raise SystemExit(f"{checkout}: {name}: {done.stderr.decode()[-800:]}")
    if name not in ("train", "build", "features"):  # they print times
      hashes[f"{name}: printed"] = hashlib.sha256(done.stdout).hexdigest()
  numbers = subprocess.run(
    [sys.executable, "-P", "-c", _PARAMS, "model"],
    cwd=folder,
    env=environment,
    capture_output=True,
    text=True,
  )
  if numbers.returncode:
    raise SystemExit(f"{checkout}: the checkpoint: {numbers.stderr[-800:]}")
  hashes["parameters of the checkpoint"] = numbers.stdout.strip()
  for path in sorted(folder.rglob("*")):
    relative = path.relative_to(folder)
    if path.is_file() and not any(part.startswith(_LEFT_OUT) for part in relative.parts):
      hashes[str(relative)] = hashlib.sha256(path.read_bytes()).hexdigest()
  return hashes


def main() -> None:
  """Prints what differs."""
  other = pathlib.Path(sys.argv[1]).resolve()
  with tempfile.TemporaryDirectory() as name:
    # One folder after the other under one name: paths stand in some outputs.
    place = pathlib.Path(name, "place")
    theirs = run(other, place)
    place.rename(pathlib.Path(name, "theirs"))
    ours = run(HERE, place)
    for path in ours.keys() | theirs.keys():
      if ours.get(path) != theirs.get(path):
        kind = "differs" if path in ours and path in theirs else f"only in {HERE if path in ours else other}"
        print(f"{path}: {kind}")
  same = sum(ours.get(path) == theirs.get(path) for path in ours.keys() | theirs.keys())
  print(f"{same} of {len(ours.keys() | theirs.keys())} are the same")
  if same < len(ours.keys() | theirs.keys()):
    raise SystemExit(1)


if __name__ == "__main__":
  main()
