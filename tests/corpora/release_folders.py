"""Small releases in exactly the published formats, with any fault in them, and what a builder must make of them.

Each `write_*` writes one and returns a `Release`: where its parts lie, the records expected of it, and how many
problems of each kind (xmcap.corpora.building.problems.KINDS) a builder must count. Faults are put into the training
split (XM3600: into its only one) by name: `PICTURE_FAULTS`, `ARCHIVE_FAULTS`, `LINE_FAULTS`.
"""

import collections
import dataclasses
import io
import json
import pathlib
import random
import zipfile
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from PIL import Image

from tests.corpora import release_archives, release_lines, release_pictures
from tests.corpora.release_archives import ARCHIVE_FAULTS
from tests.corpora.release_lines import LINE_FAULTS, TRANSLATED, XM3600_FAULTS
from tests.corpora.release_pictures import DEAD_URLS, PICTURE_FAULTS, Pictures
from xmcap import languages
from xmcap.data import images as decoding
from xmcap.data import records
from xmcap.data.records import Caption


@dataclasses.dataclass
class Expected:
  """A record that a builder must make: the published bytes (of `converted` ones, the first frame's pixels)."""

  image: bytes
  captions: list[Caption]
  locale: str = ""
  converted: bool = False


@dataclasses.dataclass
class Release:
  """A release on disk.

  Attributes:
    folder: holds all of it.
    paths: part -> file or folder; the names are those of the `write_*` function's docstring.
    expected: split -> key -> record, in the order of the records.
    problems: kind -> count; kinds that do not occur are absent.
  """

  folder: pathlib.Path
  paths: dict[str, pathlib.Path]
  expected: dict[str, dict[str, Expected]]
  problems: dict[str, int]

  def differences(self, built: pathlib.Path) -> list[str]:
    """What of a built corpus is not as expected, one line each; [] if it is exactly right."""
    found = [f"split {split} is missing" for split in set(self.expected) - set(records.splits(built))]
    for split, expected in self.expected.items():
      if found:
        break
      got = {record.key: record for record in records.RecordSource(built, split)}
      if list(got) != list(expected):
        found.append(f"{split}: keys {list(got)[:40]}, expected {list(expected)[:40]}")
      for key in got.keys() & expected.keys():
        found.extend(f"{split}, {key}: {what}" for what in _differences(got[key], expected[key]))
    return found


def _differences(record: records.Record, expected: Expected) -> Iterable[str]:
  if expected.converted:
    first = np.asarray(Image.open(io.BytesIO(expected.image)).convert("RGB"))
    if not record.image.startswith(b"\x89PNG") or not np.array_equal(
      decoding.decode(record.image, ""), first
    ):
      yield "the picture is not the first frame as PNG"
  elif record.image != expected.image:
    yield "the picture's bytes are not the published ones"
  if record.locale != expected.locale:
    yield f"locale {record.locale!r}, expected {expected.locale!r}"
  if record.captions != expected.captions:
    pairs = zip(record.captions, expected.captions, strict=False)
    first = next((f": {got}, expected {want}" for got, want in pairs if got != want), "")
    yield f"{len(record.captions)} captions, expected {len(expected.captions)}{first}"


def _check_faults(faults: Sequence[str], known: Iterable[str]) -> None:
  unknown = sorted(set(faults) - set(known))
  if unknown or len(set(faults)) < len(faults):
    raise ValueError(f"faults {unknown or list(faults)}: unknown here, or named twice")


def _expected(
  pictures: Pictures, keys: Sequence[str], captions: Mapping[int, list[Caption]]
) -> dict[str, Expected]:
  return {
    key: Expected(pictures.published[place], captions[place], converted=pictures.converted[place])
    for place, key in enumerate(keys)
    if pictures.kept[place] and place in captions
  }


def _counts(*counters: Mapping[str, int]) -> dict[str, int]:
  total: collections.Counter = collections.Counter()
  for counter in counters:
    total.update(counter)
  return {kind: count for kind, count in total.items() if count}


def write_coco35l(
  folder: pathlib.Path,
  *,
  images: int = 12,
  dev: int = 4,
  languages: Sequence[str] = TRANSLATED,
  captions: int = 5,
  layout: str = "folder",
  order: str = "image",
  compress: bool = True,
  faults: Sequence[str] = (),
  seed: int = 0,
) -> Release:
  """Writes COCO-35L: `coco_mt_train.jsonl.bz2`, `coco_mt_dev.jsonl.bz2`, `dataset_coco.json`, train2014, val2014.

  Every fourth image of the training split is of Karpathy's restval, and lies in val2014; two images are of his test
  split, and are not used. Paths: train_captions, dev_captions, karpathy, train_images, val_images.

  Args:
    folder: made if it is absent.
    images, dev: of the splits.
    languages: target languages of the lines.
    captions: of an image.
    layout: "folder": train2014/, val2014/; "zip": train2014.zip, val2014.zip.
    order: of the lines: "image", "language" or "shuffled".
    compress: .jsonl.bz2, or else .jsonl.
    faults: PICTURE_FAULTS, LINE_FAULTS and, in zip files, ARCHIVE_FAULTS.
    seed: of orders and of places of faults.
  """
  _check_faults(faults, (*PICTURE_FAULTS, *LINE_FAULTS, *(ARCHIVE_FAULTS if layout == "zip" else ())))
  folder = pathlib.Path(folder)
  folder.mkdir(parents=True, exist_ok=True)
  rng = random.Random(seed)
  listed = [
    *(("restval" if index % 4 == 3 else "train", index) for index in range(images)),
    *(("val", images + index) for index in range(dev)),
    *(("test", images + dev + index) for index in range(2)),
  ]
  rng.shuffle(listed)
  end, suffix = ".jsonl.bz2" if compress else ".jsonl", ".zip" if layout == "zip" else ""
  paths = {
    "train_captions": folder / f"coco_mt_train{end}",
    "dev_captions": folder / f"coco_mt_dev{end}",
    "karpathy": folder / "dataset_coco.json",
    "train_images": folder / f"train2014{suffix}",
    "val_images": folder / f"val2014{suffix}",
  }
  archives: dict[str, dict[str, bytes]] = {"train2014": {}, "val2014": {}}
  expected, problems = {}, []
  for split, names in {"train": ("train", "restval"), "validation": ("val",), "unused": ("test",)}.items():
    members = [(name, index) for name, index in listed if name in names]
    spoiled = faults if split == "train" else ()
    pictures = release_pictures.pictures([index for _, index in members], spoiled)
    ids = [_cocoid(index) for _, index in members]
    for (name, index), data in zip(members, pictures.published, strict=True):
      if data is not None:
        archives[_filepath(name)][f"{_filepath(name)}/{_filename(name, index)}"] = data
    if split == "unused":
      continue
    lines = release_lines.lines(
      [
        release_lines.Entry(place, number, {"image_id": f"{ids[place]}_{number}"}, members[place][1])
        for place in range(len(members))
        if place not in pictures.without_captions
        for number in range(1, captions + 1)
      ],
      languages,
      order,
      spoiled,
      usable=[place for place, kept in enumerate(pictures.kept) if kept],
      unknown={"image_id": f"{_cocoid(10**6)}_1"},
      rng=rng,
    )
    lines.write(paths["train_captions" if split == "train" else "dev_captions"])
    expected[split] = _expected(pictures, [f"{number:012d}" for number in ids], lines.captions)
    problems += [pictures.problems, lines.problems]
  karpathy = [_karpathy(split, index, captions) for split, index in listed]
  paths["karpathy"].write_text(json.dumps({"images": karpathy, "dataset": "coco"}))
  for name, files in archives.items():
    if layout == "zip":
      archive_faults = [fault for fault in faults if fault in ARCHIVE_FAULTS] if name == "train2014" else []
      problems.append(release_archives.write_zip(folder / f"{name}.zip", files, archive_faults))
    else:
      (folder / name).mkdir(exist_ok=True)
      release_archives.write_files(folder, files)
  return Release(folder, paths, expected, _counts(*problems))


def _cocoid(index: int) -> int:
  return 9 + 131 * index


def _filepath(split: str) -> str:
  return "train2014" if split == "train" else "val2014"


def _filename(split: str, index: int) -> str:
  return f"COCO_{_filepath(split)}_{_cocoid(index):012d}.jpg"


def _karpathy(split: str, index: int, captions: int) -> dict:
  sentids = [index * captions + number for number in range(captions)]
  raw = [release_lines.english(index, number + 1) for number in range(captions)]
  return {
    "filepath": _filepath(split),
    "sentids": sentids,
    "filename": _filename(split, index),
    "imgid": index,
    "split": split,
    "sentences": [
      {"tokens": text.rstrip(" .").split(), "raw": text, "imgid": index, "sentid": sentid}
      for text, sentid in zip(raw, sentids, strict=True)
    ],
    "cocoid": _cocoid(index),
  }


def write_cc3m35l(
  folder: pathlib.Path,
  *,
  images: int = 12,
  dev: int = 4,
  languages: Sequence[str] = TRANSLATED,
  layout: str = "webdataset",
  order: str = "image",
  compress: bool = True,
  faults: Sequence[str] = (),
  seed: int = 0,
  in_shard: int = 100,
) -> Release:
  """Writes CC3M-35L: `cc3m_mt_train.jsonl.bz2`, `cc3m_mt_dev.jsonl.bz2`, the published TSVs, and the pictures.

  Pictures lie as img2dataset leaves them, a folder a split: "webdataset": 00000.tar, ...; "files": 00000/*.jpg, ...;
  each with .json and .txt; or ("keymap") in a folder under names of their own, beside `train_keys.tsv` and
  `dev_keys.tsv` (rec_num, file). Paths: train_captions, dev_captions, train_tsv, dev_tsv, train_images, dev_images and
  for keymap train_keys, dev_keys. Training lines have `rec_num` as a number, dev lines as text.

  Args: as of `write_coco35l`; `faults` takes DEAD_URLS too, ARCHIVE_FAULTS with webdataset only;
    in_shard: pictures in a shard of img2dataset.
  """
  known = (*PICTURE_FAULTS, *DEAD_URLS, *LINE_FAULTS, *(ARCHIVE_FAULTS if layout == "webdataset" else ()))
  _check_faults(faults, known)
  folder = pathlib.Path(folder)
  folder.mkdir(parents=True, exist_ok=True)
  rng = random.Random(seed)
  expected, problems = {}, []
  end = ".jsonl.bz2" if compress else ".jsonl"
  paths: dict[str, pathlib.Path] = {}
  for split, short, count, start in (("train", "train", images, 0), ("validation", "dev", dev, images)):
    spoiled = faults if short == "train" else ()
    indices = range(start, start + count)
    pictures = release_pictures.pictures(indices, spoiled)
    urls = [f"http://example.com/{short}/{index}.jpg?size=large&n={index * 7}" for index in indices]
    tsv = {
      "train": "Train_GCC-training.tsv",
      "dev": "Validation_GCC-1.1.0-Validation.tsv",
    }[short]
    text = "".join(f"{release_lines.english(i, 1)}\t{url}\n" for i, url in zip(indices, urls, strict=True))
    (folder / tsv).write_text(text, encoding="utf-8")
    number = int if short == "train" else str
    lines = release_lines.lines(
      [
        release_lines.Entry(place, 1, {"rec_num": number(place + 1)}, indices[place])
        for place in range(count)
        if place not in pictures.without_captions
      ],
      languages,
      order,
      spoiled,
      usable=[place for place, kept in enumerate(pictures.kept) if kept],
      unknown={"rec_num": number(count + 5)},
      rng=rng,
      hide_digits=True,
    )
    paths |= {
      f"{short}_captions": folder / f"cc3m_mt_{short}{end}",
      f"{short}_tsv": folder / tsv,
      f"{short}_images": folder / f"{short}_images",
    }
    lines.write(paths[f"{short}_captions"])
    expected[split] = _expected(pictures, [f"{place + 1:08d}" for place in range(count)], lines.captions)
    problems += [pictures.problems, lines.problems]
    if layout == "keymap":
      names = [f"{index:x}_{release_lines.english(index, 1).split()[1]}.jpg" for index in indices]
      here = {name: data for name, data in zip(names, pictures.published, strict=True) if data is not None}
      release_archives.write_files(paths[f"{short}_images"], here)
      paths[f"{short}_keys"] = folder / f"{short}_keys.tsv"
      rows = [f"{place + 1}\t{name}\n" for place, name in enumerate(names)]
      paths[f"{short}_keys"].write_text("".join(rows))
    else:
      found = release_archives.write_img2dataset(
        paths[f"{short}_images"], layout, pictures, indices, urls, in_shard, spoiled
      )
      problems.append(found)
  return Release(folder, paths, expected, _counts(*problems))


def write_xm3600(
  folder: pathlib.Path,
  *,
  images: int = 12,
  layout: str = "tgz",
  captions: str = "zip",
  faults: Sequence[str] = (),
  seed: int = 0,
) -> Release:
  """Writes XM3600: `captions.zip` (holds captions.jsonl) or `captions.jsonl`, and `images.tgz` or the folder `images`.

  Pictures have one to three captions in each of the 36 languages. Paths: captions, images.

  Args:
    folder: made if it is absent.
    images: how many.
    layout: of the pictures: "tgz", or "folder".
    captions: "zip", or "jsonl".
    faults: PICTURE_FAULTS, ARCHIVE_FAULTS (tgz only), and of LINE_FAULTS those of XM3600_FAULTS.
    seed: of the places of faults.
  """
  known = (*PICTURE_FAULTS, *XM3600_FAULTS, *(ARCHIVE_FAULTS if layout == "tgz" else ()))
  _check_faults(faults, known)
  folder = pathlib.Path(folder)
  folder.mkdir(parents=True, exist_ok=True)
  pictures = release_pictures.pictures(range(images), faults)
  keys = [f"{(index + 1) * 0x9E3779B97F4A7C15 % 2**64:016x}" for index in range(images)]
  codes = tuple(languages.LANGUAGES)
  locales = [codes[index % len(codes)] for index in range(images)]
  lines = release_lines.xm3600_lines(
    keys,
    locales,
    faults,
    usable=[place for place, kept in enumerate(pictures.kept) if kept],
    silent=pictures.without_captions,
    rng=random.Random(seed),
  )
  if captions == "zip":
    with zipfile.ZipFile(folder / "captions.zip", "w", zipfile.ZIP_DEFLATED) as archive:
      archive.writestr("captions.jsonl", b"".join(lines.raw))
  else:
    (folder / "captions.jsonl").write_bytes(b"".join(lines.raw))
  files = {f"{key}.jpg": data for key, data in zip(keys, pictures.published, strict=True) if data is not None}
  problems: dict[str, int] = {}
  if layout == "tgz":
    problems = release_archives.write_tar(folder / "images.tgz", files, faults, "w:gz")
  else:
    release_archives.write_files(folder / "images", files)
  expected = _expected(pictures, keys, lines.captions)
  for key, locale in zip(keys, locales, strict=True):
    if key in expected:
      expected[key].locale = locale
  paths = {
    "captions": folder / f"captions.{captions}",
    "images": folder / ("images.tgz" if layout == "tgz" else "images"),
  }
  return Release(folder, paths, {"test": expected}, _counts(pictures.problems, lines.problems, problems))
