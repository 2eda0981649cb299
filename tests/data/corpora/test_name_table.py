"""Names -> numbers on disk."""

import pickle
import random
import tracemalloc

from xmcap.data.corpora import name_table
from xmcap.data.corpora.name_table import Part, RowWriter, Table


def make(folder, parts, first=None):
  listed = []
  for number, (rows, shift) in enumerate(parts):
    with RowWriter(folder / f"part{number}") as writer:
      for space, name, value in rows:
        writer.add(space, name, value)
    listed.append(Part(folder / f"part{number}", shift))
  name_table.build(listed, folder / "table", first)
  return Table(folder / "table")


def test_every_name_is_found_and_no_other(tmp_path, monkeypatch):
  monkeypatch.setattr(name_table, "_PIECE", 700)  # many pieces
  names = [f"näme {n}" for n in range(20_000)]
  random.Random(0).shuffle(names)
  rows = [(1, name, number) for number, name in enumerate(names)]
  table = make(tmp_path, [(rows[:9_000], 0), ([(1, name, n - 9_000) for _, name, n in rows[9_000:]], 9_000)])
  table = pickle.loads(pickle.dumps(table))
  assert [table.find(1, name) for name in names] == [(number, 0) for number in range(20_000)]
  assert table.find(2, names[0]) is None and table.find(1, "absent") is None


def test_names_given_again(tmp_path):
  rows = [(1, "a", 5), (1, "b", 1), (1, "a", 3), (2, "a", 9), (1, "a", 4)]
  assert make(tmp_path, [(rows, 0)]).find(1, "a") == (3, 2)
  asked = []
  table = make(
    tmp_path, [(rows, 10)], lambda space, numbers: asked.append((space, [*numbers])) or int(numbers[-1])
  )
  assert asked == [(1, [13, 14, 15])]
  assert table.find(1, "a") == (15, 2) and table.find(2, "a") == (19, 0) and table.find(1, "b") == (11, 0)


def test_empty_table(tmp_path):
  assert make(tmp_path, [([], 0)]).find(1, "a") is None


def test_names_that_are_no_unicode(tmp_path):
  assert make(tmp_path, [([(1, "\udcff\ud800", 7)], 0)]).find(1, "\udcff\ud800") == (7, 0)


def test_memory_does_not_grow_with_the_names(tmp_path, monkeypatch):
  monkeypatch.setattr(name_table, "_PIECE", 2_000)
  peaks = []
  for count in (10_000, 60_000):
    with RowWriter(tmp_path / "rows") as writer:
      for number in range(count):
        writer.add(1, str(number), number)
    tracemalloc.start()
    name_table.build([Part(tmp_path / "rows", 0)], tmp_path / "table")
    peaks.append(tracemalloc.get_traced_memory()[1])
    tracemalloc.stop()
  assert peaks[1] < 1.5 * peaks[0]
