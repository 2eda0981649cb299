import dataclasses
import json

from xmcap.scoring import compare, read_system, score, write
from xmcap.scoring.result import read_table
from xmcap.scoring.tables import language_fidelity, score_table
from xmcap.scoring.tables.signature import Signature

_GERMAN = ["Ein schwarzer Hund läuft am Strand entlang", "Zwei Katzen schlafen auf einem roten Sofa"]
_REFERENCES = {f"k{i}": {"de": [_GERMAN[i % 2] + f" {i}"]} for i in range(4)}
_PREDICTIONS = {
  "k0": {"de": _GERMAN[0]},
  "k1": {"de": "Two cats sleep on a red sofa 1"},
  "k2": {"de": "42"},
  "k3": {"de": _GERMAN[1]},
}


_UNDECIDED = {"ar": 0.02, "de": 0.0004, "en": 0, "fil": None, "mi": 0.01, "no": 0.01, "sw": 0.01, "zh": 0.055}


def _score(**options):
  return score(_REFERENCES, _PREDICTIONS, metrics="cider_d,bleu", **options)


def test_fidelity_column_is_of_decided_captions():
  table = _score(health=True).table
  assert table.shares == {
    "fidelity": {"de": 1 - 1 / 3, "1 language": 1 - 1 / 3},
    "fidelity of references": {"de": 1.0, "1 language": 1.0},
  }
  assert _score().table.shares == {}


def test_fidelity_leaves_out_undecided_captions():
  result = score({"k": {"mi": ["he kurī"]}}, {"k": {"mi": "ngeru"}}, health=True)
  assert result.table.shares == {}
  assert result.health["mi"].undecided == 1.0
  german = {**_PREDICTIONS, "k2": {"de": "Nike"}}
  (note,) = score(_REFERENCES, german, metrics="bleu", health=True).table.notes
  assert note == "columns fidelity: without captions whose language cannot be told: de 25.0%"


def test_undecided_captions_are_named_where_their_share_is_not_0():
  rows = {code: {"images": 1, "references": 1, "bleu": 0.5} for code in _UNDECIDED}
  german = _score(health=True).health["de"]
  healths = {code: dataclasses.replace(german, undecided=share) for code, share in _UNDECIDED.items()}
  table = language_fidelity.with_fidelity(score_table.Table.of_rows("tokenizer:x", rows), healths)
  assert table.notes == (
    "columns fidelity: without captions whose language cannot be told: zh 5.5%, ar 2.0%, mi 1.0% and 2 more languages",
  )


def test_comparison_carries_notes_of_captions_in_another_language(tmp_path):
  references = {f"k{i}": {"de": [f"{_GERMAN[i % 2]} {i}"] * 3} for i in range(40)}
  right = {key: {"de": held["de"][0]} for key, held in references.items()}
  wrong = {**right, **{f"k{i}": {"de": f"Two cats sleep on a red sofa {i}"} for i in range(10)}}
  sentence = (
    "de: 10 of 40 captions are in another language, such as 'Two cats sleep on a red sofa 0', which no reference is; "
    "--wrong_language=zero scores them as empty"
  )
  systems = {"one": score(references, right, health=True), "two": score(references, wrong, health=True)}
  assert sentence in systems["two"].table.notes and sentence not in systems["one"].table.notes
  for name, result in systems.items():
    write(result, tmp_path / name)
  read = {name: read_system(tmp_path / name) for name in systems}
  assert [note for note in compare(read).notes if "another language" in note] == [f"two: {sentence}"]
  # Nor where it may be an error of the judgement, or is counted already.
  assert not any(
    "another" in note for note in score(references, right | {"k0": wrong["k0"]}, health=True).table.notes
  )
  zero = score(references, wrong, health=True, wrong_language="zero").table.notes
  assert [note for note in zero if "another" in note] == [
    "10 captions in another language scored as empty captions: de 10"
  ]


def test_wrong_language_zero_scores_as_empty_captions():
  emptied = {**_PREDICTIONS, "k1": {"de": ""}}
  expected = score(_REFERENCES, emptied, metrics="cider_d,bleu").table.rows
  result = _score(wrong_language="zero", health=True)
  assert result.table.rows == expected
  assert _score().table.rows != expected
  assert "1 caption in another language scored as empty captions: de 1" in result.table.notes
  # What the captions are like does not change.
  assert result.health == _score(health=True).health
  assert result.predictions == _PREDICTIONS


def test_wrong_language_in_the_signature():
  keep, zero = (Signature.parse(_score(wrong_language=way).table.signature) for way in ("keep", "zero"))
  assert zero.parts["wrong_language"].startswith("zero-2.py3langid-") and "|wl:zero#" in zero.short
  assert "wrong_language" not in keep.parts
  assert [text.partition(":")[0] for text in keep.differences(zero, ("cider_d",))] == ["wrong_language"]


def test_fidelity_uses_references_of_languages_not_scored():
  maori = ["he kuri pango kei te oma i te tahatai", "e rua nga ngeru e moe ana i runga i te hopa whero"]
  swahili = ["mbwa mweusi anakimbia ufukweni", "paka wawili wamelala kwenye kochi jekundu"]
  references = {str(i): {"mi": [maori[i % 2]], "sw": [swahili[i % 2]]} for i in range(60)}
  predictions = {str(i): {"mi": "paka"} for i in range(60)}
  table = score(references, predictions, "mi", metrics="exact", health=True).table
  assert table.shares["fidelity"]["mi"] == 0.0


def test_table_json_without_shares_is_read(tmp_path):
  table = _score(health=True).table
  table.write(tmp_path)
  with_shares = read_table(tmp_path / "table.json")
  file = json.loads((tmp_path / "table.json").read_text(encoding="utf-8"))
  del file["shares"]
  (tmp_path / "table.json").write_text(json.dumps(file), encoding="utf-8")
  assert read_table(tmp_path / "table.json") == with_shares == dataclasses.replace(table, shares={})
