"""The contrastive step of B/16 and mT5-base on a v4-128, batch 32,768: captions that go round, beside gathered ones.

Compiles each step by `xmcap plan`, scanned and with remat, with targets of 64 pieces; nothing is measured on a chip.
Gathered is benchmarks/contrastive_gather.py.

usage: python benchmarks/contrastive.py [TOPOLOGY]     (default: v4-128)
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

import report

_HERE = pathlib.Path(__file__).parent
_RUN = (
  "--gin_file=models/bb.gin", "--gin_file=runs/contrastive_cc3m35l.gin", "--gin.CaptionStream.target_lengths=()",
  "--gin.ViTConfig.scan=True", "--gin.T5Config.scan=True", "--gin.ViTConfig.remat=True", "--gin.T5Config.remat=True",
)  # fmt: skip
_FORMS = {"round": (), "gathered": (f"--gin_file={_HERE / 'contrastive_gather.gin'}",)}
_EXCHANGES = ("collective-permute", "all-gather", "all-reduce", "reduce-scatter")


def main() -> None:
  """Prints and keeps a row a plan."""
  topology = sys.argv[1] if len(sys.argv) > 1 else "v4-128"
  rows = []
  for captions in (1, 8):
    for form, options in _FORMS.items():
      plan = _plan(topology, *_RUN, *options, f"--gin.CAPTIONS_PER_IMAGE={captions}")
      moved = {name: plan["exchanges"].get(name, {}).get("bytes", 0) for name in _EXCHANGES}
      rows.append(
        (
          str(captions),
          form,
          f"{plan['memory']['total'] / 2**30:.2f}",
          f"{plan['memory']['working'] / 2**30:.2f}",
          *(f"{moved[name] / 2**20:,.0f}" for name in _EXCHANGES),
          f"{plan['estimated_cycles'] / 1e6:,.1f}",
        )
      )
      print("  ".join(rows[-1]), flush=True)
  report.write(
    "contrastive",
    "Contrastive training step of B/16 and mT5-base on a v4-128, batch 32,768",
    rows,
    columns=(
      "captions per picture", "captions", "GiB per chip", "of which temporaries",
      *(f"{name} MiB" for name in _EXCHANGES), "million cycles",
    ),
    notes=[
      "Compiler output for one chip; communication within a loop counts once. Nothing was run on a chip. Captions"
      " rotate between the devices (`round`), or are gathered on every device."
    ],
  )  # fmt: skip


def _plan(topology: str, *options: str) -> dict:
  with tempfile.TemporaryDirectory() as folder:
    file = pathlib.Path(folder, "plan.json")
    command = [
      sys.executable,
      "-m",
      "xmcap.cli",
      "plan",
      f"--topology={topology}",
      f"--json={file}",
      *options,
    ]
    path = os.pathsep.join([str(_HERE), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(command, env=os.environ | {"PYTHONPATH": path}, stdout=subprocess.DEVNULL)
    if not file.exists():
      raise SystemExit(f"no plan (exit code {done.returncode}): {' '.join(options)}")
    return json.loads(file.read_text(encoding="utf-8"))


if __name__ == "__main__":
  main()
