"""Collects what run.py needs on a machine with one GPU and no network: wheels, and a corpus with its vocabulary.

usage: python benchmarks/gpu/carry.py FOLDER [--python=3.12] [--pictures=1500]
Writes FOLDER/wheels and FOLDER/emoji36; where they are already, they are left alone. Then, on that machine, from the
checkout:  python3 benchmarks/gpu/run.py OUT --carried=FOLDER

That machine is expected to have Python, and jax with CUDA, flax, optax, orbax-checkpoint, tensorstore, sentencepiece,
safetensors, scipy, pillow, tensorboard, torch and transformers. TensorFlow is not needed.
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
# What training, decoding and captioning import beyond what such a machine has.
WHEELS = (
  "array-record", "gin-config", "google-crc32c", "importlib_resources", "msgspec",
  "langcodes", "language_data", "marisa-trie", "rapidgzip",
  # Reads the records' metadata.
  "tensorflow-datasets", "dm-tree", "docstring_parser", "googleapis-common-protos", "immutabledict", "promise",
  "simple-parsing", "tensorflow-metadata", "termcolor", "toml",
)  # fmt: skip
# pip matches each by name alone, although a newer glibc takes the wheels of all older ones.
_GLIBC = ("2_34", "2_31", "2_28", "2_27", "2_26", "2_24", "2_17", "2014", "2010", "1")
MOST_MIB = 40  # the rest of 64 is for the tree and what an earlier call has compiled


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
  parser.add_argument("folder", type=pathlib.Path)
  parser.add_argument("--python", default="3.12", help="version of the machine's Python")
  parser.add_argument("--pictures", type=int, default=1_500)
  arguments = parser.parse_args()
  wheels, corpus = arguments.folder / "wheels", arguments.folder / "emoji36"
  if not wheels.exists():
    collect(wheels, arguments.python)
  if not (corpus / "emoji36.json").exists():
    options = [f"--num_train={arguments.pictures}", "--num_validation=64", "--num_test=64"]
    subprocess.run(
      [sys.executable, "-m", "xmcap.cli", "data", "build", "emoji36", "--out", corpus, "--difficulty=easy", *options],
      check=True, cwd=ROOT,
    )  # fmt: skip
  size = sum(file.stat().st_size for file in arguments.folder.rglob("*") if file.is_file()) / 2**20
  print(f"{arguments.folder}: {len(list(wheels.glob('*.whl')))} wheels and a corpus, {size:.1f} MiB")
  if size > MOST_MIB:
    raise SystemExit(f"more than {MOST_MIB} MiB: give fewer --pictures")


def collect(folder: pathlib.Path, python: str) -> None:
  """Downloads the wheels for a Linux machine with x86-64, and builds xmcap's own and those that have none."""
  partial = folder.with_suffix(".partial")
  pip = [sys.executable, "-m", "pip"]
  platforms = [f"--platform=manylinux{'_' * ('_' in version)}{version}_x86_64" for version in _GLIBC]
  download = [
    *pip, "download", "--quiet", "--no-deps", "--only-binary=:all:", f"--python-version={python}",
    "--implementation=cp", *platforms, "--dest", partial,
  ]  # fmt: skip
  for name in WHEELS:
    if subprocess.run([*download, name], capture_output=True).returncode:
      subprocess.run([*pip, "wheel", "--quiet", "--no-deps", "--wheel-dir", partial, name], check=True)
  # Not the checkout itself: it would gain a folder `build`, whose old files go into the next wheel.
  with tempfile.TemporaryDirectory() as tracked:
    subprocess.run(["git", "-C", ROOT, "checkout-index", "--all", f"--prefix={tracked}/"], check=True)
    subprocess.run([*pip, "wheel", "--quiet", "--no-deps", "--wheel-dir", partial, tracked], check=True)
  if wrong := [wheel.name for wheel in partial.glob("*-linux_*.whl")]:
    raise SystemExit(f"built for this machine alone: {', '.join(wrong)}")
  partial.rename(folder)


if __name__ == "__main__":
  main()
