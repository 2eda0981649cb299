"""captions.csv: a row per caption, with scores and faults."""

import csv
import io

import pytest

from xmcap.pages import captions_table
from xmcap.scoring import residue
from xmcap.scoring.health.faults import FAULTS
from xmcap.scoring.score import score

_NOUNS = ("dog", "cat", "man", "boat", "train", "child", "horse", "bird", "car", "girl", "cow", "bus")
_KEYS = [f"k{i:02}" for i in range(48)]
_REFERENCES = {
  key: {
    "en": [f"the {_NOUNS[i % 12]} is near the {_NOUNS[i // 4]} of a village"],
    "de": [f"{_NOUNS[i % 12]} und {_NOUNS[i // 4]} stehen vor dem Haus in der Stadt"],
    "ru": [f"собака и кошка номер {i} стоят у дома"],
  }
  for i, key in enumerate(_KEYS)
}
_BAD = (
  "", "...", "42", "the dog is near the", "<think>Look.</think>a dog", "a **dog** on the road", "a cat</s>", "a dog,",
  "one dog\ntwo cats", "a dog a dog a dog a dog a dog a dog", " ".join(["very"] * 40), "a cat", "a cat", "a cat",
  "I cannot see any image.", "I'm sorry, I can't assist with that.",
  "собака стоит у дома", "Ein Hund und eine Katze stehen vor dem Haus in der Stadt",
)  # fmt: skip


def _predictions():
  predictions = {key: {code: texts[0] for code, texts in by.items()} for key, by in _REFERENCES.items()}
  for key, caption in zip(_KEYS, _BAD, strict=False):
    predictions[key]["en"] = caption
  for key in _KEYS[20:]:
    predictions[key]["en"] = f"Here is the caption: {predictions[key]['en']}"
  for key in _KEYS[:9]:
    predictions[key]["ru"] = predictions[key]["de"]
  return predictions


@pytest.fixture(scope="module")
def result():
  return score(_REFERENCES, _predictions(), health=True, metrics="cider,bleu", scale=100)


def _rows(result):
  text = "".join(captions_table.lines(result))
  assert text.startswith("\ufeffimage/key,language,caption,")
  return list(csv.DictReader(io.StringIO(text.removeprefix("\ufeff"), newline="")))


@pytest.mark.parametrize("code", ["en", "de", "ru"])
def test_captions_csv_faults_equal_shares_in_health(result, code):
  rows = [row for row in _rows(result) if row["language"] == code]
  captions = [row["caption"] for row in rows]
  faults = [set(row["faults"].split(";")) - {""} for row in rows]
  measured = result.health[code]
  letters = sum(any(map(str.isalpha, caption)) for caption in captions)
  words = sum(any(map(str.isalnum, caption)) for caption in captions)
  filled = sum(bool(caption.strip(" .")) for caption in captions)
  of = {"wrong_script": letters, "repetitive": words, "truncated": words, "copy": filled}
  of["wrong_language"] = letters - round(measured.undecided * letters)
  kinds = {kind for kind in (*residue.KINDS, "lost") if not hasattr(measured, kind)}
  assert measured.markup == sum(bool(kinds & of_caption) for of_caption in faults) / len(rows)
  for fault in FAULTS.keys() - kinds - {"no_picture", "refusal"}:
    count = sum(fault in of_caption for of_caption in faults)
    assert count == pytest.approx((getattr(measured, fault) or 0.0) * of.get(fault, len(rows))), fault
  if code == "en":
    assert set().union(*faults) >= {
      "wrong_language", "wrong_script", "think", "markdown", "tokens", "lines", "prefix", "empty", "no_letter",
      "most_frequent", "repetitive", "over_long", "truncated",
    }  # fmt: skip
    assert faults[captions.index("a cat</s>")] == {"tokens"}
    assert [captions[row] for row, names in enumerate(faults) if "no_picture" in names] == [_BAD[14]]
    assert [captions[row] for row, names in enumerate(faults) if "refusal" in names] == [_BAD[15]]


def test_captions_csv_scores_are_image_scores_at_the_table_scale(result):
  for code, of_language in result.statistics.items():
    rows = [row for row in _rows(result) if row["language"] == code]
    assert [row["image/key"] for row in rows] == list(of_language.keys)
    for metric, factor in (("cider", 100), ("bleu_4", 1)):
      expected = factor * of_language.image_scores(metric)
      assert [float(row[metric]) for row in rows] == pytest.approx(expected.tolist(), abs=1e-4)


@pytest.mark.parametrize(
  "caption, written",
  [
    ('=HYPERLINK("x")', "'=HYPERLINK(\"x\")"), ("+1", "'+1"), ("- a dog", "'- a dog"), ("@a", "'@a"), ("\ta", "'\ta"),
    ("\uff1d1", "'\uff1d1"), ("a = b", "a = b"), ('one\n"two", three', 'one\n"two", three'), ("'a", "'a"),
  ],
)  # fmt: skip
def test_captions_csv_escapes_spreadsheet_formulas(caption, written):
  (row,) = _rows(score({"-1": {"en": ["a dog"]}}, {"-1": {"en": caption}}, metrics="exact"))
  assert (row["image/key"], row["caption"]) == ("'-1", written)
