"""`metrics.parse`: names of metrics, and errors for unknown ones."""

import pytest

from xmcap.errors import UsageError
from xmcap.scoring import metrics


@pytest.mark.parametrize(
  "text, names",
  [
    ("cider", ("cider",)),
    ("chrf, cider", ("cider", "chrf")),
    ("bleu,rouge_l", ("bleu_1", "bleu_2", "bleu_3", "bleu_4", "rouge_l")),
    ("all", ("cider", "cider_d", "bleu_1", "bleu_2", "bleu_3", "bleu_4", "chrf", "rouge_l", "exact")),
  ],
)
def test_parse_orders_metrics_as_columns(text, names):
  assert metrics.parse(text) == names


@pytest.mark.parametrize("text, nearest", [("cidr", "cider"), ("BLEU", "bleu"), ("rouge", "rouge_l")])
def test_an_unknown_metric_suggests_the_nearest(text, nearest):
  with pytest.raises(UsageError, match=f"unknown metric '{text}'; did you mean '{nearest}'"):
    metrics.parse(text)


@pytest.mark.parametrize("text", ["", "cider,", "bertscore"])
def test_an_unknown_metric_without_a_near_one_lists_all(text):
  with pytest.raises(
    UsageError, match="unknown metric '.*'; there are: cider, cider_d, .*, bleu, similarity, all$"
  ):
    metrics.parse(text)


@pytest.mark.parametrize("text", ["cider,cider", "bleu,bleu_4", "all,exact"])
def test_a_repeated_metric_is_an_error(text):
  with pytest.raises(UsageError, match="is named twice"):
    metrics.parse(text)


@pytest.mark.parametrize("name", metrics.METRICS)
def test_each_metric_has_a_heading_and_a_signature(name):
  assert metrics.METRICS[name].heading
  assert metrics.METRICS[name].signature
