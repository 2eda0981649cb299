"""What building CC3M-35L and COCO-35L takes of a core, of memory and of the disk, on made-up releases in their layouts.

usage: python benchmarks/build_rates.py
Pictures have the spectrum of photographs, and captions the names of emoji. A build has one whole file of records, as
memory grows up to there. `xmcap/planning/corpora.py` has these rates, and makes the tables of docs/corpora.md.
"""

import bz2
import json
import os
import pathlib
import random
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from io import BytesIO

import photographs
import report

from xmcap import languages
from xmcap.corpora.building.options import BuildInProgress, Options
from xmcap.corpora.building.spill import spill
from xmcap.corpora.emoji import sources as emoji_sources
from xmcap.corpora.releases.translations import Cc3mParser, CocoParser

PICTURES = 2_048
_DISTINCT = 64
_LOOKUPS = 2_000


def main() -> None:
  jpegs = [photographs.picture(number) for number in range(_DISTINCT)]
  with tempfile.TemporaryDirectory() as folder:
    root = pathlib.Path(folder)
    rows = [measured("cc3m35l", root, cc3m, jpegs), measured("coco35l", root, coco, jpegs)]
    lookup = seconds_of_a_lookup(root)
  report.write(
    "build_rates",
    "Building CC3M-35L and COCO-35L: a picture with its captions in 35 languages",
    [(*row, f"{lookup * 1e3:.3f}") for row in rows],
    columns=(
      "", "CPU ms", "bytes of lines", "bytes of text in records", "bytes in .build", "MB of memory", "ms of a look-up",
    ),
    notes=[
      f"{PICTURES:,} pictures of {sum(map(len, jpegs)) // _DISTINCT:,} bytes (640 x 480), one process; starting it is"
      " not counted. CPU seconds of user and system, so that other programs do not count. A look-up is one file of"
      " records that asks one file of .build for its captions: a whole corpus has as many as the product of both"
      " numbers."
    ],
  )  # fmt: skip


def measured(corpus: str, root: pathlib.Path, write: Callable, jpegs: list[bytes]) -> tuple[str, ...]:
  """A row: what a picture takes in a build, less what starting it takes, which a small build measures."""
  small = write(root / f"{corpus}-small", jpegs, _DISTINCT)
  release = write(root / corpus, jpegs, PICTURES)
  start, _, _ = built(corpus, small)
  seconds, memory, records = built(corpus, release)
  picture = sum(map(len, jpegs)) / _DISTINCT
  text = next(release.glob("*_mt_train.jsonl.bz2"))
  with bz2.open(text) as file:
    size = file.seek(0, os.SEEK_END)
  return (
    corpus,
    f"{1e3 * (seconds - start) / (PICTURES - _DISTINCT):.2f}",
    f"{size / PICTURES:,.0f}",
    f"{records / PICTURES - picture:,.0f}",
    f"{build_bytes(text, corpus) / PICTURES:,.0f}",
    f"{memory / 1e6:,.0f}",
  )


def built(corpus: str, release: pathlib.Path) -> tuple[float, int, int]:
  """Builds a release in a process of its own; returns its CPU seconds, its memory and the bytes of its records."""
  out = release.with_name(f"{release.name}-built")
  command = [sys.executable, "-c", "from xmcap.cli import console; console()", "data", "build", corpus]
  process = subprocess.Popen([*command, f"--release={release}", f"--out={out}", "--processes=1"])
  _, status, used = os.wait4(process.pid, 0)
  if status:
    raise SystemExit(f"{corpus}: the build failed")
  files = [path for path in out.glob("*train.array_record-*") if not path.name.endswith("index")]
  return used.ru_utime + used.ru_stime, 1024 * used.ru_maxrss, sum(path.stat().st_size for path in files)


def build_bytes(captions: pathlib.Path, corpus: str) -> int:
  """The bytes that the captions take in .build until the end of the build."""
  with tempfile.TemporaryDirectory() as folder:
    if corpus == "cc3m35l":
      parser = Cc3mParser(captions.name, PICTURES)
    else:
      parser = CocoParser(captions.name, {number: number - 1 for number in range(1, PICTURES + 1)})
    spill(BuildInProgress(pathlib.Path(folder), Options()), "train", captions, parser)
    return sum(path.stat().st_size for path in pathlib.Path(folder).glob("*.captions"))


def seconds_of_a_lookup(root: pathlib.Path) -> float:
  """Median CPU seconds of opening a file of captions and asking for those of a range."""
  captions = next(root.glob("cc3m35l/*_mt_train.jsonl.bz2"))
  work = BuildInProgress(root / "work", Options())
  work.folder.mkdir()
  spilled = spill(work, "train", captions, Cc3mParser(captions.name, PICTURES))
  began = time.process_time()
  for _ in range(_LOOKUPS):
    spilled.captions(range(PICTURES, PICTURES + 1))
  return (time.process_time() - began) / _LOOKUPS / spilled.chunks


def lines(ids: Iterator[dict]) -> Iterator[bytes]:
  """Lines as released: for each id, one in each of the 34 languages."""
  names = {code: list(of.values()) for code, of in emoji_sources.find().cldr.names.items()}
  rng = random.Random(0)

  def text(code: str) -> str:
    return " ".join(rng.choices(names[code], k=rng.randint(4, 8)))

  for id in ids:
    english = text("en")
    for code in languages.TRAINED:
      if code != "en":
        fields = {
          **id, "src_lang": "en", "trg_lang": code, "caption_tokenized": english, "translation_tokenized": text(code),
          "backtranslation_tokenized": english,
        }  # fmt: skip
        yield json.dumps(fields, ensure_ascii=False).encode() + b"\n"


def cc3m(folder: pathlib.Path, jpegs: list[bytes], count: int) -> pathlib.Path:
  """CC3M-35L with img2dataset's tar files, without dev."""
  (folder / "train_images").mkdir(parents=True)
  numbers = range(1, count + 1)
  with bz2.open(folder / "cc3m_mt_train.jsonl.bz2", "wb") as file:
    file.writelines(lines({"rec_num": number} for number in numbers))
  urls = [f"http://127.0.0.1/{number}.jpg" for number in numbers]
  (folder / "Train_GCC-training.tsv").write_text("".join(f"a caption\t{url}\n" for url in urls))
  with tarfile.open(folder / "train_images/00000.tar", "w") as tar:
    for number, url in zip(numbers, urls, strict=True):
      for suffix, data in (("jpg", jpegs[number % _DISTINCT]), ("json", json.dumps({"url": url}).encode())):
        entry = tarfile.TarInfo(f"{number:09d}.{suffix}")
        entry.size = len(data)
        tar.addfile(entry, BytesIO(data))
  return folder


def coco(folder: pathlib.Path, jpegs: list[bytes], count: int) -> pathlib.Path:
  """COCO-35L with five captions a picture, and one picture of val."""
  images = []
  for number in range(1, count + 2):
    part = "val2014" if number > count else "train2014"
    name = f"COCO_{part}_{number:012d}.jpg"
    path = folder / part / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(jpegs[number % _DISTINCT])
    split = "val" if number > count else "train"
    images.append({"cocoid": number, "filepath": part, "filename": name, "split": split})
  (folder / "dataset_coco.json").write_text(json.dumps({"images": images}))
  ids = [{"image_id": f"{number}_{caption}"} for number in range(1, count + 2) for caption in range(1, 6)]
  for name, of in (("coco_mt_train", ids[:-5]), ("coco_mt_dev", ids[-5:])):
    with bz2.open(folder / f"{name}.jsonl.bz2", "wb") as file:
      file.writelines(lines(iter(of)))
  return folder


if __name__ == "__main__":
  main()
