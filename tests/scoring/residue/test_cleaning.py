import json
import re

import pytest

from tests.make import files
from tests.make.refusals import refusal
from xmcap.scoring import compare, read_predictions, residue, score, score_files
from xmcap.scoring.tables.signature import Signature

_NOUNS = ("dog", "cat", "man", "woman", "boat", "train", "child", "horse", "bird", "car", "girl", "cow")
_REFERENCES = {
  f"k{i}": {"en": [f"a {noun} on a road", f"one {noun} outside"]} for i, noun in enumerate(_NOUNS)
}
_CLEAN = {f"k{i}": {"en": f"{noun} and {_NOUNS[i - 1]}"} for i, noun in enumerate(_NOUNS)}


def _dirty(make):
  return {key: {"en": make(held["en"])} for key, held in _CLEAN.items()}


@pytest.mark.parametrize(
  ("kind", "make"),
  [
    ("think", "<think>Hm. A road.</think>\n\n{}".format),
    ("tokens", "<|im_start|>assistant\n{}<|im_end|>".format),
    ("json", '{{"caption": "{}"}}'.format),
    ("loc", "<loc0012><loc0345><loc0678><loc0901> {}".format),
    ("markdown", "**{}**".format),
    ("prefix", "Sure! Here is a caption: {}".format),
    ("suffix", "{}. It is a bright day.".format),
    ("lines", "{}\n\nIt is bright.".format),
  ],
)
def test_score_with_clean_equals_clean_captions(kind, make):
  result = score(_REFERENCES, _dirty(make), clean=kind)
  assert result.predictions == _CLEAN
  assert result.table.rows == score(_REFERENCES, _CLEAN).table.rows
  signature = Signature.parse(result.table.signature)
  assert signature.parts["clean"] == f"{kind}-3" and f"|cl:{kind}-3|" in signature.short
  assert re.search(rf"--clean={kind} removed.* from 12 captions: en 12", "\n".join(result.table.notes))


def test_prefix_within_markdown_is_removed_or_noted():
  references = {f"k{i}": {"en": [f"a {noun} {i}" for noun in _NOUNS]} for i in range(120)}
  clean = {key: {"en": f"{_NOUNS[i % 12]} {i}"} for i, key in enumerate(references)}
  begun = {key: {"en": f"**Caption:** {clean[key]['en']}"} for key in list(references)[:9]}
  assert score(references, {**clean, **begun}, clean="all").predictions == clean
  notes = score(references, {**clean, **begun}, clean="markdown", health=True).table.notes
  assert any(note.startswith("en: 9 of 120 captions begin with 'Caption:'") for note in notes)


def test_clean_removes_a_prefix_in_all_languages():
  codes: list[str] = ["de", "en", "sw"]
  references = {f"k{i}": dict.fromkeys(codes, [f"a {noun} {i}" for noun in _NOUNS]) for i in range(200)}
  clean = {
    key: dict.fromkeys(held, f"{_NOUNS[i % 12]} {i}") for i, (key, held) in enumerate(references.items())
  }
  few = {"de": 10, "en": 19, "sw": 1}
  begun = {
    key: {code: f"Sure! Here is a caption: {text}" if i < few[code] else text for code, text in held.items()}
    for i, (key, held) in enumerate(clean.items())
  }
  note = (
    "en, de, sw: 30 of 600 captions begin with a text that many share, such as 'Sure! Here is a caption:'"
  )
  assert any(note in text for text in score(references, begun, health=True).table.notes)
  cleaned = score(references, begun, clean="all", health=True)
  assert cleaned.predictions == clean and not any(" begin with " in text for text in cleaned.table.notes)


def test_clean_of_clean_captions_notes_no_finding():
  result = score(_REFERENCES, _CLEAN, clean=["json", "think"])
  assert result.predictions == _CLEAN
  assert result.table.notes == ("--clean found no think, json",)


def test_signature_without_cleaning_has_no_clean_part():
  table = score(_REFERENCES, _CLEAN).table
  assert "clean" not in Signature.parse(table.signature).parts and table.notes == ()
  assert score(_REFERENCES, _CLEAN, clean="").table == table


def test_an_empty_result_stays_an_empty_caption_that_is_counted():
  predictions = {**_CLEAN, "k0": {"en": "<think>It is a"}}
  result = score(_REFERENCES, predictions, clean="think")
  assert result.predictions["k0"]["en"] == "" and result.table.rows["en"]["images"] == 12
  assert "1 caption empty after --clean, and scored so: en 1" in result.table.notes


def test_clean_keeps_other_languages_and_the_arguments():
  predictions = {key: {**held, "de": "a</s>"} for key, held in _dirty("{}</s>".format).items()}
  result = score(_REFERENCES, predictions, "en", clean="tokens")
  assert result.predictions["k0"] == {"en": "dog and cow", "de": "a</s>"}
  assert predictions["k0"]["en"] == "dog and cow</s>"


def test_compare_refuses_to_mix_cleaned_and_raw():
  systems = {"raw": score(_REFERENCES, _CLEAN), "cleaned": score(_REFERENCES, _CLEAN, clean="all")}
  assert "clean: absent against all-3" in refusal(compare, systems)


def test_kinds_of_residue_are_parsed_in_order():
  assert residue.parse("lines, think") == ("think", "lines") and residue.parse("all") == residue.KINDS
  assert residue.parse("") == residue.parse(()) == ()


@pytest.fixture
def paths(tmp_path):
  references = files.captions(tmp_path / "references.jsonl", _REFERENCES)
  return references, files.captions(tmp_path / "given.jsonl", _dirty("{}</s>".format))


def test_cleaned_captions_are_written_as_predictions(paths, tmp_path):
  score_files(*paths, tmp_path / "out", clean="tokens")
  written = tmp_path / "out" / "predictions.jsonl"
  assert read_predictions(written) == _CLEAN
  message = refusal(score_files, paths[0], written, tmp_path / "out", clean="tokens")
  assert "the cleaned captions would be written over it" in message


def test_captions_that_are_too_long_are_named_together(paths, tmp_path):
  long = {"k1": {"en": "a" * 10_001}, "k4": {"en": f"<think>{'b' * 20_000}</think>a boat"}}
  files.captions(paths[1], {**_CLEAN, **long})
  message = refusal(score_files, *paths, tmp_path / "out")
  assert (
    "given.jsonl: 2 captions of more than 10,000 characters (en k1, line 2: 10,001, en k4, line 5: 20,021)"
    in message
  )
  # What is removed does not count.
  message = refusal(score_files, *paths, tmp_path / "out", clean="think")
  assert message.startswith("1 caption of more than 10,000 characters (en k1: 10,001)")


def test_references_that_are_too_long_are_named_with_their_lines(paths, tmp_path):
  with open(paths[0], "a") as file:
    file.write(json.dumps({"image/key": "k0", "language": "en", "caption": ["a", "b" * 10_002]}) + "\n")
  message = refusal(score_files, *paths, tmp_path / "out")
  assert "references.jsonl: 1 caption " in message and "(en k0, line 13: 10,002)" in message
