"""`xmcap check`: three models, one's own photos, no references; then a blind rating page of the same captions."""

import csv
import json
import pathlib
import shlex

import pytest

from tests.human import rating_pages
from tests.make import files, images
from tests.make.command import xmcap
from xmcap.reading import provenance

ENGLISH = (
  "a dog runs on the green grass", "two cats sleep on a bed", "a red car in the street", "a man rides a horse",
  "children play football", "a bowl of soup on a table",
)  # fmt: skip
THAI = ("สุนัขวิ่งบนหญ้า", "แมวสองตัวนอนบนเตียง", "รถสีแดงบนถนน", "ผู้ชายขี่ม้า", "เด็กเล่นฟุตบอล", "ชามซุปบนโต๊ะ")
ARABIC = (
  "كلب يجري على العشب الأخضر", "قطتان تنامان على سرير", "سيارة حمراء في الشارع", "رجل يركب حصانا",
  "أطفال يلعبون كرة القدم", "وعاء من الحساء على الطاولة",
)  # fmt: skip
SYSTEMS = ("good=good.jsonl", "bad=bad.jsonl", "partial=partial.jsonl")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
  """Six photos, and captions of three models: a good one, one that ignores photos and languages, one that gives up."""
  monkeypatch.chdir(tmp_path)
  by_language = {"en": ENGLISH, "th": THAI, "ar": ARABIC}
  good = {f"p{n}": {code: texts[n] for code, texts in by_language.items()} for n in range(6)}
  files.captions("good.jsonl", good)
  files.captions(
    "bad.jsonl", {f"p{n}": {"en": ENGLISH[0], "th": ENGLISH[n], "ar": f"**{ARABIC[n]}**"} for n in range(6)}
  )
  partial = {f"p{n}": {"en": f"{ENGLISH[n]} outside", "ar": ""} for n in range(6)}
  files.captions("partial.jsonl", {**partial, "p0": {"th": f"{THAI[0]}และต้นไม้"}})
  origin = {"model": "m", "prompt": {"name": "xmcap#1"}, "strategy": "direct", "shots": [], "extra_body": {}}
  origin |= {"tokens": {"prompt": 1800, "cached": 900, "completion": 180}, "dollars": 0.5}
  origin |= {"states": {"answered": 7, "refused": 2, "cut": 0}, "cleaned": {"think": 3}}
  provenance.write("partial.jsonl", origin)
  for number in range(6):
    files.write(f"photos/p{number}.jpg", images.noise((40 + number, 30), number, "JPEG"))
  return tmp_path


def _rows(path="out/check.csv"):
  with pathlib.Path(path).open(encoding="utf-8", newline="") as file:
    return {(row["system"], row["language"]): row for row in csv.DictReader(file)}


def _numbers(row, *names):
  return [float(row[name]) if row[name] else None for name in names]


def test_the_table_of_three_models():
  said = xmcap("check", *SYSTEMS, "--out=out").succeeded()
  rows = _rows()
  assert [language for _, language in rows] == ["ar", "en", "th", "all"] * 3
  shares = ("captions", "missing", "fidelity", "residue", "distinct")
  assert _numbers(rows["good", "all"], *shares, "undecided") == [18, 0, 1, 0, 1, 0]
  assert _numbers(rows["bad", "ar"], *shares) == [6, 0, 1, 1, 1]
  assert _numbers(rows["bad", "en"], *shares) == [6, 0, 1, 0, 1 / 6]
  assert _numbers(rows["bad", "th"], *shares) == [6, 0, 0, 0, 1]
  assert _numbers(rows["bad", "all"], *shares) == [
    18,
    0,
    pytest.approx(2 / 3),
    pytest.approx(1 / 3),
    pytest.approx(13 / 18),
  ]
  # An empty caption is none.
  assert _numbers(rows["partial", "ar"], *shares, "words") == [0, 6, None, None, None, None]
  assert _numbers(rows["partial", "all"], "captions", "missing") == [6, 12]
  assert _numbers(rows["good", "en"], "words") == [sum(len(text.split()) for text in ENGLISH) / 6]
  took = ("prompt_tokens", "cached_tokens", "completion_tokens", "dollars")
  assert _numbers(rows["partial", "all"], *took) == [1800, 900, 180, 0.5]
  assert _numbers(rows["partial", "en"], *took) == _numbers(rows["good", "all"], *took) == [None] * 4
  assert "bad: residue: markdown 6\n" in said.out
  assert "partial: questions: refused 2\npartial: removed by xmcap caption: think 3\n" in said.out


def test_the_signature_says_that_there_are_no_references_and_names_the_captioners():
  xmcap("check", *SYSTEMS, "--out=out").succeeded()
  checked = json.loads(pathlib.Path("out/check.json").read_text(encoding="utf-8"))
  signature = checked["signature"]
  assert signature.startswith("references:none|languages:ar en th|images:6#")
  assert "+partial=m,prompt=xmcap#1,direct,shots=0#" in signature and "systems:good=unknown#" in signature
  assert signature in xmcap("check", *SYSTEMS).succeeded().out
  files.captions("good.jsonl", {"p0": {"en": "another", "th": THAI[0], "ar": ARABIC[0]}})
  assert signature not in xmcap("check", *SYSTEMS).succeeded().out


def test_only_some_languages_and_columns_without_values_are_left_out():
  said = xmcap("check", "good.jsonl", "--languages=th", "--out=out").succeeded()
  assert [language for _, language in _rows()] == ["th", "all"] and "tokens" not in said.out
  assert "rating" not in said.out  # of one system there is nothing to compare
  xmcap("check", "good.jsonl", "--languages=fr").refused("no captions in fr: there are ar, en, th")


def test_a_damaged_provenance_is_refused():
  origin = json.loads(pathlib.Path("partial.provenance.json").read_text(encoding="utf-8"))
  files.json("partial.provenance.json", {**origin, "states": [1]})
  xmcap("check", *SYSTEMS).refused("partial.provenance.json: not a provenance of captions")


def test_answers_that_saw_no_picture_are_counted():
  files.captions("blind.jsonl", {"p0": {"en": "I'm sorry, I cannot see the image."}, "p1": {"en": "a dog"}})
  xmcap("check", "blind.jsonl").succeeded("blind.jsonl: answers: ")


def test_without_scores_there_is_nothing_to_compare():
  xmcap("check", *SYSTEMS, "--out=out").succeeded()
  xmcap("compare", "out", "out2=out").refused("out: this is a folder of xmcap check", "has no table.json")
  xmcap("score", "--predictions=good.jsonl", "--out=s").refused(
    "no --references: give them, or see xmcap check"
  )


def test_a_blind_page_is_made_rated_and_counted(page):
  files.captions("partial.jsonl", {f"p{n}": {"en": f"{ENGLISH[n]} outside", "th": THAI[n]} for n in range(5)})
  pathlib.Path("partial.provenance.json").unlink()
  xmcap("check", *SYSTEMS, "--images=none").refused("none: no such folder of images")
  said = xmcap("check", *SYSTEMS, "--images=photos", "--out=out").succeeded().out
  command = shlex.split(said.rsplit("side by side: xmcap ")[-1])
  made = xmcap(*command).succeeded("out/rating.html: 30 comparisons, 3 systems, 5 pictures, 2 languages")
  assert "left out, as a system has no caption there: ar 6, en 1, th 1" in made.out
  page.goto(pathlib.Path("out/rating.html").resolve().as_uri())
  data = page.locator("#data").text_content()
  items = json.loads(data)["items"]
  assert not any(f'"{name}"' in data for name in ("good", "bad", "partial"))
  rating_pages.press(page, "a n n a Enter")
  for item in items:  # English of the first photo for all, and English for Thai, are worse than anything
    worse = [
      caption == ENGLISH[0] or (item["language"] == "th" and caption.isascii())
      for caption in item["captions"]
    ]
    rating_pages.press(page, f"{4 + 3 * (worse[0] - worse[1])} Enter")
  rating_pages.save(page, pathlib.Path())
  xmcap("human", "rate", "--join=out/rating.key.jsonl", "saved.jsonl", "--out=joined.jsonl").succeeded(
    "30 of 30"
  )
  xmcap("human", "sxs", "--ratings=joined.jsonl", "--raters=1", "--resamples=0", "--out=sxs").succeeded()
  with next(pathlib.Path("sxs").glob("*.csv")).open(encoding="utf-8", newline="") as file:
    deltas = {
      (row["system"], row["against"], row["language"]): row["delta_sxs"] for row in csv.DictReader(file)
    }
  assert {
    float(delta) for (one, other, code), delta in deltas.items() if code == "th" and "bad" in (one, other)
  } <= {-100, 100}
  assert any(code == "th" and {"bad", "good"} == {one, other} for one, other, code in deltas)
