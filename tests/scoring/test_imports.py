"""What `xmcap.scoring` imports, and when."""

import subprocess
import sys

from tests.scoring import embeddings

_SCRIPT = """
import sys, threading

def assert_absent(*names):
  assert not {*names} & sys.modules.keys(), {*names} & sys.modules.keys()

from xmcap import cli
from xmcap.scoring import health, metrics, score, tokenizers
from xmcap.scoring.health import identifier

tokenizers.get("default", "zh")
tokenizers.get("default", "en")("a")
assert_absent("jieba", "fugashi", "pythainlp", "sacrebleu", "rapidfuzz", "py3langid")
identifier.begin()
identifier.load()
assert threading.active_count() == 1
score({"k": {"en": ["a b"]}}, {"k": {"en": "a"}}, metrics=("all",), health=True, bootstrap=2)
assert cli.main(sys.argv[1:]) == 0
assert_absent("jax", "tensorflow", "flax", "torch")
"""


def test_scoring_imports_libraries_late_and_never_jax_or_tensorflow(tmp_path):
  argv = ["score", "zero-shot", *embeddings.zero_shot(tmp_path / "in"), f"--out={tmp_path / 'out'}"]
  subprocess.run([sys.executable, "-c", _SCRIPT, *argv], check=True, capture_output=True)
