"""THumB's tables, recomputed from the released ratings."""

import pathlib

import pytest

from tests.make.refusals import refusal
from tests.published.published_tables import by_table
from xmcap.published import thumb

_THUMB = pathlib.Path(__file__).parents[3] / "shared" / "thumb"


def test_thumb_tables_equal_the_released_ratings():
  if not _THUMB.is_dir():
    pytest.skip("the released ratings are not beside this checkout (../shared/thumb)")
  found = thumb.recompute(_THUMB, resamples=200)
  equal = {table: sum(row.equal for row in rows) for table, rows in by_table(found).items()}
  assert len(found.rows) == 78 and equal == {"Table 2": 46, "Table 3": 5, "Table 4": 17}
  # Appendix A.2: BLEU and ROUGE-L of the four models, and their correlations.
  own = [row for row in found.rows if "BLEU" in row.what or "ROUGE" in row.what]
  models = [row for row in own if row.table == "Table 2" and "Human" not in row.what]
  assert len(models) == 8 and all(row.equal for row in models)
  (odd,) = [row for row in own if row.table == "Table 4" and not row.equal]
  assert odd.what == "ROUGE-L, P, all systems" and odd.printed == "0.16"
  assert odd.computed == pytest.approx(0.16972, abs=1e-5)
  # Every other deviation is a known one.
  assert all(row.why for row in found.deviations if row is not odd)


def test_thumb_tables_refuse_a_folder_without_ratings(tmp_path):
  assert "no mscoco_THumB-1.0.jsonl; give the folder 'mscoco'" in refusal(thumb.recompute, tmp_path)
