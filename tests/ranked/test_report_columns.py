"""The columns of the reports of ranked scores, and what their pages explain."""

import json

import numpy as np

from tests.make import files
from tests.make.command import xmcap
from tests.scoring import embeddings


def cells(page, heading):
  """The texts of a column of the table of scores, without the means."""
  headings = page.locator("#scores thead th").all_text_contents()
  place = next(place for place, text in enumerate(headings) if text.startswith(heading)) + 1
  return page.locator(f"#scores tbody tr > :nth-child({place})").all_text_contents()


def test_zero_shot_report_groups_languages_by_classes_as_its_means(tmp_path, page):
  counts = {"en": 720, "de": 700, "fr": 500, "th": 120, "mi": 30}
  centres = np.random.default_rng(0).normal(size=(720, 16)).astype(np.float32)
  (tmp_path / "texts").mkdir()
  for code, count in counts.items():
    np.save(tmp_path / f"texts/{code}.npy", centres[:count])
  np.save(tmp_path / "pictures.npy", centres)
  names = {code: [[*range(count)], [f"{code} {i}" for i in range(count)]] for code, count in counts.items()}
  files.json(tmp_path / "labels.json", names)
  files.lines(tmp_path / "targets.txt", *range(720))
  given = {"pictures": "pictures.npy", "targets": "targets.txt", "labels": "labels.json", "texts": "texts"}
  options = [f"--{name}={tmp_path / file}" for name, file in given.items()]
  xmcap("score", "zero-shot", *options, f"--out={tmp_path / 'out'}").succeeded()
  page.goto((tmp_path / "out/report.html").as_uri())
  assert cells(page, "Classes") == ["700", "720", "500", "30", "120"]
  assert cells(page, "Group") == [
    "over 666 classes", "English", "334 to 666 classes", "1 to 100 classes", "101 to 333 classes",
  ]  # fmt: skip
  page.locator("#scores th button", has_text="Group").click()
  assert [text[:2] for text in cells(page, "Code")] == ["mi", "th", "fr", "de", "en"]
  means = json.loads((tmp_path / "out/table.json").read_text())["means"]
  assert {*cells(page, "Group")} - {"English"} == {name for name in means if "classes" in name}
  reading = page.locator("#reading").text_content()
  assert "Babel-ImageNet" in reading and "no mean includes English" in reading
  assert not any(
    text in reading for text in ("XM3600", "script", "ISO 15924", "low-resource", "Other languages")
  )


def test_retrieval_report_has_median_ranks_as_columns(tmp_path, page):
  xmcap("score", "retrieval", *embeddings.retrieval(tmp_path / "in"), f"--out={tmp_path / 'out'}").succeeded()
  page.goto((tmp_path / "out/report.html").as_uri())
  rows = json.loads((tmp_path / "out/table.json").read_text())["languages"]
  for heading, name in (("T2I median rank", "t2i_median_rank"), ("I2T median rank", "i2t_median_rank")):
    assert cells(page, heading) == [f"{row[name]:,.1f}" for row in rows.values()]
  assert page.locator(".notices").count() == 0
  reading = page.locator("#reading").text_content()
  assert "Median rank" in reading and "ISO 15924" not in reading and "Babel-ImageNet" not in reading
