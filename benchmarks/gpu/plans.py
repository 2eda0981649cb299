"""What `xmcap plan` says of the memory of the steps that run.py measures: made at home, no GPU is needed.

usage: python benchmarks/gpu/plans.py TOPOLOGY     (h200, h100; some minutes for each of four steps)
Writes planned/TOPOLOGY.json, with which tables.py compares a measurement. To be made anew when the model's step
changes, with jax's CUDA compiler in the version of the machine that measures.
"""

import datetime
import importlib.metadata
import json
import pathlib
import subprocess
import sys
import tempfile
from typing import Any

import recipe

PLANNED = pathlib.Path(__file__).parent / "planned"


def main() -> None:
  (topology,) = sys.argv[1:]
  PLANNED.mkdir(exist_ok=True)
  steps = [planned(topology, captions, k) for captions in (512, 128) for k in (1, 8)]
  recipe.write(PLANNED / f"{topology}.json", steps)


def planned(topology: str, captions: int, captions_per_image: int) -> dict[str, Any]:
  """What is compared of a plan, with date and version of jax."""
  files = [f"--gin_file={file}" for file in recipe.FILES]
  bindings = [f"--gin.{binding}" for binding in recipe.bindings(captions, captions_per_image)]
  with tempfile.TemporaryDirectory() as folder:
    file = pathlib.Path(folder, "plan.json")
    command = [sys.executable, "-m", "xmcap.cli", "plan", f"--topology={topology}", f"--json={file}"]
    subprocess.run([*command, *files, *bindings], check=True)
    plan = json.loads(file.read_text(encoding="utf-8"))
  return {
    "variant": "default", "captions": captions, "tokens": recipe.TOKENS,
    **{name: plan["variant"][name] for name in ("captions_per_image", "microbatches")},
    "memory": plan["memory"], "date": datetime.date.today().isoformat(), "jax": importlib.metadata.version("jax"),
  }  # fmt: skip


if __name__ == "__main__":
  main()
