"""The CPU time of a folder build grows in proportion to its samples, for each kind of input."""

import io
import json
import os
import pathlib
import subprocess
import sys
import tarfile
import zipfile

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

pytestmark = [pytest.mark.slow, pytest.mark.full]

ROOT = pathlib.Path(__file__).parents[3]
START, FEW, MANY = 8, 1_000, 10_000
"""Samples of a build that is nearly all start-up, and of the two that are compared."""
MOST = 2.0
"""Times the CPU seconds of a sample among FEW; from 0.8 to 1.5 were measured."""


def samples(count):
  """Name, JPEG and caption; no two pictures are the same."""
  for number in range(count):
    data = io.BytesIO()
    Image.new("RGB", (8, 8), (number & 255, number >> 8 & 255, number >> 16)).save(data, "JPEG")
    yield f"{number:09d}.jpg", data.getvalue() + number.to_bytes(4, "little"), f"a red ball {number}"


def add(archive, name, data):
  entry = tarfile.TarInfo(name)
  entry.size = len(data)
  archive.addfile(entry, io.BytesIO(data))


def write_pictures(folder, count):
  """Pictures in `images`; returns the rows of a table."""
  (folder / "images").mkdir()
  rows = []
  for name, data, caption in samples(count):
    (folder / "images" / name).write_bytes(data)
    rows.append({"image": name, "caption": caption})
  return rows


def write_jsonl(path, rows):
  path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def jsonl(folder, count):
  write_jsonl(folder / "captions.jsonl", write_pictures(folder, count))
  return folder / "captions.jsonl", folder / "images"


def coco(folder, count):
  rows = list(enumerate(write_pictures(folder, count)))
  pictures = [{"id": number, "file_name": row["image"]} for number, row in rows]
  annotations = [{"id": number, "image_id": number, "caption": row["caption"]} for number, row in rows]
  (folder / "captions.json").write_text(json.dumps({"images": pictures, "annotations": annotations}))
  return folder / "captions.json", folder / "images"


def texts_beside_pictures(folder, count):
  for row in write_pictures(folder, count):
    (folder / "images" / row["image"]).with_suffix(".txt").write_text(row["caption"])
  return (folder / "images",)


def imagefolder(folder, count):
  rows = write_pictures(folder, count)
  metadata = [{"file_name": row["image"], "text": row["caption"]} for row in rows]
  write_jsonl(folder / "images/metadata.jsonl", metadata)
  return (folder / "images",)


def jsonl_and_zip(folder, count):
  rows = []
  with zipfile.ZipFile(folder / "images.zip", "w") as archive:
    for name, data, caption in samples(count):
      archive.writestr(f"images/{name}", data)
      rows.append({"image": name, "caption": caption})
  write_jsonl(folder / "captions.jsonl", rows)
  return folder / "captions.jsonl", folder / "images.zip"


def jsonl_and_tar(folder, count):
  rows = []
  with tarfile.open(folder / "images.tar", "w") as archive:
    for name, data, caption in samples(count):
      add(archive, name, data)
      rows.append({"image": name, "caption": caption})
  write_jsonl(folder / "captions.jsonl", rows)
  return folder / "captions.jsonl", folder / "images.tar"


def webdataset(folder, count):
  with tarfile.open(folder / "train-00000.tar", "w") as archive:
    for name, data, caption in samples(count):
      add(archive, name, data)
      add(archive, name.replace(".jpg", ".txt"), caption.encode())
  return (folder,)


def table(count):
  names, data, captions = zip(*samples(count), strict=True)
  pictures = [{"bytes": picture, "path": name} for name, picture in zip(names, data, strict=True)]
  return pa.table({"image": pictures, "caption": captions})


def parquet(folder, count):
  pq.write_table(table(count), folder / "train.parquet", row_group_size=1000)
  return (folder,)


def arrow(folder, count):
  rows = table(count)
  with pa.ipc.new_stream(folder / "data-00000-of-00001.arrow", rows.schema) as writer:
    writer.write_table(rows, max_chunksize=1000)
  return (folder,)


def cpu_seconds(write, count, folder):
  """Of a build of so many samples, by one process."""
  folder.mkdir()
  options = dict(zip(("--captions", "--images"), write(folder, count), strict=False))
  command = [sys.executable, "-m", "xmcap.cli", "data", "build", "folder", f"--out={folder}-built", "--language=en",
             "--splits=train:1", "--processes=1", *(f"{name}={path}" for name, path in options.items())]  # fmt: skip
  process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
  _, status, used = os.wait4(process.pid, 0)
  process.returncode = os.waitstatus_to_exitcode(status)
  assert process.returncode == 0
  return used.ru_utime + used.ru_stime


@pytest.mark.parametrize(
  "write",
  [jsonl, coco, texts_beside_pictures, imagefolder, jsonl_and_zip, jsonl_and_tar, webdataset, parquet, arrow],
)
def test_folder_build_time_grows_in_proportion_to_samples(tmp_path, write):
  start, few, many = (cpu_seconds(write, count, tmp_path / str(count)) for count in (START, FEW, MANY))
  assert (many - start) / (MANY - START) < MOST * (few - start) / (FEW - START)
