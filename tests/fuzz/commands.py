"""Calls of every command: what they take, which of their files are damaged, and options that nobody should give."""

import dataclasses
import os
import pathlib
import random
import shutil
from collections.abc import Callable, Sequence

from tests.fuzz import mutations, strangers
from tests.fuzz.sandbox import Case
from tests.make.small_corpus import SMALLER
from xmcap import cli


@dataclasses.dataclass(frozen=True, eq=False)
class Command:
  """How a command is called.

  Attributes:
    name: as `xmcap` has it.
    inputs: of `materials`, copied into the folder of a case.
    arguments: from a generator of random numbers to the arguments, all of them whole.
    odd: options that take numbers or texts, for values that make no sense; None: its arguments stay as they are.
    weight: how often it is called, beside others.
    limit: seconds that a call may take.
    damaged: endings of the files that are damaged; (): any.
    writes: what it may write in the folder of the case.
    leaves: whether it leaves something there that `--kills` can compare.
    call: takes the arguments and returns the exit code.
  """

  name: str
  inputs: Sequence[str]
  arguments: Callable[[random.Random], list[str]]
  odd: Sequence[str] | None = ()
  weight: float = 1.0
  limit: float = 30.0
  damaged: Sequence[str] = ()
  writes: Sequence[str] = ("out",)
  leaves: bool = True
  call: Callable[[list[str]], int] = cli.main


def prepare(command: Command, materials: pathlib.Path, folder: pathlib.Path, rng: random.Random) -> Case:
  """Copies the inputs of a call into a folder; returns the call."""
  for name in command.inputs:
    source = materials / name
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
      shutil.copytree(source, folder / name)
    else:
      shutil.copy(source, folder / name)
  return Case(
    command.name, [*command.name.split(), *command.arguments(rng)], limit=command.limit, writes=command.writes
  )


def damage(command: Command, case: Case, folder: pathlib.Path, rng: random.Random) -> Case:
  """Damages some of a call's inputs, or of its options; returns the call."""
  done, arguments = [], list(case.arguments)
  files = sorted(
    path
    for path in folder.rglob("*")
    if path.is_file() and (not command.damaged or path.name.endswith(tuple(command.damaged)))
  )
  if files and (command.odd is None or rng.random() < 0.85):
    for path in rng.sample(files, min(len(files), rng.choice((1, 1, 1, 2)))):
      done.append(mutations.damage(path, rng))
  if command.odd is not None and (not done or rng.random() < 0.15):
    done.append(_odd_option(command, arguments, rng))
  return dataclasses.replace(case, arguments=arguments, damage="; ".join(done))


def _odd_option(command: Command, arguments: list[str], rng: random.Random) -> str:
  """Changes the arguments in place: an odd value, one left out, one doubled, one that there is not."""
  # A run without its first two would take days, and rightly; a launch without its second would begin.
  start = len(command.name.split()) + 2 * (command.name in ("train", "launch"))
  match rng.randrange(6):
    case 0 if len(arguments) > start:
      return f"without {arguments.pop(rng.randrange(start, len(arguments)))}"
    case 1 if len(arguments) > start:
      place = rng.randrange(start, len(arguments))
      arguments.insert(place, arguments[place])
      return f"{arguments[place]} twice"
    case 2 if len(arguments) > start:
      place = rng.randrange(start, len(arguments))
      name, equals, _ = arguments[place].rpartition("=")
      arguments[place] = name + equals + _value(name, rng)
      return f"{arguments[place]!r}"
    case 3:
      arguments.append(
        rng.choice(("--no_such", "--", "-x", "\x1b[31m", "--gin.x=1", "--help=1", "=", "--out"))
      )
      return f"{arguments[-1]!r}"
  if command.odd:
    name = rng.choice(command.odd)
    arguments.append(f"{name}={_value(name, rng)}")
    return f"{arguments[-1]!r}"
  return "nothing"


def _value(option: str, rng: random.Random) -> str:
  """A value of an option; where that names the output, one that stays in it."""
  if not option.startswith(("--out", "--json", "--save", "--gin.MODEL_DIR", "--gin.EVAL_DIR")):
    return _text(rng)
  return f"out/{_text(rng).replace('..', '').strip('./~')}"


def _text(rng: random.Random) -> str:
  """A value of an option; the system lets none hold a NUL."""
  text = rng.choice(
    (*mutations.ODD_NUMBERS, *mutations.ODD_TEXTS, "all", "en,en", "xx", "1,2", "\udcff", "10" * 40)
  )
  # Addresses would be asked for over the network.
  return text.replace("\x00", "0").replace("gs://", "gs:/")[:300]


_CAPTIONS = ("--references=captions/references.jsonl", "--predictions=captions/predictions.jsonl")
_WAYS_TO_SCORE = (
  _CAPTIONS,
  (*_CAPTIONS, "--metrics=all", "--bootstrap=10"),
  (*_CAPTIONS, "--subset=captions/keys.txt", "--df=captions/frequencies.json"),
  ("--references=captions/coco.json", "--predictions=captions/results.json", "--language=en"),
  (
    "--references=captions/references.jsonl", "--predictions=captions/others.jsonl",
    "--baseline=captions/scored/predictions", "--missing=empty", "--no_health",
  ),
)  # fmt: skip


def _score(rng: random.Random) -> list[str]:
  # Processes of its own and dictionaries of words take nearly all of the time of a score as small as these.
  more = ["--processes=1"] if rng.random() < 0.8 else []
  more += ["--tokenizer=char"] if rng.random() < 0.7 else []
  return [*rng.choice(_WAYS_TO_SCORE), *more, "--out=out"]


def _compare(rng: random.Random) -> list[str]:
  more = ["--references=captions/references.jsonl"] if rng.random() < 0.3 else []
  return ["captions/scored/predictions", "b=captions/scored/others", "--resamples=20", "--out=out", *more]


def _sxs(rng: random.Random) -> list[str]:
  if rng.random() < 0.3:
    return ["--comparisons=core=human/core.csv", "--resamples=20", "--out=out"]
  scores = ["--scores", "A=human/A", "B=human/B", "C=human/C"] if rng.random() < 0.5 else []
  ratings = rng.choice(("human/ratings.jsonl", "human/ratings.csv"))
  return [f"--ratings={ratings}", "--resamples=20", "--out=out", *scores]


def _rate(rng: random.Random) -> list[str]:
  protocol = rng.choice(("sxs", "thumb", "coco_cn_captions", "captions/rubric.json"))
  return [f"--protocol={protocol}", "--predictions", "a=captions/predictions.jsonl",
          "b=captions/others.jsonl", "--references=captions/references.jsonl", "--out=out/page.html"]  # fmt: skip


def _build(corpus: str, *names: str) -> Callable[[random.Random], list[str]]:
  def arguments(rng: random.Random) -> list[str]:
    more = ["--on_bad=stop"] if rng.random() < 0.3 else []
    more += ["--image_size=20"] if rng.random() < 0.2 else []
    return [*(f"--{name}" for name in names), "--out=out", "--processes=1", *more]

  return arguments


def _caption(rng: random.Random) -> list[str]:
  return [
    "--model_dir=model",
    "--languages=en,th",
    *(["--json"] if rng.random() < 0.5 else []),
    "corpus/images/000000000006.png",
  ]


def _train(model_dir: str, *more: str) -> Callable[[random.Random], list[str]]:
  def arguments(rng: random.Random) -> list[str]:
    gin_files = [
      "--gin_file=gin/models/tiny.gin",
      "--gin_file=gin/data/coco35l.gin",
      "--gin_file=gin/runs/train.gin",
    ]
    return ["--gin.TOTAL_STEPS=3", "--gin.BATCH_SIZE=4", *gin_files, *SMALLER, "--gin.DATA_DIR=corpus",
            f"--gin.MODEL_DIR={model_dir}",
            "--gin.EVALUATORS=()", "--gin.Writers.tensorboard=False", "--gin.IMAGE_SIZE=16",
            "--gin.CaptionStream.target_lengths=()", "--gin.TARGET_LENGTH=8", *more]  # fmt: skip

  return arguments


def _launch(rng: random.Random) -> list[str]:
  where = rng.choice(("tpu-vm", "slurm", "xpk", "local"))
  options = {
    "tpu-vm": ["--name=n", "--project=p", "--zone=z", "--accelerator_type=v4-128"],
    "slurm": ["--name=n", "--nodes=2", "--gpus_per_node=8", "--mem=10G"],
    "xpk": ["--name=n", "--project=p", "--zone=z", "--cluster=c", "--tpu_type=v4-128", "--docker_image=i"],
    "local": ["--processes=2", "--devices=2"],
  }[where]
  odd = (
    [f"--env=A={_text(rng)}"]
    if rng.random() < 0.5
    else [f"--{rng.choice(('name', 'zone', 'restart', 'nodes'))}={_text(rng)}"]
  )
  return [
    where,
    "--dry_run",
    *options,
    *odd,
    "--",
    "train",
    "--gin_file=models/bb.gin",
    f"--gin.MODEL_DIR={_text(rng)}",
  ]


def _always(*arguments: str) -> Callable[[random.Random], list[str]]:
  return lambda rng: list(arguments)


def _from_hf(rng: random.Random) -> list[str]:
  return [f"--input=hf/{rng.choice(('t5', 'vit'))}", "--out=out"]


def _to_hf(rng: random.Random) -> list[str]:
  return [f"--input={rng.choice(('converted', 'model'))}", "--to=hf", "--out=out"]


_OF_SCORE = (
  "--languages", "--language", "--metrics", "--tokenizer", "--subset", "--bootstrap", "--seed", "--title", "--baseline",
  "--images", "--pictures", "--processes", "--missing", "--df", "--references",
)  # fmt: skip
_OF_THUMB = ("--metrics", "--tokenizer", "--language", "--human", "--resamples")
_THUMB = _always(
  "--ratings=human/thumb.jsonl", "--references=human/references.jsonl", "--resamples=20", "--out=out"
)
_SELECT = _always("human/candidates.csv", "--languages=fa,sw", "--count=3", "--out=out/selected.csv")

LIGHT = (
  Command("score", ["captions"], _score, _OF_SCORE, 6),
  Command(
    "compare", ["captions"], _compare, ("--metrics", "--resamples", "--seed", "--language", "--images"), 4
  ),
  Command("human sxs", ["human"], _sxs, ("--metric", "--baseline", "--raters", "--resamples", "--seed"), 2),
  Command("human thumb", ["human"], _THUMB, _OF_THUMB, 2),
  Command("human rubric", ["human"], _always("--ratings=human/rubric.jsonl", "--out=out"), (), 2),
  Command(
    "human quality", ["human"], _always("--ratings=human/quality.jsonl", "--out=out"), ("--raters",), 2
  ),
  Command("data select", ["human"], _SELECT, ("--languages", "--count", "--seed"), 2, writes=("out",)),
  Command("human annotations", ["human"], _always("human/annotations.jsonl", "--out=out"), (), 2),
  Command("human rate", ["captions"], _rate, ("--languages", "--limit", "--seed", "--rater", "--images"), 2),
  Command("runs", ["runs"], _always("runs/a", "runs/b"), (), 2, leaves=False),
  Command("launch", [], _launch, ("--env",), 2, writes=("out", "runs"), leaves=False),
)
"""Commands that need neither jax nor tensorflow."""

_XM3600 = _build("xm3600", "captions=xm3600/captions.zip", "images=xm3600/images.tgz")
_COCO = _build(
  "coco35l", "train_captions=coco35l/coco_mt_train.jsonl.bz2", "dev_captions=coco35l/coco_mt_dev.jsonl.bz2",
  "karpathy=coco35l/dataset_coco.json", "train_images=coco35l/train2014.zip", "val_images=coco35l/val2014.zip",
)  # fmt: skip
_CC3M = _build(
  "cc3m35l", "train_captions=cc3m35l/cc3m_mt_train.jsonl.bz2", "dev_captions=cc3m35l/cc3m_mt_dev.jsonl.bz2",
  "train_tsv=cc3m35l/Train_GCC-training.tsv", "dev_tsv=cc3m35l/Validation_GCC-1.1.0-Validation.tsv",
  "train_images=cc3m35l/train_images", "dev_images=cc3m35l/dev_images",
)  # fmt: skip
_EVAL = _always(
  "--model_dir=model",
  "--gin.REFERENCES=corpus/captions.jsonl",
  "--gin.EVAL_DIR=out",
  "--gin.Predictor.max_length=4",
)
_PLAN = _always("--gin_file=gin/models/bb.gin", "--gin_file=gin/runs/train_coco35l.gin", "--params")
_OF_BUILD = ("--on_bad", "--image_size", "--quality", "--processes", "--release")
_OF_SHOW = (
  "--count",
  "--step",
  "--split",
  "--captions_per_image",
  "--image_size",
  "--target_length",
  "--seed",
)
_OF_TRAIN = tuple(
  f"--gin.{name}"
  for name in (
    "BATCH_SIZE",
    "MODEL_DIR",
    "LEARNING_RATE",
    "CAPTIONS_PER_IMAGE",
    "PRETRAINED",
    "TOTAL_STEPS",
  )
)
_OF_PLAN = ("--price", "--topology", "--length_mix", "--gin.BATCH_SIZE", "--gin.IMAGE_SIZE")
_FOR_TRAIN = ["model", "corpus", "gin"]

HEAVY = (
  Command("data build xm3600", ["xm3600"], _XM3600, _OF_BUILD, 4),
  Command("data build coco35l", ["coco35l"], _COCO, _OF_BUILD, 3),
  Command("data build cc3m35l", ["cc3m35l"], _CC3M, _OF_BUILD, 3),
  *(Command("data build folder", [f"tables/{name}"], _build("folder", f"captions=tables/{name}", "language=en",
            "splits=train:1"), _OF_BUILD, 0.4) for name in strangers.TABLES),
  Command("data check", ["corpus"], _always("corpus", "--out=out", "--processes=1"), ("--split",), 3,
          writes=("out", "corpus/check.json", "corpus/check.jsonl")),
  Command("data stats", ["corpus"], _always("corpus", "--processes=1"), ("--vocabulary", "--target_length"), 2,
          leaves=False),
  Command("data show", ["corpus"], _always("corpus", "--out=out/sheet.html", "--count=3"), _OF_SHOW, 2),
  Command("data index", ["corpus"], _always("corpus", "--processes=1"), ("--splits", "--vocabulary"), 2,
          writes=("out", "corpus")),
  Command("convert", ["hf"], _from_hf, ("--from", "--pool"), 4),
  Command("convert", ["big_vision"], _always("--input=big_vision/vit.npz", "--out=out"), ("--from", "--pool"), 3),
  Command("convert", ["converted", "model"], _to_hf, ("--part",), 3),
  Command("caption", ["model", "corpus/images"], _caption, ("--languages", "--step", "--model_dir"), 2, limit=60,
          leaves=False),
  Command("eval", ["model", "corpus"], _EVAL, ("--gin.TITLE", "--gin.Predictor.max_length"), 1, limit=60),
  Command("train", _FOR_TRAIN, _train("out"), _OF_TRAIN, 0.5, limit=90, damaged=(".gin",),
          writes=("out", "runs")),
  Command("train", _FOR_TRAIN, _train("out", "--gin.PRETRAINED='model'"), (), 0.5, limit=90,
          writes=("out", "runs")),
  Command("train", _FOR_TRAIN, _train("model"), (), 0.5, limit=90, writes=("out", "runs", "model")),
  Command("train", _FOR_TRAIN, _train("out", "--dry_run"), (), 0.5, limit=90, writes=("out", "runs"), leaves=False),
  Command("plan", ["gin"], _PLAN, _OF_PLAN, 2, leaves=False),
)  # fmt: skip
"""Commands that need them."""


def choose(commands: Sequence[Command], rng: random.Random, only: str = "", writing: bool = False) -> Command:
  """One of the commands whose name begins with `only`, by their weights; `writing`: that leaves files."""
  matching = [
    command for command in commands if command.name.startswith(only) and not (writing and not command.leaves)
  ]
  return rng.choices(matching, [command.weight for command in matching])[0]


def clear(folder: pathlib.Path) -> None:
  """Removes a folder, whatever rights a case has left on it."""
  shutil.rmtree(folder, ignore_errors=True)
  os.makedirs(folder, exist_ok=True)
