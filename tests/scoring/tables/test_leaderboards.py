"""Scores for the Hub and Every Eval Ever, read back by the Hub's own parser and held to the schema's facts."""

import dataclasses
import json
import re
import uuid

import huggingface_hub
import pytest
import yaml

from tests.make import files
from tests.make.command import xmcap
from tests.make.refusals import refusal
from xmcap import languages
from xmcap.reading import provenance
from xmcap.scoring import Table
from xmcap.scoring.tables import leaderboards

_SIGNATURE = (
  "metric.cider_d:n=4|metric.chrf:nc=6|metric.exact:unit=words|tokenizer:default-1[all]|"
  "captioner:Q/VL,prompt=p1,direct,shots=0,extra_body=#93039ced3eca639c|bootstrap:100,seed=0,level=95%|xmcap:0.1.0"
)
_INTERVALS = {"cider_d": (1.0, 2.0), "chrf": (45.0, 55.0), "exact": (0.25, 0.75)}
_PROVENANCE = {
  "model": "Q/VL", "strategy": "direct", "shots": [], "extra_body": {"seed": 7, "temperature": None},
  "prompt": {
    "name": "p1", "text": "In {language}", "texts": {"th": "บรรยาย"}, "max_tokens": 96,
    "parameters": {"temperature": 0, "top_p": 0.5},
  },
  "ended": "2026-11-29T10:00:00+00:00", "endpoint": "http://secret.host/v1",
}  # fmt: skip


def _table(codes=("en", "th"), scale=1, **more):
  rows = {
    code: {"images": 600, "references": 1200, "cider_d": 1.25 + place, "chrf": 50.0, "exact": 0.5}
    for place, code in enumerate(codes)
  }
  table = Table.of_rows(_SIGNATURE, rows, scale=scale, **more)
  return dataclasses.replace(table, intervals=dict.fromkeys(table.scores, _INTERVALS))


def _captions(tmp_path, **changes):
  path = files.captions(tmp_path / "c.jsonl", {"1": {"en": "a"}})
  provenance.write(path, {**_PROVENANCE, **changes})
  return path


def _entries(text):
  return huggingface_hub.parse_eval_result_entries(yaml.safe_load(text))


@pytest.mark.parametrize(
  ("scale", "metric", "value", "scale_text"),
  [
    (1, "cider_d", 1.75, "CIDEr-D, mean over 2 languages; on a scale of 0 to 10; 95% interval 1 to 2; 600 images a"),
    (100, "cider_d", 175.0, "on a scale of 0 to 1000; 95% interval 100 to 200"),
    (100, "chrf", 50.0, "chrF, mean over 2 languages; on a scale of 0 to 100; 95% interval 45 to 55"),
    (100, "exact", 0.5, "on a scale of 0 to 1; 95% interval 0.25 to 0.75"),
  ],
)  # fmt: skip
def test_hub_entry_is_at_the_scale_of_table_json_and_says_so(scale, metric, value, scale_text):
  table = _table(scale=scale)
  (entry,) = _entries(leaderboards.hub(table, "a/xm3600@f00", "captioning", metric))
  written = json.loads(table.as_json())["means"]["2 languages"][metric]
  assert entry.value == value == (written["score"] if isinstance(written, dict) else written)
  assert (entry.dataset_id, entry.task_id, entry.dataset_revision) == ("a/xm3600", "captioning", "f00")
  assert scale_text in entry.notes and entry.date is None
  # Parts of other metrics do not decide this score.
  assert entry.notes.endswith(f"|tokenizer{_SIGNATURE.partition('|tokenizer')[2]}")
  assert re.findall(r"metric\.(\w+)", entry.notes) == [metric]


def test_hub_entries_of_each_language_with_generation_parameters(tmp_path):
  table = _table()
  generation = leaderboards.Generation.read(table, _captions(tmp_path))
  entries = _entries(leaderboards.hub(table, "a/b", "caption_{language}", generation=generation))
  assert {entry.task_id: entry.value for entry in entries} == {"caption_en": 1.25, "caption_th": 2.25}
  assert (
    "Thai; on" in entries[1].notes and "; 600 images; max_tokens=96; top_p=0.5; seed=7; " in entries[1].notes
  )
  assert entries[0].date == "2026-11-29T10:00:00+00:00"


def test_hub_row_of_the_36_languages_defaults_to_all():
  table = _table(languages.LANGUAGES)
  (entry,) = _entries(leaderboards.hub(table, "a/b", "t"))
  assert entry.value == table.means["36"]["cider_d"]
  (entry,) = _entries(leaderboards.hub(table, "a/b", "t", row="all but en"))
  assert entry.value == table.means["all but en"]["cider_d"] and "mean over all but en" in entry.notes


def test_yaml_reads_odd_texts_and_small_numbers_as_they_are():
  odd = 'a "b": \\ \t\x85\u2028\ufeff😀 # - {ก}'
  table = dataclasses.replace(_table(["en"]), signature=f"tokenizer:{odd}|xmcap:1")
  rows = {"en": {**table.rows["en"], "cider_d": 1e-05}}
  (entry,) = _entries(leaderboards.hub(dataclasses.replace(table, rows=rows), "a/b", odd, row="en"))
  assert entry.value == 1e-05 and entry.task_id == odd and odd in entry.notes


@pytest.mark.parametrize(
  ("arguments", "message"),
  [
    (("xm3600", "t"), "--dataset=xm3600: give OWNER/NAME"),
    (("a/../b", "t"), "--dataset=a/../b: give OWNER/NAME"),
    (("a/b", "t", "bleu_4"), "--metric=bleu_4: the table has cider_d, chrf, exact"),
    (("a/b", "t", "", "36"), "--row=36: the table has en, th, 2 languages"),
    (("a/b", "{language}", "", "en"), "--row=en: --task={language} is for each language"),
  ],
)
def test_hub_refuses_what_the_table_lacks(arguments, message):
  assert message in refusal(leaderboards.hub, _table(), *arguments)


def _strings(details):
  return all(type(value) is str for value in details.values())


def test_every_eval_ever_record_has_what_the_schema_requires(tmp_path):
  """Facts of evaleval/every_eval_ever's eval.schema.json 0.3.0 and its merge checks, at 9bce4136."""
  table = _table(scale=100, notes=("3 predictions missing",))
  generation = leaderboards.Generation.read(table, _captions(tmp_path))
  path, text = leaderboards.record(
    table, "Qwen/VL-7B", "a/xm3600", "Us", "third_party", 1_800_000_000, generation
  )
  value = json.loads(text)
  folder, _, name = path.rpartition("/")
  assert folder == "data/xm3600/Qwen/VL-7B" and uuid.UUID(name.removesuffix(".json")).version == 4
  assert value.keys() == {
    "schema_version", "evaluation_id", "retrieved_timestamp", "source_metadata", "model_info", "eval_library",
    "evaluation_results", "evaluation_timestamp",
  }  # fmt: skip
  assert (value["retrieved_timestamp"], value["evaluation_timestamp"]) == ("1800000000", "1795946400")
  assert value["source_metadata"]["source_type"] == "evaluation_run"
  assert value["model_info"]["additional_details"].keys() == {"deployment_type", "model_availability"}
  library = value["eval_library"]
  assert library["version"] == "0.1.0" and library["additional_details"]["signature"] == _SIGNATURE
  assert "3 predictions missing" in library["additional_details"]["notes"]
  results = {
    (one["evaluation_name"], one["metric_config"]["metric_id"]): one for one in value["evaluation_results"]
  }
  assert len(results) == 9  # two languages and their mean, three metrics
  for result in results.values():
    assert (
      result["source_data"]["hf_repo"] == "a/xm3600" and result["source_data"]["source_type"] == "hf_dataset"
    )
    config, details = result["metric_config"], result["score_details"]
    assert config["lower_is_better"] is False and config["score_type"] == "continuous"
    assert config["min_score"] <= details["score"] <= config["max_score"]
    assert details["uncertainty"]["num_samples"] == 600
    assert _strings(details["details"]) and _strings(result["generation_config"]["additional_details"])
  thai = results["xm3600.th", "xmcap.cider_d"]
  assert thai["score_details"]["score"] == 225.0 and thai["metric_config"]["max_score"] == 1000.0
  ends = thai["score_details"]["uncertainty"]["confidence_interval"]
  assert ends == {
    "lower": 100.0,
    "upper": 200.0,
    "confidence_level": 0.95,
    "method": "bootstrap:100,seed=0,level=95%",
  }
  assert thai["generation_config"] == {
    "generation_args": {"prompt_template": "บรรยาย", "max_tokens": 96, "top_p": 0.5},
    "additional_details": {"prompt": "p1", "strategy": "direct", "shots": "0", "seed": "7"},
  }
  shares = results["xm3600.mean_2_languages", "xmcap.exact"]
  assert shares["metric_config"]["metric_unit"] == "proportion" and shares["score_details"]["score"] == 0.5
  assert "secret.host" not in text


def test_equal_scores_have_equal_paths_and_others_do_not():
  def path(table, model="Q/a"):
    return leaderboards.record(table, model, "a/b", "Us", "other", 1)[0]

  assert path(_table()) == path(_table()) != path(_table(scale=100))
  assert path(_table()).rpartition("/")[2] != path(_table(), "Q/b").rpartition("/")[2]


def test_perfect_scores_that_rounding_lifts_stay_within_their_bounds():
  rows = {
    "en": {
      "images": 1,
      "references": 1,
      "cider_d": 10.000000000000002,
      "chrf": 100.00000000000001,
      "exact": 1.0,
    }
  }
  value = json.loads(leaderboards.record(Table.of_rows(_SIGNATURE, rows), "a/b", "a/b", "Us", "other", 1)[1])
  for result in value["evaluation_results"]:
    assert result["score_details"]["score"] <= result["metric_config"]["max_score"]


@pytest.mark.parametrize(
  ("changes", "message"),
  [
    (
      {"model": "Q/other"},
      "captions of Q/other,prompt=p1,direct,shots=0,extra_body=#93039ced3eca639c, but the scores are of Q/VL,",
    ),
    ({"ended": "yesterday"}, "c.provenance.json: damaged ("),
    ({"prompt": {"name": "p1"}}, "c.provenance.json: damaged ("),
  ],
)
def test_provenance_of_other_captions_is_refused(tmp_path, changes, message):
  assert message in refusal(leaderboards.Generation.read, _table(), _captions(tmp_path, **changes))


def test_commands_write_from_the_folder_of_scores(tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  _table().write("scores")
  captions = _captions(tmp_path)
  hub = ("results", "hub", "scores", "--dataset=a/b", "--task=t", f"--predictions={captions}")
  xmcap(*hub, "--out=.eval_results/x.yaml").succeeded("the Hub shows it if a/b is a benchmark there")
  assert _entries((tmp_path / ".eval_results/x.yaml").read_text(encoding="utf-8"))[0].value == 1.75
  record = ("results", "every-eval-ever", "scores", "--dataset=a/b", "--model=Q/VL", "--organization=Us")
  result = xmcap(*record, "--relationship=first_party", "--out=eee").succeeded("eee/data/b/Q/VL/")
  assert json.loads((tmp_path / result.out.strip()).read_text(encoding="utf-8"))["schema_version"] == "0.3.0"
  xmcap(*record, "--relationship=mine", "--out=eee").refused("--relationship", "first_party")
  xmcap(*hub, "--out=x.json").refused("--out=x.json: is written as .yaml or .yml")
  captions.with_name("c.provenance.json").unlink()
  xmcap(*hub, "--out=y.yaml").refused("captions of no known captioner")
  _captions(tmp_path).unlink()
  xmcap(*hub, "--out=y.yaml").refused("captions of no known captioner")
  xmcap("results", "hub", "scores", "--dataset=a/b", "--task=", "--out=y.yaml").refused("required: --task")
