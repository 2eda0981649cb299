"""Writes a large COCO-35L or CC3M-35L as published, in constant memory: input for benchmarks of the builders.

usage: python benchmarks/large_release.py OUT [--corpus=coco35l|cc3m35l] [--captions=200000] [--order=image|language]
         [--pictures=folder|zip|webdataset|none] [--width=640 --height=480] [--distinct=64] [--plain] [--seed=0]

200,000 captions in 34 languages are 6,800,000 lines. Memory does not grow with them, but for the names in a zip file.
Words are made up, of letters of the language's script, as often as words are (Zipf); a caption has 4 to 16 of them.
Pictures are photographs in size and detail: `distinct` of them, again and again, each with its number in a comment, so
that no two files are the same.
"""

import argparse
import bz2
import functools
import io
import json
import os
import pathlib
import resource
import sys
import tarfile
import time
import zipfile
from collections.abc import Callable, Iterator

import msgspec
import numpy as np
from PIL import Image

from xmcap.languages import LANGUAGES, TRAINED

TARGETS = tuple(code for code in TRAINED if code != "en")
_CHUNK = 512
_VOCABULARY = 4_000
_LETTERS = {
  "Latn": "abcdefghijklmnopqrstuvwxyz",
  "Arab": "ابتثجحخدذرزسشصضطظعغفقكلمنهوي",
  "Beng": "কখগঘচছজঝটঠডঢতথদধনপফবভমযরলশষসহ",
  "Grek": "αβγδεζηθικλμνξοπρστυφχψω",
  "Hebr": "אבגדהוזחטיכלמנסעפצקרשת",
  "Deva": "कखगघचछजझटठडढतथदधनपफबभमयरलवशषसह",
  "Jpan": "あいうえおかきくけこさしすせそたちつてとなにぬねの",
  "Kore": "가나다라마바사아자차카타파하거너더러머버서어",
  "Cyrl": "абвгдежзийклмнопрстуфхцчшщыэюя",
  "Telu": "కఖగఘచఛజఝటఠడఢతథదధనపఫబభమయరలవశషసహ",
  "Thai": "กขคงจฉชซญดตถทนบปผพฟภมยรลวสหอ",
  "Hans": "的一是了我不人在他有这个上们来到时大地为子中",
}


class Texts:
  """Captions of a language, any of them by its number; the same for the same seed.

  Args:
    language: code.
    seed: of all of them.
    hide_digits: no digits, as in CC3M-35L.
  """

  def __init__(self, language: str, seed: int = 0):
    self._seed = [seed, list(LANGUAGES).index(language)]
    rng = np.random.default_rng(self._seed)
    letters = np.array(list(_LETTERS[LANGUAGES[language].script]))
    short = LANGUAGES[language].script in ("Hans", "Jpan", "Kore")
    lengths = rng.integers(1, 4 if short else 10, _VOCABULARY)
    self._words = np.array(["".join(rng.choice(letters, length)) for length in lengths], object)
    weights = 1 / np.arange(2, _VOCABULARY + 2)
    self._ends = np.cumsum(weights / weights.sum())

  def chunk(self, number: int) -> list[str]:
    """Captions `number * _CHUNK` to `(number + 1) * _CHUNK`."""
    rng = np.random.default_rng([*self._seed, number])
    lengths = rng.integers(4, 17, _CHUNK)
    places = np.searchsorted(self._ends, rng.random(lengths.sum())).clip(max=_VOCABULARY - 1)
    words = iter(self._words[places].tolist())
    return [" ".join([next(words) for _ in range(length)]) + " ." for length in lengths.tolist()]


def lines(identify: Callable[[int], dict], captions: int, order: str, seed: int) -> Iterator[bytes]:
  """The lines of a corpus, some thousand at a time.

  Args:
    identify: caption number, from 0, -> its id field.
    captions: how many; a line each in each of the 34 languages.
    order: "image" (the languages of a caption follow one another) or "language".
    seed: of the texts.
  """
  texts = {language: Texts(language, seed) for language in TRAINED}
  encode = msgspec.json.Encoder().encode
  backs = Texts("en", seed + 1)

  def line(number: int, language: str, english: str, translated: str, back: str) -> bytes:
    values = {
      "src_lang": "en",
      "trg_lang": language,
      "caption_tokenized": english,
      "translation_tokenized": translated,
      "backtranslation_tokenized": back,
    }
    return encode({**identify(number), **values}) + b"\n"

  def block(chunk: int, languages: tuple[str, ...]) -> bytes:
    english, back = texts["en"].chunk(chunk), backs.chunk(chunk)
    translated = [texts[language].chunk(chunk) for language in languages]
    first = chunk * _CHUNK
    return b"".join(
      line(first + place, language, english[place], translated[turn][place], back[place])
      for place in range(min(_CHUNK, captions - first))
      for turn, language in enumerate(languages)
    )

  groups = [TARGETS] if order == "image" else [(language,) for language in TARGETS]
  for group in groups:
    for chunk in range(-(-captions // _CHUNK)):
      yield block(chunk, group)


def write_lines(path: pathlib.Path, blocks: Iterator[bytes], say: Callable[[str], None] = print) -> int:
  """Writes blocks of lines, as one bz2 stream if the name ends so; returns the bytes before compression."""
  packer = bz2.BZ2Compressor() if path.suffix == ".bz2" else None
  size, began, said = 0, time.perf_counter(), 0.0
  with open(path, "wb") as file:
    for block in blocks:
      size += len(block)
      file.write(packer.compress(block) if packer else block)
      passed = time.perf_counter() - began
      if passed - said > 10:
        said = passed
        say(f"{path.name}: {size / 1e6:,.0f} MB of JSON, {size / 1e6 / passed:.1f} MB/s")
    if packer:
      file.write(packer.flush())
  return size


class Photographs:
  """JPEG files that differ, made quickly: `distinct` pictures, each file with its number in a comment."""

  def __init__(self, width: int = 640, height: int = 480, distinct: int = 64, seed: int = 0):
    rng = np.random.default_rng(seed)
    self._files = [self._photograph(width, height, rng) for _ in range(distinct)]

  def __call__(self, number: int) -> bytes:
    data = self._files[number % len(self._files)]
    return data[:2] + b"\xff\xfe\x00\x0a" + b"%08d" % number + data[2:]

  @staticmethod
  def _photograph(width: int, height: int, rng: np.random.Generator) -> bytes:
    """Detail at all scales, as photographs have: about 160 kB at 640 x 480, as COCO's."""
    pixels = np.zeros((height, width, 3))
    for scale in (4, 16, 64, 256):
      noise = rng.integers(0, 256, (max(2, height * scale // 512), max(2, width * scale // 512), 3), np.uint8)
      pixels += np.asarray(Image.fromarray(noise).resize((width, height), Image.Resampling.BICUBIC), float)
    buffer = io.BytesIO()
    Image.fromarray((pixels / 4).astype(np.uint8)).save(buffer, "JPEG", quality=92)
    return buffer.getvalue()


def write_coco35l(
  folder: str | os.PathLike,
  captions: int = 200_000,
  *,
  order: str = "image",
  pictures: str = "zip",
  photographs: Photographs | None = None,
  compress: bool = True,
  seed: int = 0,
) -> pathlib.Path:
  """Writes COCO-35L with five captions a picture, one picture in twenty of them in the dev split; returns the folder.

  Args:
    folder: made if it is absent; files in it are replaced.
    captions: of both splits together, a multiple of five; 34 lines each.
    order: "image" or "language".
    pictures: "folder" (train2014/, val2014/), "zip" (train2014.zip, val2014.zip) or "none".
    photographs: picture number -> bytes.
    compress: .jsonl.bz2, or .jsonl.
    seed: of the texts.
  """
  folder = pathlib.Path(folder)
  folder.mkdir(parents=True, exist_ok=True)
  images = captions // 5
  dev = max(1, images // 20)
  starts = {"train": 0, "dev": images - dev, "": images}
  end = ".jsonl.bz2" if compress else ".jsonl"
  for split, (start, stop) in {"train": (0, images - dev), "dev": (starts["dev"], images)}.items():
    identify = functools.partial(_image_id, start)
    blocks = lines(identify, 5 * (stop - start), order, seed + start)
    write_lines(folder / f"coco_mt_{split}{end}", blocks, _say)
  with open(folder / "dataset_coco.json", "w") as file:
    file.write('{"images": [')
    for index in range(images):
      place = "train2014" if index < starts["dev"] else "val2014"
      about = {
        "filepath": place,
        "sentids": [],
        "filename": f"COCO_{place}_{index + 1:012d}.jpg",
        "imgid": index,
      }
      about |= {"split": "train" if place == "train2014" else "val", "sentences": [], "cocoid": index + 1}
      file.write((", " if index else "") + json.dumps(about))
    file.write('], "dataset": "coco"}')
  photographs = photographs or (None if pictures == "none" else Photographs())
  for place, start, stop in (("train2014", 0, starts["dev"]), ("val2014", starts["dev"], images)):
    files = ((f"{place}/COCO_{place}_{index + 1:012d}.jpg", index) for index in range(start, stop))
    if pictures == "zip":
      with zipfile.ZipFile(folder / f"{place}.zip", "w") as archive:
        for name, index in files:
          archive.writestr(zipfile.ZipInfo(name), photographs(index))
    elif pictures == "folder":
      (folder / place).mkdir(exist_ok=True)
      for name, index in files:
        (folder / name).write_bytes(photographs(index))
  return folder


def _image_id(start: int, caption: int) -> dict:
  return {"image_id": f"{start + caption // 5 + 1}_{caption % 5 + 1}"}


def write_cc3m35l(
  folder: str | os.PathLike,
  captions: int = 200_000,
  *,
  order: str = "image",
  pictures: str = "webdataset",
  photographs: Photographs | None = None,
  compress: bool = True,
  seed: int = 0,
  in_shard: int = 10_000,
) -> pathlib.Path:
  """Writes CC3M-35L, one picture in a hundred of them in the dev split; returns the folder.

  Arguments as of `write_coco35l`; `pictures` is "webdataset" (train_images/00000.tar, ..., as img2dataset leaves them;
  every tenth picture was not fetched) or "none".
  """
  folder = pathlib.Path(folder)
  folder.mkdir(parents=True, exist_ok=True)
  dev = max(1, captions // 100)
  end = ".jsonl.bz2" if compress else ".jsonl"
  names = {"train": "Train_GCC-training.tsv", "dev": "Validation_GCC-1.1.0-Validation.tsv"}
  for split, count in {"train": captions - dev, "dev": dev}.items():
    split_seed = seed + (split == "dev")
    blocks = lines(lambda caption: {"rec_num": caption + 1}, count, order, split_seed)
    write_lines(folder / f"cc3m_mt_{split}{end}", blocks, _say)
    english = Texts("en", split_seed)
    with open(folder / names[split], "w", encoding="utf-8") as file:
      for chunk in range(-(-count // _CHUNK)):
        for number, text in enumerate(english.chunk(chunk)[: count - chunk * _CHUNK], chunk * _CHUNK):
          file.write(f"{text}\t{_url(split, number)}\n")
    if pictures == "webdataset":
      _write_tars(folder / f"{split}_images", split, count, photographs or Photographs(), in_shard)
  return folder


def _url(split: str, number: int) -> str:
  return f"http://example.com/{split}/{number:x}.jpg"


def _write_tars(
  folder: pathlib.Path, split: str, count: int, photographs: Photographs, in_shard: int
) -> None:
  folder.mkdir(exist_ok=True)
  digits = len(str(in_shard - 1))
  for shard in range(-(-count // in_shard)):
    with tarfile.open(folder / f"{shard:05d}.tar", "w") as archive:
      for number in range(shard * in_shard, min((shard + 1) * in_shard, count)):
        if number % 10 == 9:
          continue
        key = f"{shard:05d}{number % in_shard:0{digits}d}"
        about = {"url": _url(split, number), "key": key, "status": "success", "error_message": None}
        for name, data in ((f"{key}.jpg", photographs(number)), (f"{key}.json", json.dumps(about).encode())):
          info = tarfile.TarInfo(name)
          info.size = len(data)
          archive.addfile(info, io.BytesIO(data))
        archive.members = []  # tarfile would remember every entry


def _say(line: str) -> None:
  print(line, file=sys.stderr, flush=True)


def main():
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument("out")
  parser.add_argument("--corpus", default="coco35l", choices=("coco35l", "cc3m35l"))
  parser.add_argument("--captions", type=int, default=200_000)
  parser.add_argument("--order", default="image", choices=("image", "language"))
  parser.add_argument("--pictures", choices=("folder", "zip", "webdataset", "none"))
  parser.add_argument("--width", type=int, default=640)
  parser.add_argument("--height", type=int, default=480)
  parser.add_argument("--distinct", type=int, default=64)
  parser.add_argument("--plain", action="store_true", help="lines without compression")
  parser.add_argument("--seed", type=int, default=0)
  arguments = parser.parse_args()
  write, usual = {"coco35l": (write_coco35l, "zip"), "cc3m35l": (write_cc3m35l, "webdataset")}[
    arguments.corpus
  ]
  pictures = arguments.pictures or usual
  photographs = None
  if pictures != "none":
    photographs = Photographs(arguments.width, arguments.height, arguments.distinct, arguments.seed)
  began = time.perf_counter()
  folder = write(
    arguments.out,
    arguments.captions,
    order=arguments.order,
    pictures=pictures,
    photographs=photographs,
    compress=not arguments.plain,
    seed=arguments.seed,
  )
  size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
  memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
  seconds = time.perf_counter() - began
  print(
    f"{folder}: {arguments.captions:,} captions, {arguments.captions * len(TARGETS):,} lines, {size / 1e6:,.0f} MB"
  )
  print(f"{seconds:.0f} s; peak memory {memory:,.0f} MB")


if __name__ == "__main__":
  main()
