"""Measures of health beside residue, and their findings."""

import pytest

from tests.scoring import human_captions
from xmcap.pages import output
from xmcap.scoring import health, read_predictions, read_references, score

_RESIDUE = human_captions.SHARED / "field" / "scoring" / "16_residue"
_NOUNS = ("dog", "cat", "man", "woman", "boat", "train", "child", "horse", "bird", "car", "girl", "cow")
_REFERENCES = {f"k{i}": {"en": [f"a {noun} on a road", f"one {noun}"]} for i, noun in enumerate(_NOUNS)}
_PREDICTIONS = {f"k{i}": {"en": f"{noun} and {_NOUNS[i - 1]}"} for i, noun in enumerate(_NOUNS)}


def _score(changed, **options):
  return score(
    _REFERENCES,
    {**_PREDICTIONS, **{key: {"en": text} for key, text in changed.items()}},
    health=True,
    **options,
  )


def _every(text):
  return dict.fromkeys(_PREDICTIONS, text)


def test_healthy_captions_have_no_finding():
  result = _score({})
  assert result.table.notes == () and result.health["en"].findings == ()
  shares = {
    name: value for name, value in result.health["en"].as_dict().items() if health.MEASURES[name].percent
  }
  names = ("markup", "prefix", "suffix", "lines", "most_frequent", "no_letter", "over_long")
  assert {shares[name] for name in names} == {0.0}


def _sentences(result):
  """The notes but those on columns, such as on captions whose language cannot be told, and on letters."""
  return [note for note in result.table.notes if not note.startswith(("columns ", "letters "))]


@pytest.mark.parametrize(
  ("changed", "sentence"),
  [
    ({"k1": "a cat<|im_end|>"}, "1 of 12 captions have special tokens, such as '<|im_end|>', which no reference has; "
      "--clean=tokens removes it"),
    ({"k1": "a cat\nor two"}, "1 of 12 captions have several lines, which no reference has; --clean=lines keeps the "
      "first"),
    ({"k1": "12", "k2": "..."}, "2 of 12 captions have no letter, which no reference has"),
    (_every("a dog"), "12 of 12 captions are the most frequent of their language, such as 'a dog'; of the references "
      "it is 4%"),
    ({"k1": "a cat and a cat and a cat and a cat"}, "1 of 12 captions have more than 10 words: more than twice as many "
      "as 99 of 100 references have"),
    ({"k1": "a cat and a cat and a cat and"}, None),
  ],
)  # fmt: skip
def test_health_findings(changed, sentence):
  assert _sentences(_score(changed)) == ([f"en: {sentence}"] if sentence else [])


def test_findings_leave_out_residue_that_references_share():
  references = {
    key: {"en": [f"<b>{text}</b>\nof {key}" for text in held["en"]]} for key, held in _REFERENCES.items()
  }
  predictions = {key: {"en": f"<b>{held['en']}</b>\nof it"} for key, held in _PREDICTIONS.items()}
  result = score(references, predictions, health=True)
  found = result.health["en"]
  assert result.table.notes == ()
  assert found.markup == found.markup_references == found.lines == found.lines_references == 1.0


def test_length_ratio_finding_names_its_effect_on_cider_d():
  long = {key: f"{held['en']} and more and more and more" for key, held in _PREDICTIONS.items()}
  sentence = "en: captions have 2.6 times as many words as references (9.0 against 3.5)"
  # exp(-(5.5 ** 2) / (2 * 6 ** 2)), as in pycocoevalcap's cider_scorer.py
  factor = "; for such a difference CIDEr-D's length penalty multiplies the score by 0.66"
  assert _score(long).table.notes[-1] == sentence + factor
  assert _score(long, metrics="cider").table.notes[-1] == sentence


def test_languages_share_a_finding():
  codes: list[str] = ["de", "en", "fr", "it", "es"]
  references = {"k": dict.fromkeys(codes, ["ein Hund"])}
  predictions = {"k": dict.fromkeys(codes, "ein Hund</s>")}
  notes = score(references, predictions, metrics="exact", health=True).table.notes
  sentence = "de, en, es and 2 more languages: 5 of 5 captions have special tokens, such as '</s>'"
  assert any(note.startswith(sentence) for note in notes)


def test_clean_removes_the_finding():
  (note,) = _score(_every("a dog</s>") | {"k1": "a cat</s>"}, clean="tokens").table.notes[:-1]
  assert note == "--clean=tokens removed from 12 captions: en 12"


def test_health_text_shows_measures_above_the_references():
  text = output.health_text(_score({"k1": "a cat</s>"}).health)
  assert text.split("\n")[0].split("  ")[-1] == "Markup" and "8.3%" in text
  assert "all other measures: health.csv, report.html" in text
  assert "health.csv" not in output.health_text(_score({"k1": "a cat</s>"}).health, written=False)
  bad = dict.fromkeys(_PREDICTIONS, "\u72d7</s>\n12,") | {
    "k1": "",
    "k2": "12",
    "k3": "a b c d a b c d a b c d a b c d",
  }
  many = output.health_text(_score(bad).health)
  assert max(map(len, many.split("\n")[:3])) <= 100 and "health.csv" in many


def test_health_csv_names_the_most_frequent_caption():
  heading, row = output.health_csv(_score(_every("a dog")).health).strip().split("\n")
  assert heading.endswith(",most_frequent_caption") and row.endswith(",a dog")


@pytest.mark.skipif(not _RESIDUE.exists(), reason="the captions with residue are not on this machine")
@pytest.mark.parametrize(
  ("name", "kinds"),
  [
    ("chatml", "tokens"), ("eos", "tokens"), ("json", "json"), ("loc", "loc"), ("think", "think"),
    ("prompt", "prefix"), ("sure", "prefix"), ("markdown", "markdown,prefix"), ("verbose", "suffix"), ("clean", ""),
  ],
)  # fmt: skip
def test_residue_of_real_models_is_found_and_cleaned(name, kinds):
  references = read_references(_RESIDUE / "references.jsonl")
  clean = score(references, read_predictions(_RESIDUE / "clean.jsonl")).table
  predictions = read_predictions(_RESIDUE / f"{name}.jsonl")
  notes = score(references, predictions, health=True).table.notes
  for kind in filter(None, kinds.split(",")):
    assert any(f"--clean={kind} " in note for note in notes)
  assert bool(notes) == bool(kinds)
  assert score(references, predictions, clean=kinds).table.rows == clean.rows
  assert score(references, predictions, clean="all").table.rows == clean.rows


@human_captions.needs_captions
def test_human_captions_have_no_finding():
  # Captions of one half, in any language, against references of the other half.
  halves = []
  for name in sorted(path.name for path in human_captions.MULTI30K.glob("task1_test_*.??")):
    texts = human_captions.multi30k(name)[:400]
    halves.append((name[-2:], texts[::2], [[text] for text in texts[1::2]]))
  for code in ("de", "en"):
    people = (human_captions.multi30k(f"task2_test_2016.{number}.{code}")[:400] for number in range(1, 6))
    of_image = list(zip(*people, strict=True))
    halves.append((code, [texts[2] for texts in of_image], [[*texts[:2], *texts[3:]] for texts in of_image]))
  texts = human_captions.coco_cn()[:800]
  halves.append(("zh", texts[::2], [[text] for text in texts[1::2]]))
  sample = human_captions.xm3600_sample().items()
  halves += [(code, texts[:1], [texts[1:]]) for code, texts in sample if len(texts) > 1]
  for code, captions, references in halves:
    pairs = list(zip(captions, references, strict=False))
    result = score(
      {str(row): {code: texts} for row, (_, texts) in enumerate(pairs)},
      {str(row): {code: text} for row, (text, _) in enumerate(pairs)},
      metrics="exact", health=True,
    )  # fmt: skip
    assert _sentences(result) == [], code
