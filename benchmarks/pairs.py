"""Two of a command at once into one output: afterwards it is what an undisturbed one writes, to the bit.

usage: python benchmarks/pairs.py [--pairs=100] [--commands=build,train,score,convert] [--seed=0]
The second process of a pair begins at a random moment of the first one's time. Either it is refused, in one line that
names the first, or it comes when the first has ended, and finds its work done or does it again. Anything else counts
as wrong, and so does an output that differs in one byte (of training: in one bit of the parameters) from an
undisturbed one, and anything that stays beside it.
  build    `data build xm3600` of 30 generated pictures in 36 languages
  train    40 steps of a small network with a checkpoint every 10
  score    60 pictures in 3 languages, tables, report and all
  convert  a small ViT of big_vision
"""

import argparse
import dataclasses
import hashlib
import json
import multiprocessing
import os
import pathlib
import random
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from benchmarks import report

REFUSED = re.compile(r"is being written by process (\d+) on \S+ \(xmcap ")

# Of a network that knows nothing of text: the vocabulary is there for the folder alone.
TOY = """
import xmcap.tasks.emoji36
import xmcap.training.loop
MIXTURE = 'emoji36'
MODEL_DIR = ''
emoji36.data_dir = '{data}'
emoji36.vocabulary = ''
train.model_dir = %MODEL_DIR
train.objective = @ToyObjective()
train.stream = @ToyStream()
train.total_steps = 40
hooks.log_every = 20
Writers.tensorboard = False
train.checkpoint = @CheckpointPolicy()
CheckpointPolicy.every = 10
Optimizer.transformation = @adam
Optimizer.schedule = @ConstantThenRsqrt()
ConstantThenRsqrt.learning_rate = 1e-2
ConstantThenRsqrt.constant_steps = None
"""


def side(arguments: list[str], log: str, ready, begin, delay: float) -> None:
  """One process of a pair; the command as a user types it."""
  out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
  os.dup2(out, 1)
  os.dup2(out, 2)
  import gin

  from tests.training import toy
  from xmcap import cli

  if arguments[0] == "train":
    gin.external_configurable(toy.ToyObjective)
    gin.external_configurable(toy.ToyStream)
  ready.set()
  begin.wait()
  time.sleep(delay)
  code = cli.main(arguments)
  sys.stdout.flush()
  sys.stderr.flush()
  os._exit(code)


def files_of(folder: pathlib.Path) -> dict[str, str]:
  """Every file's path -> the hash of its bytes."""
  return {
    str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
    for path in folder.rglob("*")
    if path.is_file()
  }


def parameters_of(folder: pathlib.Path) -> dict[str, str]:
  """Every parameter of the newest checkpoint -> the hash of its bits; and what steps have checkpoints."""
  from xmcap.training.checkpoints import weights

  found = weights.open_weights(folder)
  steps = sorted(path.name for path in (folder / "checkpoints").iterdir())
  hidden = sorted(path.name for path in folder.glob(".*"))
  return {
    **{name: hashlib.sha256(tensor.read().tobytes()).hexdigest() for name, tensor in found.tensors.items()},
    "steps": " ".join(steps),
    "hidden": " ".join(hidden),
  }


@dataclasses.dataclass
class Command:
  """A command: its words without the output, the option of that, and what counts of what it wrote."""

  words: list[str]
  out: str = "--out="
  read: Callable[[pathlib.Path], dict[str, str]] = files_of
  done: str = ""  # what one that comes later may be refused by


def commands(folder: pathlib.Path) -> dict[str, Command]:
  """Makes the inputs of all."""
  import numpy as np

  from tests.convert import test_big_vision
  from tests.corpora import release_folders as releases
  from tests.make import tiny_corpus

  release = releases.write_xm3600(folder / "release", images=30)
  build = [f"--{role}={path}" for role, path in release.paths.items()]
  (folder / "corpus").mkdir()
  tiny_corpus.write_corpus(
    folder / "corpus", [tiny_corpus.tiny_record(index) for index in range(tiny_corpus.NUM_PICTURES)]
  )
  (folder / "toy.gin").write_text(TOY.format(data=folder / "corpus"))
  with (
    open(folder / "references.jsonl", "w") as references,
    open(folder / "predictions.jsonl", "w") as predictions,
  ):
    for number in range(60):
      key = f"{number:04d}"
      captions = {code: {"caption": [f"{code} {number} one", f"{code} two"]} for code in ("en", "de", "fr")}
      references.write(json.dumps({"image/key": key, "image/locale": "en", **captions}) + "\n")
      for code in captions:
        row = {"image/key": key, "language": code, "caption": f"{code} {number % 7} one"}
        predictions.write(json.dumps(row) + "\n")
  np.savez(folder / "vit.npz", **test_big_vision.make())
  score = [f"--{name}={folder / name}.jsonl" for name in ("references", "predictions")]
  return {
    "build": Command(["data", "build", "xm3600", *build, "--processes=1"]),
    "train": Command(["train", f"--gin_file={folder / 'toy.gin'}"], "--gin.MODEL_DIR=", parameters_of),
    "score": Command(["score", *score, "--processes=2"]),
    "convert": Command(["convert", f"--input={folder / 'vit.npz'}"], done="is there already"),
  }


class Pairs:
  """Pairs of one command.

  Args:
    name, command: of `commands`.
    folder: to work in.
    context: of `multiprocessing`.
  """

  def __init__(self, name: str, command: Command, folder: pathlib.Path, context):
    self.name, self.command, self.folder, self.context = name, command, folder, context
    self.counts = {"pairs": 0, "refused": 0, "came later": 0, "wrong": 0}
    (result,) = self.start(folder / "undisturbed", [0.0])
    assert result[0] == 0, result[1]
    self.alone = self.seconds
    self.wanted = command.read(folder / "undisturbed")

  def start(self, out: pathlib.Path, delays: list[float]) -> list[tuple[int, str, int]]:
    """Runs the command once for each delay, all at once; returns exit codes, what they said, and process numbers."""
    begin, processes = self.context.Event(), []
    for number, delay in enumerate(delays):
      ready, log = self.context.Event(), f"{out}.{number}.log"
      words = [*self.command.words, f"{self.command.out}{out}"]
      process = self.context.Process(target=side, args=(words, log, ready, begin, delay))
      process.start()
      ready.wait()
      processes.append((process, log))
    began = time.monotonic()
    begin.set()
    found = []
    for process, log in processes:
      process.join(120)
      if process.is_alive():
        process.kill()
        raise SystemExit(f"{self.name} hung: {pathlib.Path(log).read_text()}")
      found.append((process.exitcode, pathlib.Path(log).read_text(), process.pid))
    self.seconds = time.monotonic() - began
    return found

  def pair(self, number: int, rng: random.Random) -> str:
    """One pair; returns what is wrong with it, "" if nothing is."""
    out = self.folder / f"pair{number}"
    found = self.start(out, rng.sample([0.0, rng.uniform(0, self.alone)], 2))
    self.counts["pairs"] += 1
    wrong = ""
    for place, (code, said, _) in enumerate(found):
      lines = [line for line in said.splitlines() if line.startswith("xmcap: error: ")]
      if code == 0:
        continue
      by = REFUSED.search(lines[0]) if len(lines) == 1 else None
      if by and int(by[1]) == found[1 - place][2] and found[1 - place][0] == 0 and code == 1:
        self.counts["refused"] += 1
      elif not (self.command.done and len(lines) == 1 and self.command.done in lines[0]):
        wrong = f"exit code {code}: {said}"
    if all(code == 0 or not REFUSED.search(said) for code, said, _ in found):
      self.counts["came later"] += 1
    if not wrong and (there := self.command.read(out)) != self.wanted:
      differing = [
        name for name in there.keys() | self.wanted.keys() if there.get(name) != self.wanted.get(name)
      ]
      wrong = f"differs: {', '.join(sorted(differing))}"
    self.counts["wrong"] += bool(wrong)
    if not wrong:
      shutil.rmtree(out)
    return wrong


def main() -> None:
  """See the head of the file."""
  parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("--pairs", type=int, default=100)
  parser.add_argument("--commands", default="build,train,score,convert")
  parser.add_argument("--seed", type=int, default=0)
  options = parser.parse_args()
  os.environ.setdefault("JAX_PLATFORMS", "cpu")
  os.environ.setdefault(
    "JAX_COMPILATION_CACHE_DIR", os.path.join(tempfile.gettempdir(), "xmcap-benchmark-programs")
  )
  os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
  # Libraries are imported once; no side initialises jax in the process that the others come from.
  context = multiprocessing.get_context("forkserver")
  context.set_forkserver_preload(
    ["tests.training.toy", "xmcap.cli", "xmcap.convert.importing", "xmcap.corpora.releases.xm3600",
     "xmcap.evaluation.model_dir", "xmcap.pages.output", "xmcap.pages.report", "xmcap.tasks.emoji36",
     "xmcap.training.loop"]
  )  # fmt: skip
  counts = {}
  with tempfile.TemporaryDirectory() as place:
    root = pathlib.Path(place)
    made = commands(root)
    for name in options.commands.split(","):
      (root / name).mkdir()
      began = time.monotonic()
      pairs, rng = Pairs(name, made[name], root / name, context), random.Random(options.seed)
      for number in range(options.pairs):
        if wrong := pairs.pair(number, rng):
          print(f"{name}, pair {number}: {wrong}", flush=True)
      counts[name] = pairs.counts | {"seconds": round(time.monotonic() - began, 1)}
      print(f"{name}: {counts[name]}", flush=True)
  print(
    "\n| command | pairs | second refused | second started later | wrong |\n| --- | --- | --- | --- | --- |"
  )
  for name, row in counts.items():
    print(f"| {name} | {row['pairs']} | {row['refused']} | {row['came later']} | {row['wrong']} |")
  report.write(
    "pairs",
    "One command started twice with one output",
    [
      (name, *(f"{row[column]}" for column in ("pairs", "refused", "came later", "wrong")))
      for name, row in counts.items()
    ],
    columns=("command", "pairs", "second refused", "second started after the first ended", "wrong results"),
    notes=[
      "A result is wrong if it differs in any byte (training: any bit) from that of an undisturbed command."
    ],
  )
  if any(row["wrong"] for row in counts.values()):
    raise SystemExit("wrong results: see above")


if __name__ == "__main__":
  main()
