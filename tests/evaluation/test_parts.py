"""`parts.make`: work divided among processes, and finished parts that are not made again."""

import numpy as np
import pytest

from xmcap.evaluation import parts


def made(folder, monkeypatch, index, count, number=5):
  """The parts that one process of several makes."""
  monkeypatch.setattr(parts.jax, "process_index", lambda: index)
  monkeypatch.setattr(parts.jax, "process_count", lambda: count)
  barriers, own, lines = [], [], []
  monkeypatch.setattr(parts.hosts, "barrier", barriers.append)

  def make_part(part):
    own.append(part)
    return {"part": np.array(part)}

  parts.make([folder / f"{part}.npz" for part in range(number)], make_part, "parts", lines.append)
  return own, len(barriers)


def test_processes_make_parts_in_turn(tmp_path, monkeypatch):
  assert made(tmp_path, monkeypatch, 1, 2) == ([1, 3], 3)
  assert sorted(path.name for path in tmp_path.iterdir()) == ["1.npz", "3.npz"]
  assert made(tmp_path, monkeypatch, 0, 2) == ([0, 2, 4], 3)
  for part in range(5):
    assert np.load(tmp_path / f"{part}.npz")["part"] == part


def test_a_whole_part_is_not_made_again_by_any_number_of_processes(tmp_path, monkeypatch):
  made(tmp_path, monkeypatch, 1, 2)
  assert made(tmp_path, monkeypatch, 0, 1) == ([0, 2, 4], 5)
  assert made(tmp_path, monkeypatch, 2, 3) == ([], 2)


def test_a_part_that_fails_leaves_no_file(tmp_path, monkeypatch):
  def fail(part):
    raise KeyboardInterrupt

  with pytest.raises(KeyboardInterrupt):
    parts.make([tmp_path / "0.npz"], fail, "parts", lambda line: None)
  assert not list(tmp_path.iterdir())
