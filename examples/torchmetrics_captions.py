"""xmcap's scores as a metric of torchmetrics (1.9), also over several processes.

captions = Captions("th", {"metrics": "cider_d"})
captions.update(["สุนัขวิ่ง"], [["สุนัขวิ่งบนหญ้า", "หมา"]], ["picture1"])
captions.compute()  # {"cider_d": tensor(...)}
"""

import json

import torch
import torchmetrics
from torchmetrics.utilities import dim_zero_cat

import xmcap


class Captions(torchmetrics.Metric):
  """Scores of the captions of a language that all processes have seen: document frequencies are of the whole corpus.

  A state of torchmetrics is a tensor, so captions are gathered as the bytes of lines of JSON.
  """

  full_state_update = False
  higher_is_better = True
  is_differentiable = False

  def __init__(self, language, options=None, **of_metric):
    """Takes the code of the language, options of `xmcap.score`, and those of `torchmetrics.Metric`."""
    super().__init__(**of_metric)
    self.language, self.options = language, options or {}
    self.add_state("lines", [], dist_reduce_fx="cat")
    self.set_dtype(torch.uint8)  # else a process without captions sends floats

  def update(self, predictions, references, keys=None):
    """Adds a caption and a list of references for each picture.

    With its `keys` a picture counts once, though samplers repeat some to give all processes as many.
    """
    keys = [None] * len(predictions) if keys is None else keys
    text = "".join(f"{json.dumps(row)}\n" for row in zip(keys, predictions, references, strict=True))
    self.lines.append(torch.tensor(list(text.encode()), dtype=torch.uint8, device=self.device))

  def compute(self):
    """Returns {metric: score as `xmcap score` writes it}."""
    rows = {}
    for number, line in enumerate(bytes(dim_zero_cat(self.lines).tolist()).splitlines()):
      key, *row = json.loads(line)
      if rows.setdefault((key is None, number if key is None else key), row) != row:
        raise ValueError(f"picture {key} has two captions")
    predictions, references = zip(*rows.values(), strict=True)
    table = xmcap.score({self.language: references}, {self.language: predictions}, **self.options).table
    scores = {name: table.factor(name) * table.rows[self.language][name] for name in table.metrics}
    return {name: torch.tensor(score, dtype=torch.float64) for name, score in scores.items()}
