"""Embeddings of .npy and safetensors files in blocks: bit-equal to the whole array, in little memory."""

import pathlib
import tracemalloc

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import save_file

from tests.make.refusals import refusal
from xmcap.ranked import ranks, retrieval, score_matrices, zero_shot
from xmcap.reading import embedding_files, embedding_rows

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(50, 7)).astype(np.float32)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
  """Blocks of three rows, and nothing is kept."""
  monkeypatch.setattr(embedding_rows, "_BLOCK", 21)
  monkeypatch.setattr(embedding_rows, "_HELD", 0)


def whole(array):
  """Unit rows, computed at once as float64."""
  wide = array.astype(np.float32).astype(np.float64, order="C")
  return (wide / np.sqrt((wide * wide).sum(axis=-1, keepdims=True))).astype(np.float32)


@pytest.mark.parametrize("dtype", ["<f4", ">f4", "<f2", ">f2", "<f8", ">f8", ml_dtypes.bfloat16])
@pytest.mark.parametrize("order", ["C", "F"])
def test_npy_embedding_rows_equal_the_whole_array_bitwise(tmp_path, dtype, order):
  array = ROWS.astype(dtype, order=order)
  np.save(tmp_path / "a.npy", array)
  found = embedding_files.read(tmp_path / "a.npy")
  assert (len(found), found.shape) == (50, (50, 7))
  np.testing.assert_array_equal(np.asarray(found), array.astype(np.float32))
  unit = embedding_rows.prepared(found, "cosine", "a")
  assert isinstance(unit, embedding_rows.Stored)
  np.testing.assert_array_equal(unit[:], whole(array))
  chosen = RNG.permutation(50)[:11]
  np.testing.assert_array_equal(unit[chosen], whole(array)[chosen])
  np.testing.assert_array_equal(unit[5:40:4], whole(array)[5:40:4])
  np.testing.assert_array_equal(embedding_rows.taken(unit, chosen)[2:9], whole(array)[chosen[2:9]])


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16, np.float64])
def test_safetensors_embeddings_are_memory_mapped(tmp_path, dtype):
  prompts = np.stack([ROWS, 3 * ROWS + 1]).astype(dtype)
  save_file({"de": np.ones(3, np.int8), "embeddings": prompts}, tmp_path / "a.safetensors")
  found = embedding_files.read(tmp_path / "a.safetensors", (3,))
  np.testing.assert_array_equal(np.asarray(found), prompts.astype(np.float32))
  mean = sum(whole(prompt).astype(np.float64) for prompt in prompts)
  wanted = (mean / np.sqrt((mean * mean).sum(axis=-1, keepdims=True))).astype(np.float32)
  np.testing.assert_array_equal(embedding_rows.prepared(found, "cosine", "a")[:], wanted)


def test_equal_embedding_rows_match_numpy_unique():
  for array in (
    RNG.integers(-1, 2, (200, 3)).astype(np.float32) * np.float32(-0.0 + 1),
    RNG.integers(0, 2, (60, 9)).astype(np.float32),
    np.zeros((5, 4), np.float32),
    np.array([[0.0, 1], [-0.0, 1], [-1, 2], [0, 0.5]], np.float32),
    ROWS,
    ROWS[:1],
  ):
    _, *wanted = np.unique(array, axis=0, return_index=True, return_inverse=True, return_counts=True)
    for one, other in zip(ranks.distinct_rows(array), wanted, strict=True):
      np.testing.assert_array_equal(one, other.reshape(-1))


@pytest.mark.parametrize(
  "array, message",
  [
    (np.full((4, 3), 1e39), "row 0: holds a number above 3.4e38, the largest of float32"),
    (np.array([[1, 2], [1, np.nan]]), "row 1: holds NaN or infinity"),
    (np.array([[1, 2], [-np.inf, 1]], np.float16), "row 1: holds NaN or infinity"),
    (np.array([[1, 2], [0, 0]], np.float32), "row 1: an embedding of length 0"),
  ],
)
def test_cosine_of_zero_or_non_finite_rows_is_refusal(tmp_path, array, message):
  np.save(tmp_path / "a.npy", array)
  found = embedding_files.read(tmp_path / "a.npy")
  assert message in refusal(lambda: embedding_rows.prepared(found, "cosine", "a"))


def test_dot_products_that_overflow_are_refusal():
  """As a matrix of such scores is refused; the cosine of the same embeddings is well defined."""
  queries, names = ROWS * np.float32(1e30), {"en": lambda: ROWS[:5] * np.float32(1e30)}
  labels = {"en": zero_shot.Labels(np.arange(5), tuple("abcde"))}
  says = "query 0: its product with a candidate is above 3.4e38"

  def score(similarity):
    return zero_shot.score_zero_shot(queries, np.arange(50) % 5, labels, names, similarity=similarity)

  assert says in refusal(lambda: score("dot"))
  plain = zero_shot.score_zero_shot(ROWS, np.arange(50) % 5, labels, {"en": lambda: ROWS[:5]})
  assert score("cosine").table.rows == plain.table.rows
  assert says in refusal(lambda: list(score_matrices.similarities(queries, queries, "dot")))
  captions = {"en": retrieval.CaptionRows(np.arange(50), ("a",) * 50)}
  keys = [f"{number}" for number in range(50)]
  assert says in refusal(
    lambda: retrieval.score_retrieval(queries, keys, captions, {"en": lambda: queries}, similarity="dot")
  )


def test_copy_on_write_memmap_changes_are_kept(tmp_path):
  np.save(tmp_path / "a.npy", ROWS)
  array = np.load(tmp_path / "a.npy", mmap_mode="c")
  array[3] = 5
  found = embedding_rows.stored(array, "a")
  np.testing.assert_array_equal(found[:], found[:])
  assert (array[3] == 5).all()


@pytest.fixture
def large(tmp_path, monkeypatch) -> pathlib.Path:
  """A file of 8 MB as float32; blocks of 64 KB."""
  monkeypatch.setattr(embedding_rows, "_BLOCK", 1 << 14)
  monkeypatch.setattr(ranks, "_CELLS", 1 << 16)
  monkeypatch.setattr(score_matrices, "_CELLS", 1 << 16)
  np.save(tmp_path / "a.npy", RNG.standard_normal((4_000, 512), np.float32))
  return tmp_path / "a.npy"


def peak(call) -> float:
  """Peak of the memory that a call takes."""
  tracemalloc.start()
  call()
  found = tracemalloc.get_traced_memory()[1]
  tracemalloc.stop()
  return found


def test_zero_shot_peak_memory_is_below_the_file_size(large):
  names = RNG.standard_normal((5, 512), np.float32)
  labels = {code: zero_shot.Labels(np.arange(5), tuple("abcde")) for code in ("en", "de")}
  targets = np.arange(4_000) % 5
  for dtype in ("<f4", "<f2"):
    np.save(large, np.load(large).astype(dtype))
    taken = peak(
      lambda: zero_shot.score_zero_shot(
        embedding_files.read(large), targets, labels, dict.fromkeys(labels, lambda: names)
      )
    )
    assert taken < 0.75 * large.stat().st_size


def test_retrieval_peak_memory_has_one_copy_of_candidates(large):
  few, size = RNG.standard_normal((10, 512), np.float32), large.stat().st_size
  stored = embedding_files.read(large)
  similarities = lambda: list(score_matrices.similarities(few, stored))  # noqa: E731
  assert peak(similarities) < 1.3 * size
  unit = embedding_rows.prepared(stored, "cosine", "a")
  assert peak(lambda: ranks.rank(few, unit, np.arange(10), np.ones(10, int))) < 1.3 * size


@pytest.mark.skipif(
  not pathlib.Path("/proc/self/smaps").exists(), reason="the memory of a map is known on Linux"
)
def test_memmap_pages_of_embeddings_are_released(large):
  stored = embedding_files.read(large)
  stored[:]
  lines = pathlib.Path("/proc/self/smaps").read_text().splitlines()
  start = next(number for number, line in enumerate(lines) if line.endswith(str(large)))
  resident = next(line for line in lines[start:] if line.startswith("Rss:"))
  assert int(resident.split()[1]) * 1024 < large.stat().st_size / 10
