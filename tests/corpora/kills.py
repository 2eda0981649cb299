"""Kills builds of corpora wherever they touch a file, and looks at what is left.

Each build is a fork of this process, which has imported all that it needs. SIGKILL comes where an audit hook sees that
a file is made, renamed or removed, at statements of SQLite, and between the halves of what is written.
"""

import functools
import json
import os
import pathlib
import signal
import sqlite3
import sys
import traceback
from collections.abc import Callable

import pyarrow as pa
import pyarrow.parquet as pq
from array_record.python.array_record_module import ArrayRecordWriter

from tests.corpora import release_folders as releases
from tests.corpora.building import builds
from tests.make import images
from tests.make.files import tarred
from xmcap import cli, languages
from xmcap.corpora.folder import own  # noqa: F401
from xmcap.data import length_index  # noqa: F401  # the command would import it in every fork
from xmcap.files import files, outputs

_NAMED = languages.get("pt-BR").english_name

LETTERS = ("kite", "boat", "tree", "lamp", "door", "bird", "fish", "moon")
NAMES = ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "shutil.rmtree")
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
STATEMENTS = 5  # of SQLite between two that count, for there are many

Build = Callable[[pathlib.Path], object]


def _own(*arguments: str) -> Build:
  def build(out):
    code = cli.main(["data", "build", "folder", *arguments, f"--out={out}", "--processes=1"])
    assert code == 0, code

  return build


def _jpeg(number: int) -> bytes:
  return images.plain(20 * number, (24, 16), "JPEG")


def table(folder: pathlib.Path) -> Build:
  (folder / "images").mkdir(parents=True)
  lines = ["file,en,pt-BR"]
  for number, word in enumerate(LETTERS):
    (folder / f"images/{number}.jpg").write_bytes(_jpeg(number))
    lines.append(f"{number}.jpg,a {word} and {LETTERS[number - 1]} near the {LETTERS[number - 2]},um {word}")
  (folder / "captions.csv").write_text("\n".join([*lines, "none.jpg,a picture that is absent,x"]))
  return _own(f"--captions={folder}/captions.csv", "--vocabulary=train:400", "--splits=train:0.7,test:0.3")


def tar(folder: pathlib.Path) -> Build:
  folder.mkdir(parents=True)
  for split, first in (("train", 0), ("test", 2)):  # two pictures are in both
    entries = [
      entry
      for number, word in enumerate(LETTERS[:4], first)
      for entry in ((f"{number}.jpg", _jpeg(number)), (f"{number}.txt", f"a {word}".encode()))
    ]
    tarred(folder / f"{split}-00000.tar", *entries)
  return _own(f"--captions={folder}", "--language=en", "--splits=folder")


def parquet(folder: pathlib.Path) -> Build:
  folder.mkdir(parents=True)
  for split, first in (("train", 0), ("test", 2)):
    rows = [
      {"image": {"bytes": _jpeg(number), "path": f"{number}.jpg"}, "en": f"a {word}"}
      for number, word in enumerate(LETTERS[:4], first)
    ]
    pq.write_table(pa.Table.from_pylist(rows), folder / f"{split}-00000-of-00001.parquet")
  return _own(f"--captions={folder}", "--splits=folder")


def _released(
  write: Callable[..., releases.Release], build: Callable, folder: pathlib.Path, **options
) -> Build:
  """A build of a release that has every fault, in many small parts."""
  faults = [*releases.PICTURE_FAULTS, *releases.ARCHIVE_FAULTS]
  faults += releases.LINE_FAULTS if "order" in options else releases.XM3600_FAULTS
  release = write(folder, faults=faults, **options)

  def whole(out):
    build(release, out, shard_pictures=9, chunk_bytes=20_000)
    assert release.differences(out) == []

  return whole


_LINES = {"images": 26, "order": "shuffled", "languages": releases.TRANSLATED[:4]}

SOURCES: dict[str, Callable[[pathlib.Path], Build]] = {
  "table": table,
  "tar": tar,
  "parquet": parquet,
  "coco35l": functools.partial(_released, releases.write_coco35l, builds.coco, layout="zip", **_LINES),
  "cc3m35l": functools.partial(_released, releases.write_cc3m35l, builds.cc3m, **_LINES),
  "xm3600": functools.partial(_released, releases.write_xm3600, builds.xm3600, images=40),
}
"""Name -> writes what is built into a folder and returns the build."""


class Kill:
  """Counts what a build does to files in a folder, and ends the process when it comes to a number.

  With `all_touches` what is written into files counts too, else only their names.
  """

  def __init__(self, folder: pathlib.Path, at: int, all_touches: bool):
    self.folder, self.at, self.count, self.statements = str(folder), at, 0, 0
    self.in_place: list[str] = []
    sys.addaudithook(self.audit)
    if not all_touches:
      return
    write, write_record, connect = files._Output.write, ArrayRecordWriter.write, sqlite3.connect

    def in_halves(file, data):
      half = len(data) // 2
      done = write(file, data[:half])
      self.touched()
      return done + write(file, data[half:])

    def one_record(writer, data):
      write_record(writer, data)
      self.touched()

    def traced(*arguments, **options):
      connection = connect(*arguments, **options)
      connection.set_trace_callback(self.statement)
      return connection

    files._Output.write, ArrayRecordWriter.write, sqlite3.connect = in_halves, one_record, traced

  def touched(self) -> None:
    self.count += 1
    if self.count == self.at:
      os.kill(os.getpid(), signal.SIGKILL)

  def statement(self, text: str) -> None:
    self.statements += not text.startswith("SELECT")
    if self.statements % STATEMENTS == 0:
      self.touched()

  def audit(self, event: str, arguments: tuple) -> None:
    writes = event == "open" and isinstance(arguments[2], int) and arguments[2] & WRITES
    if (writes or event in NAMES) and str(arguments[0]).startswith(self.folder):
      if writes and "/." not in str(arguments[0]):
        self.in_place.append(arguments[0])
      if event in NAMES:
        self.touched()


def run(
  build: Build, out: pathlib.Path, at: int = 0, all_touches: bool = False
) -> tuple[int, int, list[str]]:
  """Builds in a fork that is killed at a touch; returns how it ended, and of one that came to its end the touches and
  the files that it wrote under their own names."""
  read, write = os.pipe()
  child = os.fork()
  if not child:
    code = 1
    try:
      with open(f"{out}.log", "w") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
      kill = Kill(out, at, all_touches)
      build(out)
      os.write(write, json.dumps([kill.count, kill.in_place]).encode())
      code = 0
    except BaseException:
      traceback.print_exc()
    finally:
      os._exit(code)
  os.close(write)
  with open(read, "rb") as pipe:
    count, in_place = json.loads(pipe.read() or "[0, []]")
  return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), count, in_place


def half_made(out: pathlib.Path, whole: pathlib.Path) -> list[str]:
  """Files of a killed build that have their names, and not the bytes of an undisturbed one."""
  return [
    str(path)
    for path in out.rglob("*")
    if path.is_file() and ".build" not in path.parts and not path.name.startswith(".")
    and path.read_bytes() != (whole / path.relative_to(out)).read_bytes()
  ]  # fmt: skip


def sweep(name: str, folder: pathlib.Path, all_touches: bool, first: int = 1, step: int = 1) -> None:
  """Kills builds of a source at touches, then lets each come to its end, which must be the undisturbed one's."""
  build, whole = SOURCES[name](folder / name), folder / f"{name}-whole"
  code, touches, in_place = run(build, whole, all_touches=all_touches)
  assert code == 0 and touches > 20 and not in_place, (name, code, touches, in_place)
  for at in range(first, touches + 1, step):
    out = folder / f"{name}-{at}"
    code = run(build, out, at, all_touches)[0]
    assert code == -signal.SIGKILL, (out, code)
    assert not half_made(out, whole), (out, half_made(out, whole))
    code = run(build, out)[0]
    # A lock file that is left locks nothing.
    different = [
      path for path in builds.differing(whole, out) if os.path.basename(path) != outputs.FOLDER_LOCK
    ]
    assert code == 0 and not different, (out, code, different)
  print(name, touches, flush=True)
