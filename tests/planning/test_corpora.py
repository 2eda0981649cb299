"""What building a corpus of the paper takes, by the rates of benchmarks/build_rates.py."""

import pytest

from xmcap import configuration
from xmcap.planning import corpora, topologies
from xmcap.planning import run as run_lib

CORPUS = corpora.PaperCorpus("MADE-35L", 2 * 2_048, 0, 100_000, 1.0, 2**25 / 1_024, 5_000, 6_000, 2e8)


def test_build_takes_its_pictures_and_look_ups():
  look_ups = 2 * 4  # two files of records, of which each looks into four files of captions
  assert CORPUS.core_hours() * 3600 == pytest.approx(4_096 + look_ups * corpora.LOOKUP_SECONDS)
  assert CORPUS.disk() == (4_096 * 105_000, 4_096 * 6_000) and CORPUS.memory(cores=3) == 8e8


def test_table_of_a_build_has_its_cost():
  rows = dict(corpora.building(CORPUS, cores=4, price=0.5).body)
  assert rows["hours"] == "0.3" and rows["cost at 0.5 per core-hour"] == "0.57"
  assert rows["GB of memory"] == "1.0"
  assert not [label for label in dict(corpora.building(CORPUS).body) if "cost" in label]


@pytest.mark.parametrize(
  ("mixture", "name"),
  [("cc3m_35l", "CC3M-35L"), ("coco_35l_th", "COCO-35L"), ("folder", None), ("emoji36", None)],
)
def test_corpus_of_a_mixture(mixture, name):
  corpus = corpora.of_mixture(mixture)
  assert (corpus and corpus.name) == name


@pytest.mark.parametrize(
  ("bindings", "steps"),
  [((), 9_680), (("epochs.count=2", "BATCH_SIZE=4096"), 9_680), (("MIXTURE='coco_35l_th'",), None)],
)
def test_plan_knows_the_epoch_of_a_corpus_of_the_paper(tmp_path, bindings, steps):
  no_corpus = f"DATA_DIR='{tmp_path}'"
  configuration.parse(["models/bb.gin", "runs/finetune_coco35l.gin"], [no_corpus, *bindings])
  assert run_lib.of_gin(topologies.parse("v4-128")).total_steps == steps
