"""`metrics.parse`: names of metrics, and errors for unknown ones."""

import pytest

from tests.make.refusals import refusal
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


@pytest.mark.parametrize(
  "text, message",
  [
    ("cidr", "unknown metric 'cidr'; did you mean 'cider'"),
    ("BLEU", "unknown metric 'BLEU'; did you mean 'bleu'"),
    ("rouge", "unknown metric 'rouge'; did you mean 'rouge_l'"),
    ("", "unknown metric ''; there are: cider, cider_d, "),
    ("cider,", "unknown metric ''; there are: cider, cider_d, "),
    ("bertscore", "unknown metric 'bertscore'; did you mean 'bert_score'"),
    ("cider,cider", "is named twice"),
    ("bleu,bleu_4", "is named twice"),
    ("all,exact", "is named twice"),
  ],
)
def test_parse_refuses_unknown_and_repeated_metrics(text, message):
  assert message in refusal(metrics.parse, text)


def test_metrics_have_headings_and_signatures():
  named = (metric for name, metric in metrics.METRICS.items() if name != "bert_score")  # which needs a model
  assert all(metric.heading and metric.signature for metric in named)
