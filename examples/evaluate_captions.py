"""xmcap's scores as a metric of Hugging Face's evaluate (0.4).

captions = evaluate.load("examples/evaluate_captions.py")
captions.compute(predictions=["a dog"], references=[["a dog", "the dog"]], language="en", metrics="cider_d")
"""

import datasets
import evaluate

import xmcap

_TEXT = datasets.Value("string")


class Captions(evaluate.Metric):
  """Scores of the captions of a language, all together: document frequencies are those of the whole corpus."""

  def _info(self):
    several = datasets.Features({"predictions": _TEXT, "references": datasets.Sequence(_TEXT)})
    one = datasets.Features({"predictions": _TEXT, "references": _TEXT})
    return evaluate.MetricInfo(
      description=self.__doc__,
      citation="",
      inputs_description="A caption and one or more references of each picture; language, and options of xmcap.score",
      features=[several, one],
    )

  def _compute(self, predictions, references, language, **options):
    """Returns {metric: score as `xmcap score` writes it, "signature": what determines them}."""
    table = xmcap.score({language: references}, {language: predictions}, **options).table
    scores = {name: table.factor(name) * table.rows[language][name] for name in table.metrics}
    return {**scores, "signature": table.signature}
