"""The adapters of evaluate and torchmetrics give what `xmcap score` gives, also over processes."""

import importlib.util
import json
import pathlib

import pytest

from tests.make import files
from tests.make.command import xmcap

_EXAMPLES = pathlib.Path(__file__).parents[2] / "examples"
_METRICS = "cider,cider_d,bleu,rouge_l"
_CAPTIONS = ["สุนัขวิ่งบนหญ้า", "แมวสองตัวนอน", "สุนัขบนชายหาด", "รถสีแดง", "คนขี่ม้า\nบนหาด"]
_REFERENCES = [
  ["สุนัขวิ่งเล่นบนหญ้า", "หมาบนหญ้า"],
  ["แมวสองตัวบนโซฟา"],
  ["สุนัขวิ่งบนชายหาด", "ชายหาด"],
  ["รถ"],
  ["ม้า"],
]


def _module(name):
  assert len((_EXAMPLES / f"{name}.py").read_text(encoding="utf-8").splitlines()) <= 60
  spec = importlib.util.spec_from_file_location(name, _EXAMPLES / f"{name}.py")
  module = importlib.util.module_from_spec(spec)
  spec.loader.exec_module(module)
  return module


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
  """What `xmcap score` writes for the same captions: metric -> score."""
  folder = tmp_path_factory.mktemp("scores")
  files.captions(folder / "p.jsonl", {str(number): {"th": text} for number, text in enumerate(_CAPTIONS)})
  files.release(folder / "r.jsonl", {str(number): {"th": texts} for number, texts in enumerate(_REFERENCES)})
  command = ("score", f"-r={folder / 'r.jsonl'}", f"-p={folder / 'p.jsonl'}", f"--metrics={_METRICS}")
  xmcap(*command, "--scale=100", "--only_tables", f"--out={folder / 'out'}").succeeded()
  row = json.loads((folder / "out/table.json").read_text(encoding="utf-8"))["languages"]["th"]
  return {name: score for name, score in row.items() if name not in ("images", "references")}


def test_evaluate(tmp_path, expected):
  pytest.importorskip(
    "evaluate", reason="evaluate is not installed: it would bring 13 packages into the lock"
  )
  metric = _module("evaluate_captions").Captions(cache_dir=str(tmp_path))
  options = {"language": "th", "metrics": _METRICS, "scale": 100}
  scores = metric.compute(predictions=_CAPTIONS, references=_REFERENCES, **options)
  assert "|scale:100|" in scores.pop("signature")
  assert scores == pytest.approx(expected, rel=1e-12)
  for start in (0, 3):
    batch = slice(start, start + 3)
    metric.add_batch(predictions=_CAPTIONS[batch], references=_REFERENCES[batch])
  assert metric.compute(**options)["cider_d"] == pytest.approx(expected["cider_d"], rel=1e-12)


@pytest.fixture
def of_torch():
  pytest.importorskip("torchmetrics", reason="torchmetrics, of the extra parity, is not installed")
  return _module("torchmetrics_captions").Captions


def _gathered(*states):
  """Stands for the all-gather of processes with these metrics."""

  def gather(tensor, group=None):
    del group
    tensors = [torch_cat(metric) for metric in states]
    assert all(one.dtype == tensor.dtype for one in tensors)
    return tensors

  def torch_cat(metric):
    import torch

    return torch.cat(metric.lines) if metric.lines else torch.tensor([], dtype=metric.dtype)

  return gather


@pytest.mark.parametrize("split", [(2, 5), (5, 5)], ids=["two processes", "one without captions"])
def test_torchmetrics_scores_the_corpus_of_all_processes(of_torch, expected, split):
  options = {"metrics": _METRICS, "scale": 100}
  first, second = of_torch("th", options), of_torch("th", options)
  first.update(_CAPTIONS[: split[0]], _REFERENCES[: split[0]])
  if split[0] < split[1]:
    second.update(_CAPTIONS[split[0] :], _REFERENCES[split[0] :])
  gather = _gathered(first, second)
  whole = of_torch("th", options, dist_sync_fn=gather, distributed_available_fn=lambda: True)
  whole.lines = [*second.lines]  # this process's
  whole._update_count = 1
  assert {name: score.item() for name, score in whole.compute().items()} == pytest.approx(expected, rel=1e-12)
  assert first.compute()["cider_d"].item() != pytest.approx(expected["cider_d"]) or split[0] == split[1]


def test_torchmetrics_counts_a_picture_once(of_torch, expected):
  metric = of_torch("th", {"metrics": _METRICS, "scale": 100})
  for picture in (0, 1, 2, 3, 4, 0):  # as a sampler repeats it
    metric.update([_CAPTIONS[picture]], [_REFERENCES[picture]], [f"k{picture}"])
  assert {name: score.item() for name, score in metric.compute().items()} == pytest.approx(
    expected, rel=1e-12
  )
  metric.update(["another"], [_REFERENCES[0]], ["k0"])
  with pytest.raises(ValueError, match="picture k0 has two captions"):
    metric.compute()
  with pytest.raises(ValueError, match="zip"):
    metric.update(["a", "b"], [["a"]])
