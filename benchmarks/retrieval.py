"""Retrieval of XM3600's size from embeddings on the disk, against torch's topk; and label ensembles.

36 languages, 3,600 pictures, 261,375 captions, width 768, random. Each side is a process of its own that reads the
files and computes R@1, 5, 10 both ways: xmcap with the expected rank on ties, torch by `topk`. And zero-shot labels by
80 prompts of 10 languages with 375 classes each, of which the texts a second and the memory do not depend on how many
languages there are: Babel-ImageNet has 2,938,570 such texts.

usage: python benchmarks/retrieval.py [repeats]
"""

import json
import pathlib
import statistics
import sys
import tempfile

import numpy as np
import report
import scoring

_WIDTH, _PICTURES, _CAPTIONS = 768, 3_600, 261_375
_LANGUAGES, _PROMPTS, _CLASSES, _TEXTS = 10, 80, 375, 2_938_570

_PEER = """
import json, pathlib, sys
import numpy as np, torch

folder = pathlib.Path(sys.argv[1])
unit = torch.nn.functional.normalize
pictures = unit(torch.from_numpy(np.load(folder / "pictures.npy")))
for code, lists in json.loads((folder / "captions.json").read_text())["captions"].items():
  image = torch.tensor([i for i, texts in enumerate(lists) for _ in texts])
  scores = unit(torch.from_numpy(np.load(folder / f"texts/{code}.npy"))) @ pictures.T
  t2i = scores.topk(10, dim=1).indices == image[:, None]
  i2t = image[scores.T.topk(10, dim=1).indices] == torch.arange(len(pictures))[:, None]
  print(code, *[hits[:, :k].any(dim=1).float().mean().item() for hits in (t2i, i2t) for k in (1, 5, 10)])
"""


def main() -> None:
  """Prints what the docstring says."""
  repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 3
  with tempfile.TemporaryDirectory() as held:
    folder = pathlib.Path(held)
    _retrieval(folder / "xm3600")
    _labels(folder / "labels")
    xmcap = [sys.executable, "-m", "xmcap.cli", "score"]
    files = folder / "xm3600"
    labels = folder / "labels"
    runs = {
      "torch: matrix product and topk": [sys.executable, "-c", _PEER, str(files)],
      "xmcap score retrieval": [
        *xmcap, "retrieval", f"--pictures={files}/pictures.npy", f"--captions={files}/captions.json",
        f"--texts={files}/texts", f"--out={folder}/scores",
      ],
      "xmcap score zero-shot, labels by 80 prompts": [
        *xmcap, "zero-shot", f"--pictures={labels}/pictures.npy", f"--targets={labels}/targets.npy",
        f"--labels={labels}/labels.json", f"--texts={labels}/texts", f"--out={folder}/labelled",
      ],
    }  # fmt: skip
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(repeats):
      for name, command in runs.items():
        times[name].append(scoring._seconds(command))
    memory = {name: scoring._megabytes(command) for name, command in runs.items()}
  medians = {name: statistics.median(of_name) for name, of_name in times.items()}
  for name, median in medians.items():
    print(f"{median:8.1f} s  {memory[name]:8.0f} MB  {name}")
  rate = _LANGUAGES * _PROMPTS * _CLASSES / medians["xmcap score zero-shot, labels by 80 prompts"]
  report.write(
    "retrieval",
    "Retrieval at the size of XM3600, and label ensembles, from embeddings on disk",
    [(name, f"{median:.1f}", f"{memory[name]:,.0f}") for name, median in medians.items()],
    columns=(f"{_CAPTIONS:,} captions x {_PICTURES:,} pictures x {_WIDTH}", "seconds", "MB"),
    notes=[
      f"Medians of {repeats} alternating runs.",
      f"Ensembles: {_LANGUAGES * _PROMPTS * _CLASSES:,} texts of {_LANGUAGES} languages, {rate:,.0f} texts per second, "
      f"including start-up and 1,000 pictures; extrapolated, {_TEXTS / rate:,.0f} s for Babel-ImageNet's {_TEXTS:,}. "
      "Memory holds one language at a time.",
    ],
  )


def _retrieval(folder: pathlib.Path) -> None:
  from xmcap import languages

  rng = np.random.default_rng(0)
  (folder / "texts").mkdir(parents=True)
  pictures = rng.standard_normal((_PICTURES, _WIDTH), np.float32)
  np.save(folder / "pictures.npy", pictures)
  captions = {}
  ends = np.linspace(0, _CAPTIONS, len(languages.LANGUAGES) + 1).astype(int)
  for code, count in zip(languages.LANGUAGES, np.diff(ends), strict=True):
    image = np.sort(np.concatenate([np.arange(_PICTURES), rng.integers(0, _PICTURES, count - _PICTURES)]))
    noise = rng.standard_normal((count, _WIDTH), np.float32)
    np.save(folder / f"texts/{code}.npy", pictures[image] + 12 * noise)
    captions[code] = [
      [f"{i}"] * int(number) for i, number in enumerate(np.bincount(image, minlength=_PICTURES))
    ]
  (folder / "captions.json").write_text(json.dumps({"images": list(range(_PICTURES)), "captions": captions}))


def _labels(folder: pathlib.Path) -> None:
  from xmcap import languages

  rng = np.random.default_rng(1)
  (folder / "texts").mkdir(parents=True)
  np.save(folder / "pictures.npy", rng.standard_normal((1_000, _WIDTH), np.float32))
  np.save(folder / "targets.npy", np.arange(1_000) % _CLASSES)
  labels = {}
  for code in list(languages.LANGUAGES)[:_LANGUAGES]:
    texts = rng.standard_normal((_PROMPTS, _CLASSES, _WIDTH), np.float32)
    np.save(folder / f"texts/{code}.npy", texts.astype(np.float16))
    labels[code] = [list(range(_CLASSES)), [f"{code} {i}" for i in range(_CLASSES)]]
  (folder / "labels.json").write_text(json.dumps(labels))


if __name__ == "__main__":
  main()
