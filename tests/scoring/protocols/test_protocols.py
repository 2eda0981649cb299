import dataclasses
import json

import pytest

from tests.make import files
from tests.make.refusals import refusal
from xmcap import languages
from xmcap.errors import UsageError
from xmcap.pages.output import write
from xmcap.scoring import METRICS, compare, protocols, read_system, score, score_files, tokenizers
from xmcap.scoring.metrics import CAPTION_METRICS
from xmcap.scoring.metrics.document_frequency import DocumentFrequency
from xmcap.scoring.statistics import means

_REFERENCES = {
  "k1": {"en": ["a dog"], "de": ["ein Hund", "der Hund"]},
  "k2": {"en": ["two cats"], "de": ["Katzen"]},
}
_PREDICTIONS = {"k1": {"en": "a dog", "de": "Hund"}, "k2": {"en": "a cat", "de": "Katze"}}
_FREQUENCY = DocumentFrequency(1, (), (), ())


def _score(**options):
  return score(_REFERENCES, _PREDICTIONS, **options)


@pytest.mark.parametrize("name", protocols.names())
def test_protocol_files_name_existing_metrics_and_tokenizers(name):
  held = protocols.get(name)
  assert set(held.metrics) <= CAPTION_METRICS.keys()
  assert held.refused or held.tokenizer in tokenizers.TOKENIZERS
  assert all(languages.is_known(code) for code in held.codes)
  assert set(held.means) <= {"35", means.ALL_BUT_EN, "36"}
  assert held.scale in protocols.SCALES
  # What is printed at this scale.
  assert METRICS[held.metrics[0]].format(1.0, held.scale).partition(".")[2] == held.decimals * "0"


def test_protocol_names():
  assert protocols.names() == (
    "centurio", "florenz", "mblip", "paligemma", "vlmevalkit", "xm100", "xm3600", "xmcap",
  )  # fmt: skip


@pytest.mark.parametrize(
  "options, message",
  [
    ({"protocol": "paligema"}, "unknown protocol 'paligema'; did you mean 'paligemma'"),
    ({"protocol": ""}, "unknown protocol ''"),
    ({"protocol": "florenz"}, "--protocol=florenz: its words are stanza's"),
    ({"protocol": "paligemma", "tokenizer": "char"}, "has its own words (coco): leave out --tokenizer=char"),
    ({"protocol": "xm3600", "tokenizer": "coco"}, "has its own words (default): leave out --tokenizer=coco"),
    ({"protocol": "paligemma", "metrics": "bleu_4"}, "is cider_d, not bleu_4: leave out --metrics"),
    (
      {"protocol": "paligemma", "subset": __file__},
      "is for all pictures of the references: leave out --subset",
    ),
    ({"protocol": "xm3600", "languages": "en,gsw"}, "has no gsw, but ar, bn"),
    ({"protocol": "xm3600", "document_frequencies": {"en": _FREQUENCY}}, "leave out --df"),
    ({"scale": 10}, "--scale=10: must be 1 or 100"),
  ],
)
def test_options_against_the_protocol_are_one_line_errors(options, message):
  assert message in refusal(_score, **options)


def test_protocol_leaves_out_other_languages_of_references():
  references = {key: {**held, "gsw": ["Hund"]} for key, held in _REFERENCES.items()}
  predictions = {key: {**held, "gsw": "Hund"} for key, held in _PREDICTIONS.items()}
  assert "--protocol=xm3600 has no gsw" in refusal(score, references, predictions, protocol="xm3600")
  assert set(score(references, predictions, "en,de", protocol="xm3600").table.rows) == {"de", "en"}


def test_default_protocol_is_xmcap():
  named, unnamed = _score(protocol="xmcap").table, _score().table
  assert named == unnamed and "|protocol:xmcap|" in named.signature
  assert named.metrics == ("cider", "cider_d")
  assert "protocol:" not in _score(tokenizer="char").table.signature


def test_protocol_xm3600_has_default_words_and_plain_cider():
  table = _score(protocol="xm3600").table
  assert table.metrics == ("cider",) and "|protocol:xm3600|" in table.signature
  assert table.rows["de"]["cider"] == _score().table.rows["de"]["cider"]
  assert any("not public: the segmenters" in note for note in table.notes)


def test_protocols_are_not_mixed():
  """A table without a protocol counts as xmcap."""
  new, other = _score(), _score(protocol="xm3600")
  parts = [part for part in new.table.signature.split("|") if not part.startswith("protocol:")]
  old = dataclasses.replace(new, table=dataclasses.replace(new.table, signature="|".join(parts)))
  assert compare({"a": old, "b": new}, resamples=10).rows
  message = "a follows the protocol xm3600, and b xmcap: score both with the same"
  assert message in refusal(compare, {"a": other, "b": new}, ["cider"])
  assert "a follows the protocol xmcap, and b xm3600" in refusal(compare, {"a": old, "b": other}, ["cider"])


def test_mixed_scales_are_compared_without_a_factor(tmp_path):
  other = {key: {**held, "de": "ein Hund"} for key, held in _PREDICTIONS.items()}
  write(_score(scale=100, title="a"), tmp_path / "a")
  write(score(_REFERENCES, other, title="b"), tmp_path / "b")
  a, b = read_system(tmp_path / "a"), read_system(tmp_path / "b")
  plain = compare(
    {"a": dataclasses.replace(a, table=dataclasses.replace(a.table, scale=1)), "b": b}, resamples=10
  )
  mixed = compare({"a": a, "b": b}, resamples=10)
  assert mixed.rows == plain.rows and (mixed.scale, plain.scale) == (100, 1)
  (note,) = mixed.notes
  assert note == "b: its table is at scale 1; here all scores are at scale 100"
  value = json.loads(mixed.as_json())
  assert value["scale"] == 100
  assert value["differences"][0]["score"] == pytest.approx(100 * b.table.rows["de"]["cider_d"])
  assert value["differences"][0]["difference"] == pytest.approx(100 * plain.rows[0].difference)
  assert f"{100 * b.table.rows['de']['cider_d']:.1f}" in mixed.terminal()


def test_scale_applies_to_every_output_file(tmp_path):
  write(_score(scale=100), tmp_path / "out")
  (_, *rows) = (tmp_path / "out" / "slices.csv").read_text(encoding="utf-8").splitlines()
  row = next(row for row in rows if row.startswith("script:Latn"))
  assert float(row.split(",")[-1]) == pytest.approx(100 * _score().table.means["2 languages"]["cider_d"])


@pytest.mark.parametrize(
  "protocol, baseline, message",
  [
    ("xm3600", "first", "--baseline=.*first follows the protocol xmcap, and this table xm3600"),
    (None, "paligemma", "--baseline=paligemma follows the protocol paligemma, and this table xmcap"),
    ("xm3600", "centurio", "--baseline=centurio follows the protocol centurio, and this table xm3600"),
    ("mblip", "mblip", "--baseline=mblip: its printed scores are not among xmcap's"),
  ],
)
def test_a_baseline_of_another_protocol_is_refused(tmp_path, protocol, baseline, message):
  path = files.captions(tmp_path / "r.jsonl", _REFERENCES)
  _score(title="first").table.write(tmp_path / "first")
  place = tmp_path / baseline if baseline == "first" else baseline
  with pytest.raises(UsageError, match=message):
    score_files(path, path, tmp_path / "out", baseline=place, protocol=protocol, only_tables=True)
