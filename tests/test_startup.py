"""What a process imports and prints before its answer; each test has a process of its own."""

import os
import subprocess
import sys

import pytest

from tests import model_folders

_RUN = ("--gin_file=models/tiny.gin", "--gin_file=data/emoji36.gin", "--gin_file=runs/train.gin")
_AT_EXIT = """
import atexit, sys
sys.modules["tensorflow"] = sys.modules["seqio"] = sys.modules["tensorflow_datasets"] = None  # importing one fails
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
  made = tmp_path_factory.mktemp("startup")
  model_folders.write(made / "model")
  model_folders.picture(made)
  return made


def _python(code, *arguments, check=0):
  done = subprocess.run([sys.executable, "-c", code, *map(str, arguments)], capture_output=True, text=True)
  assert done.returncode == check, done.stderr
  return done


def test_a_library_user_never_meets_tensorflow(folder):
  done = _python(
    _AT_EXIT
    + """
from xmcap import load_captioner, score
captioner = load_captioner(sys.argv[1])
captions = captioner.caption([sys.argv[2]], languages=["en", "th"])
result = score({"en": [["a dog"], ["b"]]}, {"en": [captions[0]["en"], "b"]})
print(*captions[0], sorted(result.table.rows))
""",
    folder / "model",
    folder / "picture.png",
  )
  assert done.stdout == "en th ['en']\n"


@pytest.mark.parametrize(
  "words",
  [
    ["caption", "--model_dir=DIR/model", "--languages=en,th", "DIR/picture.png"],
    ["caption", "--model_dir=DIR/model", "DIR/picture.png", "--explain"],
    ["train", *_RUN, "--explain"],
    ["eval", "--model_dir=DIR/model", "--explain"],
  ],
)
def test_commands_that_need_no_tensorflow_do_not_import_it(folder, words):
  code = _AT_EXIT + "from xmcap import cli\nsys.argv[0] = 'xmcap'\ncli.console()"
  done = _python(code, *(word.replace("DIR/", f"{folder}/") for word in words))
  assert done.stdout and not done.stderr


@pytest.mark.parametrize(
  ("words", "message"),
  [
    (["train", *_RUN, "--gin.TOTAL_STEP=9"], "did you mean TOTAL_STEPS?"),
    (["train", "--gin_file=models/tiny.gin", "--gin_file=runs/trian.gin"], "did you mean runs/train.gin?"),
    (["caption", "--model_dir=DIR/model", "--gin.Beam.beam=9", "DIR/picture.png"], "did you mean beams?"),
    (["caption", "--model_dir=DIR/model", "--gin.MIXTUR=9", "DIR/picture.png"], "did you mean MIXTURE?"),
    (["eval", "--model_dir=DIR/model", "--gin.REFERENCE=9"], "did you mean REFERENCES?"),
    (["train", *_RUN, "--gin.CaptionStream.target_lenght=3"], "did you mean target_length?"),
    (["train", *_RUN, "--gin.validation/TagStream.spilt=3"], "did you mean split?"),
    (["train", *_RUN, "--gin.Trian.model_dir=3"], "did you mean train?"),
    (["train", *_RUN, "--gin.train.total_steps=%TOTAL_STEP"], "did you mean TOTAL_STEPS?"),
    (
      ["caption", "--model_dir=DIR/model", "--gin.Predictor.search=@Bem()", "DIR/picture.png"],
      "did you mean Beam?",
    ),
    (["eval", "--model_dir=DIR/model", "--gin.CaptionEvaluator.metric=3"], "did you mean metrics?"),
    (["plan", *_RUN, "--topology=v4-8", "--gin.ViTConfig.widht=9"], "did you mean width?"),
    (["caption", "--model_dir=DIR/model", "--langages=en", "DIR/picture.png"], "did you mean --languages?"),
  ],
)
def test_a_misspelled_name_is_found_before_anything_heavy_is_imported(folder, words, message):
  code = "import sys\nsys.modules['jax'] = sys.modules['flax'] = sys.modules['tensorflow'] = None\n"
  code += "from xmcap import cli\nsys.exit(cli.main(sys.argv[1:]))"
  done = _python(code, *(word.replace("DIR/", f"{folder}/") for word in words), check=2)
  assert message in done.stderr


@pytest.mark.parametrize("way", ["library", "command"])
def test_libtpu_says_nothing_where_there_is_no_tpu(folder, way):
  names = ("JAX_PLATFORMS", "CUDA_VISIBLE_DEVICES", "TPU_", "TF_")
  environment = {name: value for name, value in os.environ.items() if not name.startswith(names)}
  code = "from xmcap import cli\nimport sys\nsys.argv[0] = 'xmcap'\ncli.console()"
  words = ["caption", f"--model_dir={folder}/model", f"{folder}/picture.png"]
  if way == "library":
    code = "import sys\nfrom xmcap import load_captioner\n"
    code += "captions = load_captioner(sys.argv[1]).caption([sys.argv[2]])\nimport jax\nprint(jax.devices(), captions)"
    words = [f"{folder}/model", f"{folder}/picture.png"]
  done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, env=environment)
  assert (done.returncode, done.stderr) == (0, "") and done.stdout


def test_importing_tensorflow_under_the_command_prints_nothing():
  environment = {name: value for name, value in os.environ.items() if not name.startswith("TF_")}
  code = "from xmcap import quiet\nquiet.guard()\nimport sys, tensorflow\nprint('err', file=sys.stderr)"
  done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
  assert (done.returncode, done.stdout, done.stderr) == (0, "", "err\n")


def test_what_is_no_note_comes_back():
  code = """
import os
from xmcap import quiet
with quiet.without_notes():
  os.write(2, b"I0000 00:00:1795470578.940145   14097 port.cc:153] oneDNN custom operations are on.\\n")
  os.write(2, b"something else\\n")
os.write(2, b"after\\n")
"""
  assert _python(code).stderr == "something else\nafter\n"


def test_either_order_of_imports_gives_seqio_the_tasks():
  for first, second in (("xmcap.tasks.emoji36", "seqio"), ("seqio", "xmcap.tasks.emoji36")):
    code = f"import {first}\nimport {second}\nimport seqio\n"
    code += "print('emoji36_quz' in seqio.TaskRegistry.names(), 'emoji36' in seqio.MixtureRegistry.names())"
    assert _python(code).stdout == "True True\n"
