"""Imports and messages at start-up; each test has a process of its own."""

import os
import subprocess
import sys

import pytest

from tests.make import models
from tests.make.command import xmcap_without

_RUN = ("--gin_file=models/tiny.gin", "--gin_file=data/emoji36.gin", "--gin_file=runs/train.gin")
_AT_EXIT = """
import atexit, sys
sys.modules["tensorflow"] = sys.modules["seqio"] = sys.modules["tensorflow_datasets"] = None  # importing one fails
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
  made = tmp_path_factory.mktemp("startup")
  models.captioner(made / "model")
  models.image(made)
  return made


def _python(code, *arguments, check=0, env=None):
  done = subprocess.run(
    [sys.executable, "-c", code, *map(str, arguments)], capture_output=True, text=True, env=env
  )
  assert done.returncode == check, done.stderr
  return done


def _without(*starts):
  """This process's environment without the variables whose names begin so."""
  return {name: value for name, value in os.environ.items() if not name.startswith(starts)}


_AS_A_USERS = _without("JAX_PLATFORMS", "CUDA_VISIBLE_DEVICES", "TPU_", "TF_")
"""Where libtpu is installed, but no TPU is there, and nobody has said so: it is to say nothing of that."""


def test_load_captioner_imports_no_tensorflow_and_prints_nothing(folder):
  done = _python(
    _AT_EXIT
    + """
from xmcap import load_captioner, score
captioner = load_captioner(sys.argv[1])
captions = captioner.caption([sys.argv[2]], languages=["en", "th"])
result = score({"en": [["a dog"], ["b"]]}, {"en": [captions[0]["en"], "b"]})
import jax
print(*captions[0], sorted(result.table.rows), jax.devices())
""",
    folder / "model",
    folder / "picture.png",
    env=_AS_A_USERS,
  )
  assert (done.stdout, done.stderr) == ("en th ['en'] [CpuDevice(id=0)]\n", "")


def test_commands_that_need_no_tensorflow_do_not_import_it(folder):
  model = f"--model_dir={folder}/model"
  picture = f"{folder}/picture.png"
  calls = [
    ["caption", model, picture, "--explain"],
    ["train", *_RUN, "--explain"],
    ["eval", model, "--explain"],
  ]
  code = f"""
import gin
from xmcap import cli
for words in {calls!r}:
  gin.clear_config()
  sys.argv = ["xmcap", *words]
  try:
    cli.console()
  except SystemExit as ended:
    assert not ended.code, words
  print("DONE", flush=True)
"""
  done = _python(_AT_EXIT + code, env=_AS_A_USERS)
  *printed, after = done.stdout.split("DONE\n")
  assert len(printed) == 3 and all(printed) and not after and not done.stderr


_MISSPELLED = (
  (["train", *_RUN, "--gin.TOTAL_STEP=9"], "did you mean TOTAL_STEPS?"),
  (["train", "--gin_file=models/tiny.gin", "--gin_file=runs/trian.gin"], "did you mean runs/train.gin?"),
  (["caption", "--model_dir=DIR/model", "--gin.Beam.beam=9", "DIR/picture.png"], "did you mean beams?"),
  (["eval", "--model_dir=DIR/model", "--gin.REFERENCE=9"], "did you mean REFERENCES?"),
  (["train", *_RUN, "--gin.validation/TagStream.spilt=3"], "did you mean split?"),
  (["train", *_RUN, "--gin.Trian.model_dir=3"], "did you mean train?"),
  (
    ["caption", "--model_dir=DIR/model", "--gin.Predictor.search=@Bem()", "DIR/picture.png"],
    "did you mean Beam?",
  ),
  (["plan", *_RUN, "--topology=v4-8", "--gin.ViTConfig.widht=9"], "did you mean width?"),
  (["caption", "--model_dir=DIR/model", "--langages=en", "DIR/picture.png"], "did you mean --languages?"),
)


@pytest.fixture(scope="module")
def refused(folder):
  """What each call of _MISSPELLED left, in one process that can import nothing heavy."""
  calls = [[word.replace("DIR/", f"{folder}/") for word in words] for words, _ in _MISSPELLED]
  unimportable = 'import sys\nsys.modules["jax"] = sys.modules["flax"] = sys.modules["tensorflow"] = None'
  return xmcap_without((), *calls, prelude=unimportable)


@pytest.mark.parametrize(
  "number", range(len(_MISSPELLED)), ids=lambda number: _MISSPELLED[number][0][-1][:40]
)
def test_misspelled_gin_name_is_refused_before_heavy_imports(refused, number):
  refused[number].refused(_MISSPELLED[number][1])


def test_without_notes_prints_other_lines():
  code = """
import os
from xmcap import quiet
with quiet.without_notes():
  os.write(2, b"I0000 00:00:1795470578.940145   14097 port.cc:153] oneDNN custom operations are on.\\n")
  os.write(2, b"something else\\n")
os.write(2, b"after\\n")
"""
  assert _python(code).stderr == "something else\nafter\n"


def test_guard_logs_hides_library_logs_and_names_own_warnings():
  code = """
import pathlib, sys
from xmcap import quiet
quiet.guard_logs()
from absl import logging
logging.warning("a note of a library")
logging.error("an error of a library")
logging.info("a detail")
import logging as of_python
of_python.getLogger("tensorflow").warning("another note")
pool = of_python.getLogger("urllib3.connectionpool")
pool.warning("Connection pool is full, discarding connection: %s. Connection pool size: %s", "host", 10)
pool.warning("Retrying (%r) after connection broken", 1)
source = "from absl import logging; logging.warning('a language is not trained')"
exec(compile(source, pathlib.Path(quiet.__file__).with_name("evaluation") / "some.py", "exec"))
"""
  said = _python(code).stderr.splitlines()
  assert said == [
    "absl: error: an error of a library",
    "urllib3.connectionpool: warning: Retrying (1) after connection broken",
    "xmcap: warning: a language is not trained",
  ]


@pytest.mark.full  # seqio first: tests/data/test_seqio_tasks.py
def test_seqio_tasks_register_in_either_import_order():
  # What both orders need most of the time for is imported once, before the process forks.
  code = """
from xmcap import quiet
quiet.guard()
import os, sys
import jax, tensorflow, tensorflow_datasets
names = ["seqio", "xmcap.tasks.emoji36"]
if not os.fork():
  names.reverse()
for name in names:
  __import__(name)
import seqio
print(names[0], "emoji36_quz" in seqio.TaskRegistry.names(), "emoji36" in seqio.MixtureRegistry.names(), flush=True)
if names[0] == "seqio":
  sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
"""
  done = _python(code, env=_without("TF_"))
  assert sorted(done.stdout.splitlines()) == ["seqio True True", "xmcap.tasks.emoji36 True True"]
  assert done.stderr == ""
