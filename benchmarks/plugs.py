"""PLuGS on emoji36: the target alone, a stabilizer before it, and stabilizers that all languages of a picture share.

usage: python benchmarks/plugs.py [QUICKSTART] [--out=DIR] [--steps=300] [--pictures=40]
QUICKSTART is the folder that `bash quickstart.sh` made, by default runs/quickstart: its corpus, and its ViT from tags.
The three captioners are trained in DIR by the recipe of runs/quickstart.gin with fewer steps; one that is there already
is not trained again. Then all of them caption the first pictures of `test` in 36 languages, by several searches.
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile
import time

import gin
import report

from xmcap.data import images
from xmcap.evaluation import model_dir
from xmcap.evaluation.predictor import Predictor
from xmcap.languages import LANGUAGES
from xmcap.models.decoding.beam_search import Beam
from xmcap.models.decoding.search import Greedy
from xmcap.reading import subsets
from xmcap.reading.references import read_references
from xmcap.scoring.score import score

_LENGTH = 24  # of a caption, and of a stabilizer
_BATCH = 10  # pictures
_SEARCHES = {"greedy": Greedy(), "beam of 4": Beam(4)}
_FORMS = {"target only": (1,), "plain": (1,), "consistent": (2, 1)}


def options() -> argparse.Namespace:
  parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
  parser.add_argument("quickstart", type=pathlib.Path, nargs="?", default=pathlib.Path("runs/quickstart"))
  parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(tempfile.gettempdir(), "xmcap-plugs"))
  parser.add_argument("--steps", type=int, default=300)
  parser.add_argument("--pictures", type=int, default=40)
  parser.add_argument("--form", choices=_FORMS, help="only train this one")
  return parser.parse_args()


def train(asked: argparse.Namespace, form: str) -> pathlib.Path:
  """Trains a captioner, if it is not there; returns its folder."""
  folder = asked.out / form.replace(" ", "_")
  if (folder / "checkpoints" / str(asked.steps)).exists():
    return folder
  files = ["models/tiny.gin", "data/emoji36.gin", "runs/quickstart.gin"]
  macros = [f"PRETRAINED=[('{asked.quickstart / 'tags'}', 'vit')]", f"TOTAL_STEPS={asked.steps}"]
  if form != "target only":
    files.append("runs/plugs.gin")
    macros += [f"FORM='{form}'", f"STABILIZER_LENGTH={_LENGTH}", f"TARGET_LENGTH={2 * _LENGTH}"]
    macros += ["CaptionStream.target_lengths=(16, 24, 48)"]
  macros += [f"DATA_DIR={asked.quickstart / 'data'}", f"MODEL_DIR={folder}", "hooks.evaluators=[]"]
  given = [f"--gin_file={file}" for file in files] + [f"--gin.{macro}" for macro in macros]
  subprocess.run([sys.executable, "-m", "xmcap.cli", "train", *given], check=True)
  return folder


def measured(
  folder: pathlib.Path, references, pictures: pathlib.Path, search, phases: int
) -> tuple[str, ...]:
  """CIDEr-D, distinct stabilizers of a picture, captions per second of processor time."""
  gin.clear_config()
  model_dir.parse(str(folder), overrides=[f"Stabilizer.phases={phases}"])
  predictor = Predictor(search=search, batch_size=_BATCH)
  params = model_dir.load_params(str(folder))

  def load(key):
    return images.load((pictures / f"{key}.png").read_bytes(), key, predictor.image_size)

  keys, codes = list(references), list(LANGUAGES)
  dict(predictor(params, keys[:_BATCH], load, codes))  # compiles
  began = time.process_time()
  found = dict(predictor(params, keys, load, codes))
  seconds = time.process_time() - began
  held = {
    key: {code: text for code, text in texts.items() if code in references[key]}
    for key, texts in found.items()
  }
  cider = score(references, held, metrics=("cider_d",)).table.means["36"]["cider_d"]
  stabilizers, marks = predictor.stabilizers, predictor.generator.marks
  number = f"{next(marks.rows(stabilizers, ''))[2]:.2f}" if stabilizers and marks else ""
  return f"{cider:.2f}", number, f"{len(keys) * len(codes) / seconds:,.0f}"


def main() -> None:
  asked = options()
  if asked.form:
    train(asked, asked.form)
    return
  folders = {form: train(asked, form) for form in _FORMS}
  held = read_references(asked.quickstart / "data/test/captions.jsonl", None)
  references = subsets.take(held, list(held)[: asked.pictures])
  rows = []
  for form, decodings in _FORMS.items():
    for phases in decodings:
      for name, search in _SEARCHES.items():
        how = {("consistent", 2): ", two phases", ("consistent", 1): ", one phase"}.get((form, phases), "")
        figures = measured(folders[form], references, asked.quickstart / "data/test/images", search, phases)
        rows.append((form, name + how, *figures))
        print(*rows[-1], sep="  ", flush=True)
  report.write(
    "plugs",
    "PLuGS on emoji36: target only, plain, consistent",
    rows,
    columns=(
      "form",
      "decoding",
      "CIDEr-D",
      "distinct stabilizers of a picture",
      "captions a second of a core",
    ),
    notes=[
      f"{asked.steps} steps of 128 captions each, which is {asked.steps / 2000:.0%} of the quickstart's; then"
      f" {asked.pictures} pictures in {len(LANGUAGES)} languages, in batches of {_BATCH} pictures.",
      "After so few steps many captions of the consistent form repeat a name until they are cut, in one phase later"
      " than in two.",
      "Speed is captions divided by the processor time of all threads, since other programs ran on the machine.",
      "Two phases: the stabilizer of a picture is decoded once for its languages. One phase is beam search called"
      " inconsistent, where each language finds its own.",
    ],
  )


if __name__ == "__main__":
  main()
