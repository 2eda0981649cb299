"""How the time of `xmcap data build folder` grows with the samples, for each kind of input that it reads.

usage: python benchmarks/growth.py [--samples=1000,4000,16000,100000] [--kinds=jsonl,webdataset]

Pictures are 8 x 8 pixels, so that what is measured is the work beside them: rows, names, look-ups, records. A figure is
the CPU time (user and system, of all processes) of a build for each sample, relative to that of the build with the
fewest samples: 1.0 is growth in proportion. The time of a build with 8 samples, mostly imports, is taken off first.
"""

import argparse
import csv
import io
import json
import pathlib
import resource
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator

import report
from PIL import Image

_FEW = 8  # samples of a build that is nearly all start-up


def _pictures(count: int) -> Iterator[tuple[str, bytes, str]]:
  """Yields name, JPEG and caption; no two pictures are the same."""
  for number in range(count):
    data = io.BytesIO()
    Image.new("RGB", (8, 8), (number & 255, number >> 8 & 255, number >> 16)).save(data, "JPEG")
    yield f"{number:09d}", data.getvalue() + number.to_bytes(4, "little"), f"a red ball {number}"


def _folder(place: pathlib.Path, count: int) -> list[dict[str, str]]:
  """Writes pictures into `images`; returns the rows."""
  (place / "images").mkdir(parents=True)
  rows = []
  for name, data, caption in _pictures(count):
    (place / "images" / f"{name}.jpg").write_bytes(data)
    rows.append({"image": f"{name}.jpg", "caption": caption})
  return rows


def _write_jsonl(path: pathlib.Path, rows: list[dict[str, str]]) -> None:
  path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def _jsonl(place: pathlib.Path, count: int) -> None:
  _write_jsonl(place / "captions.jsonl", _folder(place, count))


def _csv(place: pathlib.Path, count: int) -> None:
  rows = _folder(place, count)
  with open(place / "captions.csv", "w", encoding="utf-8", newline="") as file:
    writer = csv.DictWriter(file, ["image", "caption"])
    writer.writeheader()
    writer.writerows(rows)


def _coco(place: pathlib.Path, count: int) -> None:
  rows = list(enumerate(_folder(place, count)))
  images = [{"id": number, "file_name": row["image"]} for number, row in rows]
  annotations = [{"id": number, "image_id": number, "caption": row["caption"]} for number, row in rows]
  (place / "captions.json").write_text(json.dumps({"images": images, "annotations": annotations}))


def _beside(place: pathlib.Path, count: int) -> None:
  for row in _folder(place, count):
    (place / "images" / row["image"]).with_suffix(".txt").write_text(row["caption"])


def _metadata(place: pathlib.Path, count: int) -> None:
  """The `imagefolder` of Hugging Face."""
  rows = _folder(place, count)
  named = [{"file_name": row["image"], "text": row["caption"]} for row in rows]
  _write_jsonl(place / "images" / "metadata.jsonl", named)


def _zip(place: pathlib.Path, count: int) -> None:
  rows = []
  with zipfile.ZipFile(place / "images.zip", "w") as archive:
    for name, data, caption in _pictures(count):
      archive.writestr(f"images/{name}.jpg", data)
      rows.append({"image": f"{name}.jpg", "caption": caption})
  _write_jsonl(place / "captions.jsonl", rows)


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
  entry = tarfile.TarInfo(name)
  entry.size = len(data)
  archive.addfile(entry, io.BytesIO(data))


def _tar(place: pathlib.Path, count: int) -> None:
  rows = []
  with tarfile.open(place / "images.tar", "w") as archive:
    for name, data, caption in _pictures(count):
      _add(archive, f"{name}.jpg", data)
      rows.append({"image": f"{name}.jpg", "caption": caption})
  _write_jsonl(place / "captions.jsonl", rows)


def _webdataset(place: pathlib.Path, count: int, shards: int = 1) -> None:
  for shard in range(shards):
    with tarfile.open(place / f"train-{shard:05d}.tar", "w") as archive:
      for name, data, caption in list(_pictures(count))[shard::shards]:
        _add(archive, f"{name}.jpg", data)
        _add(archive, f"{name}.txt", caption.encode())


def _shards(place: pathlib.Path, count: int) -> None:
  _webdataset(place, count, 8)


def _table(count: int):
  import pyarrow as pa

  rows = list(_pictures(count))
  pictures = [{"bytes": data, "path": f"{name}.jpg"} for name, data, _ in rows]
  return pa.table({"image": pictures, "caption": [caption for _, _, caption in rows]})


def _parquet(place: pathlib.Path, count: int) -> None:
  import pyarrow.parquet as pq

  pq.write_table(_table(count), place / "train.parquet", row_group_size=1000)


def _arrow(place: pathlib.Path, count: int) -> None:
  import pyarrow as pa

  table = _table(count)
  with pa.ipc.new_stream(place / "data-00000-of-00001.arrow", table.schema) as writer:
    writer.write_table(table, max_chunksize=1000)


KINDS: dict[str, tuple[str, Callable[[pathlib.Path, int], None], str, str]] = {
  "jsonl": ("JSONL and a folder", _jsonl, "captions.jsonl", "images"),
  "csv": ("CSV and a folder", _csv, "captions.csv", "images"),
  "coco": ("COCO's JSON and a folder", _coco, "captions.json", "images"),
  "beside": ("texts beside pictures", _beside, "images", ""),
  "metadata": ("Hugging Face imagefolder", _metadata, "images", ""),
  "zip": ("JSONL and a zip", _zip, "captions.jsonl", "images.zip"),
  "tar": ("JSONL and a tar", _tar, "captions.jsonl", "images.tar"),
  "webdataset": ("WebDataset, one tar", _webdataset, "", ""),
  "shards": ("WebDataset, eight tars", _shards, "", ""),
  "parquet": ("Parquet", _parquet, "", ""),
  "arrow": ("Arrow", _arrow, "", ""),
}
"""Name -> what it is called, what writes it, the file of the captions, and the pictures."""


def seconds(kind: str, count: int, folder: pathlib.Path) -> float:
  """Returns the CPU time of a build of so many samples."""
  _, write, captions, images = KINDS[kind]
  place = folder / f"{kind}-{count}"
  out = folder / f"{kind}-{count}-built"
  place.mkdir(parents=True)
  write(place, count)
  given = [f"--images={place / images}"] if images else []
  command = [
    *(sys.executable, "-m", "xmcap.cli", "data", "build", "folder", f"--captions={place / captions}", *given),
    *(f"--out={out}", "--language=en", "--splits=train:1", "--processes=1"),
  ]
  before = resource.getrusage(resource.RUSAGE_CHILDREN)
  subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
  after = resource.getrusage(resource.RUSAGE_CHILDREN)
  shutil.rmtree(place)
  shutil.rmtree(out)
  return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
  parser = argparse.ArgumentParser()
  parser.add_argument("--samples", default="1000,4000,16000,100000")
  parser.add_argument("--kinds", default=",".join(KINDS))
  options = parser.parse_args()
  counts, kinds = sorted(map(int, options.samples.split(","))), options.kinds.split(",")
  rows = []
  with tempfile.TemporaryDirectory() as folder:
    for kind in kinds:
      begun = seconds(kind, _FEW, pathlib.Path(folder))
      each = [(seconds(kind, count, pathlib.Path(folder)) - begun) / (count - _FEW) for count in counts]
      rows.append((KINDS[kind][0], f"{1000 * each[0]:.2f} ms", *(f"{every / each[0]:.2f}" for every in each)))
      print(*rows[-1], sep="  ", flush=True)
  report.write(
    "growth",
    "How builds grow with the samples",
    rows,
    ("input", f"a sample, of {counts[0]:,}", *(f"{count:,}" for count in counts)),
    notes=[
      f"CPU time a sample, relative to that with {counts[0]:,} samples: 1 is growth in proportion.",
      "The time to start is taken off.",
    ],
  )


if __name__ == "__main__":
  main()
