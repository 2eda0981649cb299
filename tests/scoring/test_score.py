import pytest

from tests.make.refusals import refusal
from xmcap.scoring import References, Signature, score

_REFERENCES = {
  "k1": {"en": ["A dog runs.", "the dog is running"], "th": ["สุนัขวิ่ง"]},
  "k2": {"en": ["two red cats"], "th": ["แมวสองตัว"]},
  "k3": {"en": ["a house by the sea"]},
}
_PREDICTIONS = {
  "k1": {"en": "a DOG runs", "th": "สุนัขวิ่ง"},
  "k2": {"en": "a red cat", "th": ""},
  "k3": {"en": "a house by the sea"},
}


def _signature(**options):
  return Signature.parse(score(_REFERENCES, _PREDICTIONS, **options).table.signature).parts


def test_score_table_rows():
  table = score(_REFERENCES, _PREDICTIONS, title="t", metrics=("cider_d", "exact")).table
  assert (table.title, table.metrics) == ("t", ("cider_d", "exact"))
  assert {code: (row["images"], row["references"]) for code, row in table.rows.items()} == {
    "en": (3, 4),
    "th": (2, 2),
  }
  assert table.rows["en"]["exact"] == pytest.approx(2 / 3)
  assert table.rows["th"]["exact"] == 0.5
  # pycocoevalcap 1.2, Cider().compute_score on the lower-cased words without punctuation.
  assert table.rows["en"]["cider_d"] == pytest.approx(5.071271798468246, abs=1e-9)


def test_image_scores_average_to_the_row():
  result = score(_REFERENCES, _PREDICTIONS)
  assert result.statistics["th"].keys == ("k1", "k2")
  mean = result.statistics["en"].image_scores("cider").mean()
  assert mean == pytest.approx(result.table.rows["en"]["cider"], abs=1e-12)


def test_score_of_chosen_languages():
  assert list(score(_REFERENCES, {"k1": {"th": "a"}, "k2": {"th": "b"}}, ["th"]).table.rows) == ["th"]


def test_score_signature_parts():
  signature = _signature()
  assert signature["metric.cider"].startswith("n=4") and "sigma=6" in signature["metric.cider_d"]
  assert signature["document_frequency"].startswith("corpus#")
  assert "pythainlp-" in signature["tokenizer"] and signature["tokenizer"].startswith("default-")
  assert signature["normalization"] == "nfkc,lower,words"
  assert signature["languages"] == "en th"
  assert signature["images"].startswith("3#") and signature["references"].startswith("6#")
  assert (signature["subset"], signature["missing"]) == ("all", "refuse")
  assert "pythainlp" not in _signature(languages=["en"])["tokenizer"]


def test_signature_names_the_resamples():
  assert _signature(bootstrap=20, seed=4)["bootstrap"] == "20,seed=4,level=95%,document_frequency=fixed"


def test_missing_predictions_are_scored_as_empty():
  table = score(_REFERENCES, {**_PREDICTIONS, "k3": {}}, missing="empty").table
  assert table.rows == score(_REFERENCES, {**_PREDICTIONS, "k3": {"en": ""}}).table.rows
  assert table.notes == ("1 missing prediction scored as empty captions: en 1",)
  assert "missing:empty" in table.signature


def test_score_parses_languages_and_metrics_from_text():
  table = score(_REFERENCES, _PREDICTIONS, "th,en", metrics="cider,bleu", keep="words").table
  assert list(table.rows) == ["en", "th"]
  assert table.metrics == ("cider", "bleu_1", "bleu_2", "bleu_3", "bleu_4")


def test_single_image_is_noted_as_its_cider_is_0():
  one = {"k": {"en": ["a dog"], "th": ["แมว"]}, "m": {"en": ["a cat"]}}
  predictions = {key: {code: texts[0] for code, texts in of.items()} for key, of in one.items()}
  result = score(one, predictions, keep=["document_frequency"])
  (note,) = result.table.notes
  assert "single image is 0 by definition" in note and ": th; give" in note and "--df" in note
  frequencies = result.document_frequencies
  assert score(one, predictions, document_frequencies=frequencies).table.notes == ()
  assert score(one, predictions, metrics=["chrf"]).table.notes == ()


@pytest.mark.parametrize(
  "options, message",
  [
    ({"bootstrap": -1}, "--bootstrap: must be a whole number from 0 to"),
    ({"bootstrap": 1.5}, "bootstrap=1.5 must be a whole number"),
    ({"bootstrap": 5, "seed": -1}, "--seed: must be a whole number from 0 to"),
    ({"metrics": "cidr"}, "did you mean 'cider'"),
    ({"metrics": []}, "metrics: () is not a list of names"),
    ({"metrics": [1]}, "metrics=[1] must be a string or a list of strings or None"),
    ({"languages": "eng"}, "did you mean 'en'"),
    ({"languages": []}, "languages: () is not a list of names"),
    ({"missing": "drop"}, "choose refuse or empty"),
    ({"subset": "xm600"}, "give xm600:SEED"),
    ({"tokenizer": "defalt"}, "did you mean 'default'"),
    ({"tokenizer": "given"}, "needs references with caption/tokenized"),
    (
      {"metrics": "meteor", "languages": ["en", "th"]},
      "metric 'meteor' is for en only, not for th; score only",
    ),
    ({"metrics": "spice"}, "metric 'spice' is for en only, not for th"),
    ({"wrong_language": "drop"}, "--wrong_language=drop: must be keep or zero"),
    ({"clean": "thnk"}, "--clean=thnk: unknown kind; there are subwords, escapes, entities, mojibake, "),
    ({"normalize": "orthografy"}, "unknown normalisation 'orthografy'; did you mean 'orthography'"),
  ],
)
def test_invalid_score_options_are_refused(options, message):
  assert message in refusal(score, _REFERENCES, _PREDICTIONS, **options)


def test_intervals_cover_languages_and_means():
  table = score(_REFERENCES, _PREDICTIONS, bootstrap=50).table
  assert table.intervals.keys() == {"en", "th", "2 languages"}
  for name, scores in [*table.rows.items(), *table.means.items()]:
    low, high = table.intervals[name]["cider"]
    assert low <= scores["cider"] <= high


def test_other_document_frequencies_change_scores_and_signature():
  held = score(_REFERENCES, _PREDICTIONS, keep=["document_frequency"]).document_frequencies
  same = score(_REFERENCES, _PREDICTIONS, document_frequencies=held).table
  assert same.rows == score(_REFERENCES, _PREDICTIONS).table.rows
  parts, corpus = Signature.parse(same.signature).parts, _signature()
  assert parts["document_frequency"] == corpus["document_frequency"].replace("corpus", "file")


def test_document_frequencies_of_the_language_are_demanded():
  frequencies = score(_REFERENCES, _PREDICTIONS, ["en"], keep=["document_frequency"]).document_frequencies
  assert "lacks 'th'" in refusal(score, _REFERENCES, _PREDICTIONS, document_frequencies=frequencies)


def test_tokenizer_given_takes_words_of_references():
  references = References(_REFERENCES, {}, _REFERENCES)
  assert score(references, _PREDICTIONS, ["en"], tokenizer="given").table.rows["en"]["images"] == 3


def test_subset_leaves_images_out(tmp_path):
  (tmp_path / "keys").write_text("k3\nk1\n")
  result = score(_REFERENCES, _PREDICTIONS, subset=str(tmp_path / "keys"))
  assert result.statistics["en"].keys == ("k1", "k3")
  assert "subset:file#" in result.table.signature


def test_score_keep_words_returns_tokens():
  words = score(_REFERENCES, _PREDICTIONS, keep=["words"]).words
  assert words["en"].hypotheses[0] == "a dog runs"
  assert words["en"].references[0] == ("a dog runs", "the dog is running")


def test_health_holds_copies():
  result = score({"k": {"en": ["taxi"], "de": ["Taxi"]}}, {"k": {"en": "taxi", "de": "Taxi"}}, health=True)
  assert result.health["en"].copy == result.health["de"].copy == 1.0
  assert result.health["en"].empty == 0.0


@pytest.mark.parametrize("tokenizer", ["13a", "whitespace", "raw", "split"])
def test_captions_without_spaces_as_one_word_are_said(tokenizer):
  texts = {"zh": "两只狗在沙滩上奔跑", "th": "สุนัขสองตัววิ่งบนชายหาด", "en": "two dogs run on a beach"}
  references = {f"k{i}": {code: [text] for code, text in texts.items()} for i in range(3)}
  captions = {key: dict(texts) for key in references}
  note = f"th, zh: captions have no spaces, so --tokenizer={tokenizer} leaves nearly each as one word"
  assert any(note in text for text in score(references, captions, tokenizer=tokenizer).table.notes)
  for other in ("default", "char"):
    assert not any("one word" in text for text in score(references, captions, tokenizer=other).table.notes)
  split = {key: {"zh": "两只 狗 在 沙滩 上 奔跑"} for key in references}
  listed = {key: {"zh": [held["zh"]]} for key, held in split.items()}
  assert not any("one word" in text for text in score(listed, split, tokenizer=tokenizer).table.notes)
