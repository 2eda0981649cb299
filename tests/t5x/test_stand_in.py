"""t5x's scripts with the project's gin files and a stand-in for t5x: CI, which cannot install t5x, sees what breaks it.

Gin is locked before anything is built, as in t5x.
"""

import pathlib

import numpy as np
import pytest

from tests.make import small_corpus
from tests.make.command import forked
from xmcap.data import features, record_writer, records, vocabulary
from xmcap.languages import LANGUAGES, WIDE

ROOT = pathlib.Path(__file__).parents[2]


def _scripts(*words):
  from tests.t5x import stand_in  # imports seqio, which takes seconds

  stand_in.run(*words)


def _run(*arguments):
  forked(_scripts, *map(str, arguments), folder=ROOT, devices=2).succeeded()


def _arguments(script, model, data, out, **macros):
  where = {
    "train": {"MODEL_DIR": out},
    "eval": {"CHECKPOINT_PATH": out, "EVAL_OUTPUT_DIR": out},
    "infer": {"CHECKPOINT_PATH": out, "INFER_OUTPUT_DIR": out},
  }[script]
  files = (f"models/{model}.gin", data, f"t5x/{script}.gin")
  values = {name: value if isinstance(value, int) else str(value) for name, value in (where | macros).items()}
  return (
    script,
    *(f"--gin_file={file}" for file in files),
    *(f"--gin.{name}={value!r}" for name, value in values.items()),
  )


@pytest.mark.slow
def test_train_runs_with_gin_locked(corpus_dir, tmp_path):
  macros = {"NUM_PARTITIONS": 2, "TOTAL_STEPS": 4}
  _run(*_arguments("train", "tiny", corpus_dir / "three.gin", tmp_path, **macros), *small_corpus.SMALLER)


# The gin files of corpora with captions, and the macros that say where the corpora are.
_CORPORA = {
  "cc3m35l": ("DATA_DIR",),
  "coco35l": ("DATA_DIR",),
  "coco35l_coco_cn": ("DATA_DIR", "COCO_CN_DIR"),
  "coco_cn": ("DATA_DIR",),
  "emoji36": ("DATA_DIR",),
  "emoji100": ("DATA_DIR",),
  "emoji_tags": ("DATA_DIR",),
  "folder": ("DATA_DIR",),
}
# Files that t5x does not train: one run each, with its corpus, and what other files of its run bind.
_BUILT = (
  ("models/dual_tiny.gin", "data/emoji100.gin"),
  ("models/dual_b16_mt5.gin", "data/coco35l.gin"),
  ("models/dual_msiglip.gin", "data/coco35l.gin"),
  ("models/features.gin", "data/coco35l.gin"),
  ("data/coco35l.gin", "models/plugs.gin"),
  ("data/coco35l.gin", "models/show_and_tell.gin", "--gin.epochs.stream=@CaptionStream()"),
  ("models/tiny.gin", "models/frozen_vit.gin", "data/folder.gin"),
  ("models/tiny.gin", "data/emoji36.gin", "data/inception_crop.gin"),
  ("models/tiny.gin", "data/coco35l.gin", "data/babel_imagenet.gin"),
)


@pytest.fixture(scope="module")
def wide_dir(tmp_path_factory):
  """A corpus with captions in all languages, which stands for each of the project's."""
  out = tmp_path_factory.mktemp("wide")
  codes = sorted({*LANGUAGES, *WIDE})
  captions = [records.Caption(code, f"{code} 1", source="human") for code in codes]
  pictures = [
    records.Record(f"k{number}", small_corpus.record(number, ()).image, captions) for number in range(2)
  ]
  written = record_writer.write_split(out, "train", [pictures], list, dataset="wide", processes=1)
  record_writer.write_metadata(out, [written], dataset="wide")
  (out / "text.txt").write_text("".join(f"{code} 1\n" for code in codes))
  (out / records.LANGUAGES).write_text("en\nth\n")
  features.write(out / "features.safetensors", features.Features(("k0", "k1"), np.zeros((2, 80), np.float32)))
  vocabulary.train_vocabulary(str(out / "text.txt"), str(out / "vocabulary.model"), size=400)
  return out


@pytest.mark.slow
@pytest.mark.full  # above, one model and one corpus
def test_eval_and_infer_run_with_gin_locked_for_all_models_and_corpora(corpus_dir, wide_dir, tmp_path):
  files = {
    f"{path.parent.name}/{path.name}"
    for folder in ("data", "models")
    for path in (ROOT / "gin" / folder).iterdir()
  }
  tried = {f"data/{name}.gin" for name in _CORPORA} | {f"models/{name}.gin" for name in ("bb", "bg", "lg")}
  built = {word for words in _BUILT for word in words if not word.startswith("--")}
  assert files == tried | built
  runs = [_arguments(script, "tiny", corpus_dir / "three.gin", tmp_path) for script in ("eval", "infer")]
  wide = {"SPLIT": "train", "DATA_DIR": wide_dir}
  runs += [_arguments("infer", model, "data/coco35l.gin", tmp_path, **wide) for model in ("bb", "bg", "lg")]
  for name, macros in _CORPORA.items():
    where = {"SPLIT": "train", **dict.fromkeys(macros, wide_dir)}
    runs.append(_arguments("infer", "tiny", f"data/{name}.gin", tmp_path, **where))
  where = f"--gin.DATA_DIR={str(wide_dir)!r}", f"--gin.FEATURES={str(wide_dir / 'features.safetensors')!r}"
  for words in _BUILT:
    named = (word if word.startswith("--") else f"--gin_file={word}" for word in words)
    runs.append(("build", *named, *where))
  _run(*(argument for run in runs for argument in ("--", *run)))
  assert len(list(tmp_path.glob("three_evaluation_*-predict.jsonl"))) == 2
