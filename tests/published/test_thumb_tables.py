"""THumB's tables, recomputed from both releases of the ratings."""

import json
import pathlib
import shutil

import pytest

from tests.make import files
from tests.make.refusals import refusal
from tests.published.published_tables import by_table
from xmcap.human import thumb_ratings
from xmcap.published import thumb

_MENDED = pathlib.Path(__file__).parents[3] / "shared" / "thumb"
_RATINGS, _REFERENCES = "mscoco_THumB-1.0.jsonl", "mscoco_references.json"
# In the first release the human caption of each of these pictures is that of the next one, and the last has another of
# its own, for which one of ours stands here.
_MOVED = """
  90646 107216 129663 131418 145873 147068 149444 151081 152298 168580 169858 182369 200274 216303 217872 227878 229688
  250619 251892 255322 268215 277289 288435 300655 307790 309120 312803 315128 326082 329217 345389 360181 361551 373089
  378098 401623 430420 430469 430856 435922 440067 449675 488198 519631 526126 541664 553942 558013 565031 565239 566717
""".split()  # noqa: SIM905


@pytest.fixture
def mended():
  if not _MENDED.is_dir():
    pytest.skip("the released ratings are not beside this checkout (../shared/thumb)")
  return _MENDED


@pytest.fixture
def first(mended, tmp_path):
  """The first release, but for one caption; it is not beside the checkout."""
  rows = files.rows(mended / _RATINGS)
  of_human = {row["seg_id"]: row["hyp"] for row in rows if row["SYS"] == "Human"}
  moved = dict(zip(_MOVED, [*_MOVED[1:], ""], strict=True))
  for row in rows:
    if row["SYS"] == "Human":
      row["hyp"] = of_human.get(
        moved.get(row["seg_id"], row["seg_id"]), "A cat in a bathtub behind a curtain."
      )
  (tmp_path / _RATINGS).write_text("".join(f"{json.dumps(row)}\n" for row in rows))
  shutil.copy(mended / _REFERENCES, tmp_path / _REFERENCES)
  return tmp_path


def test_thumb_tables_of_the_first_release_are_the_papers(first):
  table = thumb.recompute(first, resamples=200)
  equal = {name: sum(row.equal for row in rows) for name, rows in by_table(table).items()}
  assert equal == {"Table 1": 80, "Table 2": 49, "Table 3": 5, "Table 4": 18, "Table 5": 80, "Table 7": 13}
  assert "note: the first release (95195a2), which the paper scored" in table.terminal()
  assert all(row.why for row in table.deviations)


def test_thumb_tables_of_the_mended_release(mended):
  table = thumb.recompute(mended, resamples=200)
  equal = {name: sum(row.equal for row in rows) for name, rows in by_table(table).items()}
  assert len(table.rows) == 253
  assert equal == {"Table 1": 80, "Table 2": 46, "Table 3": 5, "Table 4": 11, "Table 5": 80, "Table 7": 13}
  assert (
    table.terminal().count("note: the mended release (35e97e1); the paper scored the first (95195a2)") == 1
  )
  # Scores of the machines do not depend on the release; those of people do, and say so.
  scores = [row for row in table.rows if row.what.split(", ")[-1] in ("BLEU", "ROUGE-L", "CIDEr")]
  assert [row.what for row in scores if not row.equal] == ["Human, BLEU", "Human, ROUGE-L", "Human, CIDEr"]
  assert {row.why for row in scores if not row.equal} == {"human captions of the mended release"}
  assert all(row.why for row in table.deviations)


def test_thumb_tables_name_files_of_neither_release(mended):
  ratings = thumb_ratings.read(mended / _RATINGS)
  note, reason = thumb._release(ratings, dict.fromkeys(ratings.keys, ()))
  assert note.startswith(
    "neither release: of their human captions 1, 39 equal a reference, here 0; the paper scored"
  )
  assert reason == "human captions of neither release"


def test_thumb_tables_refuse_a_folder_without_ratings(tmp_path):
  assert "no mscoco_THumB-1.0.jsonl; give the folder 'mscoco'" in refusal(thumb.recompute, tmp_path)
