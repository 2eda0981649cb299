"""What `xmcap launch` refuses before anything is started: the run's configuration, resolved on this machine."""

import dataclasses
import os
import pathlib
import re
import shlex
import shutil

import numpy as np
import pytest
from safetensors.numpy import save_file

from tests.make.command import xmcap
from tests.training.test_frozen_vit import write_vit
from xmcap import cli
from xmcap.commands import launch_checks
from xmcap.errors import UsageError
from xmcap.files import buckets
from xmcap.models import model_json
from xmcap.models.vit import ViTConfig

ROOT = pathlib.Path(__file__).resolve().parents[2]
_BB = ["train", "--gin_file=models/bb.gin", "--gin_file=runs/train_coco35l.gin"]
_WHOLE = [
  *_BB,
  "--gin.MODEL_DIR=gs://bkt/run",
  "--gin.DATA_DIR=gs://bkt/data",
  "--gin.VOCABULARY=gs://bkt/spiece.model",
]
POD = launch_checks.LaunchPlace("v4-128", 16, 64, folder="", ask=False)


@pytest.fixture(scope="module")
def parsers():
  parser = cli._parser()
  (action,) = (action for action in parser._actions if hasattr(action, "_name_parser_map"))
  return action.choices


@pytest.fixture(autouse=True)
def empty(tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)


@pytest.fixture
def check(parsers):
  return lambda words, place=POD: launch_checks.check(parsers, words, place)


def test_launch_check_passes_and_names_what_is_unchecked(check, capsys):
  before = dict(os.environ)
  assert check(_WHOLE) == "gs://bkt/run"
  said = capsys.readouterr().err
  assert "MODEL_DIR=gs://bkt/run, DATA_DIR=gs://bkt/data, VOCABULARY=gs://bkt/spiece.model" in said
  assert "starts from random weights" in said
  # Its number of steps is that of the corpus, which a dry run does not read.
  second = [word.replace("runs/train_coco35l", "runs/finetune_coco35l") for word in _WHOLE]
  assert check([*second, "--gin.PRETRAINED=gs://bkt/cc"]) == "gs://bkt/run"
  evaluated = [
    "--gin.EVAL_DIR=gs://bkt/x",
    "--gin.VOCABULARY=gs://bkt/v",
    "--gin.REFERENCES=gs://bkt/r.jsonl",
  ]
  check(["eval", "--model_dir=gs://bkt/run", *evaluated])
  said = capsys.readouterr().err
  assert (
    "EVAL_DIR=gs://bkt/x, REFERENCES=gs://bkt/r.jsonl, VOCABULARY=gs://bkt/v, --model_dir=gs://bkt/run"
    in said
  )
  chosen = [
    "--gin.XM3600_OUT=gs://bkt/o",
    "--gin.XM3600=gs://bkt/r",
    "--gin.EVALUATORS=[@xm3600/CaptionEvaluator()]",
  ]
  check(["eval", "--model_dir=gs://bkt/run", "--gin_file=runs/eval_xm3600.gin", *chosen])
  assert "XM3600_OUT=gs://bkt/o, XM3600=gs://bkt/r, --model_dir=gs://bkt/run" in capsys.readouterr().err
  assert dict(os.environ) == before  # sbatch hands it on to the job


@pytest.mark.parametrize(
  ("slice_type", "offered"), [("v4-128", True), ("v4-129", False), ("v4-100", False), ("v2-8", True)]
)
def test_launch_check_refuses_unknown_tpu_slices(check, slice_type, offered):
  place = dataclasses.replace(POD, slice_type=slice_type)
  if offered:
    check(_WHOLE, place)
  else:
    with pytest.raises(UsageError, match=f"{slice_type}: there is no v4 slice of this size"):
      check(_WHOLE, place)


def test_launch_check_of_a_measurement_needs_no_data(check):
  check([*_BB, "--measure"])
  with pytest.raises(UsageError, match="does not fit 64 device"):
    check([*_BB, "--measure", "--gin.Partitioning.fsdp=7"])


def test_launch_check_refuses_xla_flags_of_other_chips(check):
  place = dataclasses.replace(POD, slice_type="v6e-64")
  check([*_WHOLE, "--xla_flags=sparse_cores"], place)
  with pytest.raises(
    UsageError, match="--xla_flags=no_sparse_cores: of a v6e there are none, async_collectives"
  ):
    check([*_WHOLE, "--xla_flags=no_sparse_cores"], place)


@pytest.mark.parametrize(
  ("words", "message"),
  [
    ("train", "needs gin files"),
    ("WHOLE --gin_file=models/bbb.gin", "models/bbb.gin: none of xmcap's own"),
    ("WHOLE --gin.TOTAL_STEP=3", "did you mean TOTAL_STEPS"),
    ("WHOLE --gin.Partitioning.fsd=3", "did you mean fsdp"),
    ("WHOLE --gin_fil=a", "unknown argument --gin_fil"),
    ("WHOLE --gin.MODEL_DIR=/data/run", "the 16 hosts of v4-128 cannot share a local folder"),
    ("BB", "MODEL_DIR=runs/train_coco35l"),
    ("BB --gin.MODEL_DIR=gs://bkt/run", "DATA_DIR=data/coco35l: a relative path"),
    ("WHOLE --gin.VOCABULARY=spiece.model", "VOCABULARY=spiece.model: a relative path"),
    ("WHOLE --gin.PRETRAINED=vit-b16", "PRETRAINED=vit-b16: a relative path"),
    ("WHOLE --gin.MODEL_DIR=g://b/run", "g://b/run: unknown scheme 'g://'; did you mean gs://?"),
    ("WHOLE --gin.MODEL_DIR=gs:/b/run", "unknown scheme 'gs:/'; did you mean gs://?"),
    ("WHOLE --gin.MODEL_DIR=s3://bkt/run", "a run writes to a folder or to gs://BUCKET/FOLDER"),
    ("WHOLE --gin.DATA_DIR=gcs://b/x", "unknown scheme 'gcs://'; did you mean gs://?"),
    ("WHOLE --gin.PRETRAINED=['g://b/x']", "unknown scheme 'g://'; did you mean gs://?"),
    ("EVAL --gin.EVAL_DIR=g://b/x", "did you mean gs://?"),
    ("embed --model_dir=gs://bkt/run --out=g://b/x", "did you mean gs://?"),
    ("WHOLE --gin.Partitioning.model=48", "v4-128: Partitioning: data -1 x fsdp -1 x model 48"),
    ("WHOLE --gin.BATCH_SIZE=96", "v4-128: a batch of 96 pictures"),
    ("WHOLE --gin.BATCH_SIZE=100", "change one of them (nearest batch: 128 pictures)"),
    ("WHOLE --gin.CAPTIONS_PER_IMAGE=3", "not divisible by captions_per_image 3"),
    ("EVAL --gin_file=runs/nothing.gin", "runs/nothing.gin"),
    ("EVAL --gin.EVAL_DIR=gs://bkt/x --gin.REFERENCES=r.jsonl", "REFERENCES=r.jsonl: a relative path"),
    ("eval --model_dir=runs/bb --gin.EVAL_DIR=gs://bkt/x", "--model_dir=runs/bb: a relative path"),
    ("EVAL", "EVAL_DIR=runs/eval: the 16 hosts of v4-128 cannot share a local folder"),
    ("EVAL --gin_file=runs/eval_xm3600.gin --gin.XM3600_OUT=out", "XM3600_OUT=out: the 16 hosts"),
    (
      "EVAL --gin_file=runs/eval_xm3600.gin --gin.XM3600_OUT=gs://bkt/o --gin.XM3600=gs://bkt/r",
      "COCO_35L_DEV_OUT=runs/eval_xm3600/coco_35l_dev: the 16 hosts",
    ),
    ("WHOLE --gin.TOTAL_STEPS=0", "TOTAL_STEPS is 0: it must be at least 1"),
    ("embed --nothing", "nothing"),
  ],
)
def test_launch_check_refuses_commands_that_would_fail(check, words, message):
  prefixes = {"BB": _BB, "WHOLE": _WHOLE, "EVAL": ["eval", "--model_dir=gs://bkt/run"]}
  first, *options = words.split()
  with pytest.raises(UsageError) as error:
    check([*prefixes.get(first, [first]), *options])
  assert message in str(error.value) and len(str(error.value).splitlines()) == 1


def test_launch_creates_no_tpu_for_a_command_that_would_fail(monkeypatch, tmp_path):
  monkeypatch.setenv("PATH", str(tmp_path))
  place = ["--name=bb", "--project=p", "--zone=z", "--accelerator_type=v4-128", "--install=xmcap"]
  xmcap("launch", "tpu-vm", *place, "--", *_BB).refused("nothing was started")


def _documented():
  """The `launch` commands of the documentation for TPUs, as arguments."""
  for file in ("README.md", "docs/pods.md", "docs/t5x.md"):
    for block in re.findall(
      r"^```\w*\n(.*?)^```", (ROOT / file).read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    ):
      for line in block.replace("\\\n", " ").splitlines():
        if re.match(r"xmcap launch (tpu-vm|xpk) .* -- ", line):
          line = re.sub(r"\$CAPACITY|--dry_run", "", line).replace("$BUCKET", "gs://my-bucket")
          yield shlex.split(re.sub(r"\$[A-Z]+", "name", line).replace(" -- ", " --dry_run -- ", 1))[1:]


@pytest.mark.parametrize("arguments", _documented(), ids=lambda arguments: arguments[1])
def test_launch_commands_in_docs_pass_the_dry_run(arguments):
  pathlib.Path("xmcap-0.1.0-py3-none-any.whl").touch()
  arguments = [re.sub(r"^--install=.*", "--install=xmcap-0.1.0-py3-none-any.whl", word) for word in arguments]
  xmcap(*arguments).succeeded()


# ---- on disks that the hosts share ----------------------------------------------------------------


@pytest.fixture
def shared(tmp_path):
  return launch_checks.LaunchPlace("2 nodes", 2, 16, 2, folder=str(tmp_path), same_disks=True)


def frozen(vit, *more):
  return [
    "train", "--gin_file=models/bb.gin", "--gin_file=data/folder.gin", "--gin_file=runs/folder.gin",
    f"--gin.PRETRAINED={vit}", "--gin.DATA_DIR=data", "--gin.VOCABULARY=spiece.model", *more,
  ]  # fmt: skip


@pytest.fixture
def inputs(tmp_path):
  (tmp_path / "data").mkdir()
  (tmp_path / "data/train.array_record").touch()
  (tmp_path / "spiece.model").touch()
  write_vit(tmp_path / "vit")
  return tmp_path


def test_launch_check_accepts_weights_with_model_json(check, shared, inputs, capsys):
  assert check(frozen("vit"), shared) == "runs/folder"
  assert "vit/model.json: ViTConfig.activation" in capsys.readouterr().err


def test_launch_check_refuses_weights_of_another_shape(check, shared, inputs):
  other = ViTConfig(16, 1, 32, 2, 4, 12, "tok")
  (inputs / "other").mkdir()
  (inputs / "other/model.json").write_text(
    model_json.as_text(model_json.Model({"vit": model_json.of_config(other)}))
  )
  with pytest.raises(
    UsageError, match=r"vit/layers/mlp/wi/bias has shape \(1, 24\), but \(1, 32\) in this model"
  ):
    check(frozen("vit", "--gin_file=other/model.json"), shared)


@pytest.mark.parametrize("name", ["data", "spiece.model", "vit"])
def test_launch_check_refuses_missing_inputs(check, shared, inputs, name):
  path = inputs / name
  shutil.rmtree(path) if path.is_dir() else path.unlink()
  with pytest.raises(UsageError, match=f"{name}: .*{name} does not exist"):
    check(frozen("vit"), shared)


# ---- in a bucket ----------------------------------------------------------------------------------


@pytest.fixture
def bucket(inputs, store, monkeypatch):
  """A bucket whose folder `inputs` is that of --files."""
  folder = store.root / "my-bucket/inputs"
  folder.mkdir(parents=True)
  for name in ("data", "vit", "spiece.model"):
    shutil.move(inputs / name, folder / name)
  (folder / "own.gin").write_text("include 'runs/folder.gin'\nTOTAL_STEPS = 7\n")
  checked = []
  monkeypatch.setattr(buckets, "check_writable", checked.append)
  return folder, checked


IN_BUCKET = launch_checks.LaunchPlace("v6e-8", 1, 8, folder="gs://my-bucket/inputs")


def in_bucket(*more):
  return [*frozen("vit", "--gin.MODEL_DIR=gs://my-bucket/run"), "--gin_file=own.gin", *more]


def test_launch_check_finds_files_in_a_bucket(check, bucket):
  folder, checked = bucket
  assert check(in_bucket(), IN_BUCKET) == "gs://my-bucket/run"
  assert checked == ["gs://my-bucket/run"]


def test_launch_check_reads_safetensors_header_in_a_bucket(check, bucket):
  folder, _ = bucket
  save_file({"vit/embedding/kernel": np.zeros((3, 3), np.float32)}, folder / "vit/params.safetensors")
  with pytest.raises(UsageError, match="vit/embedding/kernel"):
    check(in_bucket(), IN_BUCKET)


def test_launch_check_refuses_files_missing_in_a_bucket(check, bucket):
  folder, _ = bucket
  (folder / "spiece.model").unlink()
  with pytest.raises(
    UsageError, match="VOCABULARY=spiece.model: gs://my-bucket/inputs/spiece.model does not"
  ):
    check(in_bucket(), IN_BUCKET)
  (folder / "own.gin").unlink()
  with pytest.raises(UsageError, match="own.gin: no such file"):
    check(in_bucket(), IN_BUCKET)
