"""Untrusted Parquet and Arrow files: damaged, or small on disk and huge in memory."""

import io
import struct
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.make import files
from tests.make.refusals import refusal
from xmcap.errors import UsageError
from xmcap.reading import arrow_files

_TEXTS = ["A cat on a mat.", "Two dogs play.", "Un gato.", "猫がいる。"]
_TABLE = pa.table(
  {
    "image": [{"bytes": b"\xff\xd8\xff" + bytes(50), "path": f"{place}.jpg"} for place in range(4)],
    "caption": _TEXTS,
    "language": pa.array(["en", "en", "es", "ja"]).dictionary_encode(),
    "tags": [["cat"], [], None, ["cat", "mat"]],
  }
)


def _arrow(table, compression=None, file_format=False):
  held = io.BytesIO()
  options = pa.ipc.IpcWriteOptions(compression=compression)
  make = pa.ipc.new_file if file_format else pa.ipc.new_stream
  with make(held, table.schema, options=options) as writer:
    writer.write_table(table)
  return held.getvalue()


def _parquet(table, **options):
  held = io.BytesIO()
  pq.write_table(table, held, **options)
  return held.getvalue()


def _read(tmp_path, data, **options):
  return [row for _, row in arrow_files.rows(files.text(tmp_path / "data", data), **options)]


_FORMS = {
  "stream": _arrow(_TABLE),
  "file": _arrow(_TABLE, file_format=True),
  "zstd": _arrow(_TABLE, "zstd"),
  "lz4 file": _arrow(_TABLE, "lz4", file_format=True),
  "parquet": _parquet(_TABLE),
  "row groups": _parquet(_TABLE, row_group_size=3),
}


@pytest.mark.parametrize("form", _FORMS)
def test_arrow_and_parquet_rows_equal_pyarrow(tmp_path, form):
  assert _read(tmp_path, _FORMS[form]) == _TABLE.to_pylist()
  some = _TABLE.select(["caption", "language"]).to_pylist()
  assert _read(tmp_path, _FORMS[form], but=("image", "tags")) == some


@pytest.mark.parametrize("offsets", [(0, 15, 1 << 30), (0, -5, 29), (29, 15, 0)])
def test_arrow_offsets_outside_the_buffer_are_refused(tmp_path, offsets):
  data = _FORMS["stream"]
  true = struct.pack("<iii", 0, 15, 29)
  assert data.count(true) == 1
  with pytest.raises(UsageError, match="data: cannot be read .*ffset"):
    _read(tmp_path, data.replace(true, struct.pack("<iii", *offsets)))


def test_arrow_dictionary_indices_out_of_range_are_refused(tmp_path):
  captions = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0, 1, 1], pa.int32()), ["a", "b"])
  data = _arrow(pa.table({"caption": captions}))
  true = struct.pack("<5i", 0, 1, 0, 1, 1)
  assert data.count(true) == 1
  damaged = data.replace(true, struct.pack("<5i", 0, 1 << 27, 0, 1, 1))
  assert "out of bounds" in refusal(_read, tmp_path, damaged)


@pytest.fixture
def small_limits(monkeypatch):
  for name, limit in (
    ("_AT_ONCE", 1 << 16),
    ("MAX_TEXT", 1 << 14),
    ("MAX_ROW", 1 << 17),
    ("MAX_BATCH", 1 << 20),
  ):
    monkeypatch.setattr(arrow_files, name, limit)


def _repeated(value, count):
  return pa.DictionaryArray.from_arrays(pa.array([0] * count, pa.int32()), pa.array([value]))


@pytest.mark.parametrize("make", [_parquet, _arrow])
@pytest.mark.usefixtures("small_limits")
def test_arrow_batches_of_large_rows_are_small(tmp_path, make, monkeypatch):
  sizes = []
  small = arrow_files._small
  monkeypatch.setattr(
    arrow_files, "_small", lambda batch: (sizes.append(part.nbytes) or part for part in small(batch))
  )
  table = pa.table({"image": _repeated(b"\0" * 20_000, 500), "caption": ["a cat"] * 500})
  assert len(_read(tmp_path, make(table))) == 500
  assert max(sizes) < 3 << 16  # all rows at once would take 10 MB


@pytest.mark.parametrize(
  ("table", "make", "why"),
  [
    ({"caption": _repeated("x" * 40_000, 9)}, _parquet, "row 0: column 'caption' has a text of 0 MB"),
    ({"caption": _repeated("x" * 40_000, 9)}, _arrow, "row 0: column 'caption' has a text of 0 MB"),
    ({"image": [b"\0" * 300_000]}, lambda table: _parquet(table, compression="none"), "row 0: has 0 MB"),
    ({"image": [b"\0" * 30_000_000]}, lambda table: _parquet(table, compression="zstd"), "row group would be 28 MB"),
    ({"image": [b"\0" * 30_000] * 50}, lambda table: _arrow(table, "zstd"), "a compressed batch would be 1 MB"),
    ({"caption": pa.nulls(50_000)}, _arrow, "50,000 rows in 0 bytes"),
  ],
  ids=["text, parquet", "text, arrow", "row", "row group", "compressed batch", "rows of nothing"],
)  # fmt: skip
@pytest.mark.usefixtures("small_limits")
def test_arrow_tables_over_a_limit_are_refused(tmp_path, table, make, why):
  with pytest.raises(UsageError, match=why):
    _read(tmp_path, make(pa.table(table)))


def test_arrow_rows_have_a_total_size_limit(tmp_path):
  data = _parquet(pa.table({"caption": [str(place) * 300 for place in range(30_000)]}))
  assert ": over 1 MB up to here" in refusal(_read, tmp_path, data, most=1 << 20)


def test_arrow_duplicate_column_names_are_refused(tmp_path):
  table = pa.Table.from_arrays([pa.array(["a"]), pa.array(["b"])], names=["caption", "caption"])
  assert "2 columns, of which 1" in refusal(_read, tmp_path, _arrow(table))


# A process of its own, which may crash: the last form that it printed is the one that ended it.
_FLIPS = """
import pathlib, random, sys
from xmcap.errors import UsageError
from xmcap.reading import arrow_files
path = pathlib.Path(sys.argv[1] + ".damaged")
for form in sys.argv[3:]:
  print(form, end=" ", flush=True)
  data = pathlib.Path(sys.argv[1], form).read_bytes()
  refused = 0
  for seed in range(int(sys.argv[2])):
    random.seed(seed)
    damaged = bytearray(data)
    for _ in range(random.choice((1, 1, 2, 8))):
      place = random.randrange(len(damaged))
      width = random.choice((1, 4, 8))
      value = random.choice((0, 1, 255, 1 << 31, (1 << 31) - 1, (1 << 63) - 1, random.getrandbits(64)))
      damaged[place : place + width] = (value & ((1 << 8 * width) - 1)).to_bytes(width, "little")
    path.write_bytes(damaged)
    try:
      for _ in arrow_files.rows(path):
        pass
    except UsageError:
      refused += 1
  print(refused)
"""


@pytest.mark.parametrize("count", [60, pytest.param(1_000, marks=pytest.mark.full)])
def test_damaged_arrow_files_do_not_crash_the_process(tmp_path, count):
  for form, data in _FORMS.items():
    files.text(tmp_path / "forms" / form.replace(" ", "_"), data)
  command = [sys.executable, "-c", _FLIPS, tmp_path / "forms", f"{count}"]
  names = sorted(path.name for path in (tmp_path / "forms").iterdir())
  done = subprocess.run([*command, *names], capture_output=True, text=True, check=False)
  assert done.returncode == 0, (done.stdout, done.stderr[-2000:])
  refused = [int(line.split()[1]) for line in done.stdout.splitlines()]
  assert len(refused) == len(_FORMS) and min(refused) > count // 10


def test_parquet_schema_against_statistics_does_not_crash(tmp_path):
  """pyarrow 26.0.1 aborts when it is asked for the column."""
  path = tmp_path / "data"
  optional = b"\x35\x02\x18\x05image"  # a field of the footer's schema: repetition 1, name
  assert _FORMS["parquet"].count(optional) == 1
  path.write_bytes(_FORMS["parquet"].replace(optional, b"\x35\x00\x18\x05image"))
  script = "import sys; from xmcap.reading import arrow_files; list(arrow_files.rows(sys.argv[1]))"
  done = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True)
  assert done.returncode == 1 and "DamagedError: " in done.stderr and "histogram size mismatch" in done.stderr
