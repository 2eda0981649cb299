"""The folder in which the blocks of a page run: small files under the names that the pages take as examples."""

import gzip
import json
import pathlib
import re
import shutil
import zipfile

import xmcap
from tests.make import models, small_corpus
from tests.pages import blocks
from xmcap import cli
from xmcap.data import record_writer
from xmcap.languages import LANGUAGES

PLACES = {
  "gs://my-bucket": "bucket",
  "gs://t5-data/vocabs/mc4.250000.100extra/sentencepiece.model": "mt5/spiece.model",
  "/tmp/emoji36": "data/emoji36",
  "/tmp/": "tmp/",
  "/shared/": "shared/",
}
"""Addresses that the pages take as examples -> where their stand-ins lie in the folder."""

_XM600 = 600  # pictures, which the mixture xm600 draws


def make(folder: pathlib.Path, scoring: pathlib.Path) -> None:
  """Writes all stand-ins; the captions to score are those that the page `scoring` shows."""
  files = dict(named_files(blocks.of_page(scoring), scoring.read_text(encoding="utf-8")))
  references, ours = files["references.jsonl"], files["ours.jsonl"]
  for name, text in {"captions.jsonl": references, "ours.jsonl": ours, "theirs.jsonl": ours}.items():
    (folder / name).write_text(text, encoding="utf-8")
  (folder / "captions.jsonl.gz").write_bytes(gzip.compress(references.encode()))
  with zipfile.ZipFile(folder / "captions.zip", "w") as archive:
    archive.writestr("captions.jsonl", references)

  corpus = small_corpus.write(folder / "data/coco35l")
  small_corpus.write(folder / "data/emoji36", "emoji36", languages=tuple(LANGUAGES))
  xm3600 = [small_corpus.record(number, tuple(LANGUAGES), captions=1) for number in range(_XM600)]
  split = record_writer.write_split(
    folder / "data/xm3600", "test", [xm3600], list, dataset="xm3600", processes=1
  )
  record_writer.write_metadata(folder / "data/xm3600", [split], dataset="xm3600")
  for vocabulary in ("mt5.model", "mt5/spiece.model", "spiece.model", "PATH"):
    _copy(corpus / "vocabulary.model", folder / vocabulary)
  shutil.copytree(corpus, folder / "DIR")

  model = models.captioner(folder / "runs/bb")
  (model / "metrics.jsonl").write_text('{"step": 1, "time": 1.0, "train/loss": 2.0}\n', encoding="utf-8")
  _copy(models.image(folder), folder / "photo.jpg")
  for copy in ("RUN", "runs/bg", "bucket/runs/bb"):
    shutil.copytree(model, folder / copy)
  assert cli.main(["convert", "--to=hf", f"--input={model}", f"--out={folder / 'hf'}"]) == 0
  for name in ("SOURCE", "mt5-base-hf", "vit-base-patch16-224-in21k", "CLIP-ViT-g-14-laion2B-s12B-b42K"):
    shutil.copytree(folder / ("hf/t5" if "vit" not in name.lower() else "hf/vit"), folder / name)

  (folder / "images").mkdir()
  (folder / "dist").mkdir()
  (folder / f"dist/xmcap-{xmcap.__version__}-py3-none-any.whl").touch()


def named_files(found: list[blocks.Block], page: str) -> list[tuple[str, str]]:
  """(name, contents) of the blocks below a paragraph that ends with a file's name, as "Ratings, `ratings.csv`:"."""
  lines = page.split("\n")
  named = []
  for block in found:
    above = re.search(r"`([\w.-]+\.(?:jsonl|json|csv|tsv))`:\s*$", "\n".join(lines[: block.line - 1]))
    if above:
      named.append((above[1], _of_one_line(block.text) if above[1].endswith(".jsonl") else block.text))
  return named


def _of_one_line(text: str) -> str:
  """The line of a JSONL file that a page breaks for its readers; other text as it is."""
  try:
    return json.dumps(json.loads(text), ensure_ascii=False) + "\n"
  except json.JSONDecodeError:
    return text


def put(text: str) -> str:
  """The text of a block with stand-ins for the addresses that it takes as examples."""
  for address, place in PLACES.items():
    text = text.replace(address, place)
  return text


def _copy(source: pathlib.Path, to: pathlib.Path) -> None:
  to.parent.mkdir(parents=True, exist_ok=True)
  shutil.copy(source, to)
