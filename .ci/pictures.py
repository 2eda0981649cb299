"""Makes every picture of the documentation from the product: docs/images/NAME.webp and its variants.

Each is a real command's output in Chromium: at 1300 and at 400 pixels, light and dark. The plots come from `plots.py`.
Needs what `bash quickstart.sh` leaves, the packages of test.sh, and fonts for all scripts (on Debian: fonts-noto-core,
fonts-droid-fallback).

usage: python .ci/pictures.py [--quickstart=DIR] [--work=DIR] [NAME ...]     default: all

The commands' outputs stay in --work, and a further call takes them from there: delete it after changing the product.
"""

import argparse
import contextlib
import html
import io
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

ROOT = pathlib.Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs" / "images"
LANGUAGES = "ar,de,en,hi,ja,quz,sw,th"
_PICTURES = 60
_WAIT = 900_000  # ms; a busy machine may compile for minutes
_PLAN = [
  "plan", "--gin_file=models/bb.gin", "--gin_file=runs/train_coco35l.gin", "--topology=v4-128",
  "--gin.TARGET_LENGTH=32",
]  # fmt: skip


class Shot(NamedTuple):
  """How a picture is taken.

  Attributes:
    open: leads a page to what is shown.
    sizes: ending of the file's name -> width and height in CSS pixels, and device pixels for each.
    at: what is scrolled to the top, as a CSS selector; "" for the top of the page.
  """

  open: Callable[["Studio", Any], None]
  sizes: dict[str, tuple[int, int, float]]
  at: str = ""


class Studio:
  """What the pictures are taken of: outputs of commands in a folder, made when first asked for."""

  def __init__(self, quickstart: pathlib.Path, work: pathlib.Path):
    self.quickstart, self.work = quickstart, work
    self.images = quickstart / "data" / "test" / "images"
    work.mkdir(parents=True, exist_ok=True)

  def run(self, *arguments: str) -> str:
    """What a command prints, kept for the next time."""
    name = re.sub(r"\W+", "-", " ".join(arguments))[:120] + ".txt"
    kept = self.work / name
    if not kept.exists():
      done = subprocess.run(
        _command(*arguments), cwd=self.work, stdout=subprocess.PIPE, text=True, env=_environment()
      )
      if done.returncode:
        raise SystemExit(f"xmcap {' '.join(arguments)}: exit code {done.returncode}")
      kept.write_text(done.stdout, encoding="utf-8")
    return kept.read_text(encoding="utf-8")

  def inputs(self) -> None:
    """Writes references and captions of the first pictures of the quickstart: of its captioner, and of a baseline."""
    if (self.work / "nearest.jsonl").exists():
      return
    source = self.quickstart / "data" / "test" / "captions.jsonl"
    lines = source.read_text(encoding="utf-8").splitlines(keepends=True)[:_PICTURES]
    (self.work / "references.jsonl").write_text("".join(lines), encoding="utf-8")
    keys = {json.loads(line)["image/key"]: None for line in lines}
    few = self.work / "few"
    few.mkdir(exist_ok=True)
    for key in list(keys)[:12]:
      shutil.copy(self.images / f"{key}.png", few)
    for name, file in (("captioner", "predictions"), ("nearest", "baseline_nearest_picture")):
      with open(self.quickstart / "eval" / f"{file}.jsonl", encoding="utf-8") as rows:
        kept = [line for line in rows if json.loads(line)["image/key"] in keys]
      (self.work / f"{name}.jsonl").write_text("".join(kept), encoding="utf-8")

  def score(self) -> None:
    """Scores both."""
    self.inputs()
    for name in ("captioner", "nearest"):
      self.run(
        "score", "--references=references.jsonl", f"--predictions={name}.jsonl", f"--languages={LANGUAGES}",
        f"--images={self.images}", "--bootstrap=1000", "--title=emoji36", f"--out={name}",
      )  # fmt: skip


def report(studio: Studio, page: Any) -> None:
  """The report of `xmcap score`."""
  studio.score()
  page.goto((studio.work / "captioner/report.html").as_uri(), timeout=_WAIT)
  page.locator(".card").first.wait_for(timeout=_WAIT)


def compare(studio: Studio, page: Any) -> None:
  """The report of `xmcap compare`."""
  studio.score()
  studio.run(
    "compare",
    "nearest",
    "captioner",
    "--references=references.jsonl",
    f"--images={studio.images}",
    "--out=compared",
  )
  page.goto((studio.work / "compared/report.html").as_uri(), timeout=_WAIT)
  page.locator(".card").first.wait_for(timeout=_WAIT)


def rate(studio: Studio, page: Any) -> None:
  """A rating page, with a rater at work."""
  studio.inputs()
  studio.run(
    "human", "rate", "--protocol=sxs", "--predictions=captioner=captioner.jsonl", "--predictions=nearest=nearest.jsonl",
    f"--images={studio.images}", "--references=references.jsonl", "--languages=en", "--limit=20", "--out=rate.html",
  )  # fmt: skip
  page.goto((studio.work / "rate.html").as_uri(), timeout=_WAIT)
  page.keyboard.type("anna")
  page.keyboard.press("Enter")


def annotate(studio: Studio, page: Any) -> None:
  """An annotation page, with an annotator at work."""
  studio.inputs()
  studio.run(
    "human", "annotate", "--images=few", "--language=de", "--sentences=captioner.jsonl", "--out=annotate"
  )
  page.goto((studio.work / "annotate/annotate.html").as_uri(), timeout=_WAIT)
  page.keyboard.type("anna")
  page.keyboard.press("Enter")


def serve(studio: Studio, page: Any) -> None:
  """The served page with two captioned pictures. The server runs until the script ends."""
  studio.inputs()
  page.goto(_server(studio), timeout=_WAIT)
  page.locator("body[data-ready]").wait_for(timeout=_WAIT)
  page.set_input_files("#files", [str(path) for path in sorted((studio.work / "few").iterdir())[8:10]])
  page.locator(".card").nth(1).wait_for(timeout=_WAIT)
  page.wait_for_function(
    "() => document.querySelector('.card dd') && !document.querySelector('.card dd.waiting')", timeout=_WAIT
  )


def plan(studio: Studio, page: Any) -> None:
  """A terminal in which `xmcap plan` has printed."""
  printed = studio.run(*_PLAN).partition("The smallest slice")[0]
  if page.viewport_size["width"] < 1_000:  # the next table is wider
    printed = printed.partition("\nthe run")[0]
  _terminal(page, "xmcap " + " ".join(_PLAN), printed)


_WIDE, _NARROW = (1300, 820, 1.0), (400, 720, 1.5)
_BOTH = {"": _WIDE, "-400": _NARROW}
_TALL = {"": (1300, 1240, 1.0), "-400": (400, 960, 1.5)}
_DOOR = {"": (640, 400, 1.25)}
PICTURES = {
  "report": Shot(report, _TALL),
  "compare": Shot(compare, _TALL),
  "serve": Shot(serve, {"": _WIDE, "-400": (400, 720, 1.5)}),
  "rate": Shot(rate, _BOTH),
  "annotate": Shot(annotate, _BOTH),
  "plan": Shot(plan, {"": (1300, 740, 1.0), "-400": (400, 350, 1.5)}),
  "door_score": Shot(compare, {"": (800, 500, 1.0)}, "#languages"),
  "door_own": Shot(serve, _DOOR, ".card"),
  "door_pod": Shot(plan, _DOOR),
  "door_look": Shot(report, _DOOR, "#cards"),
}
"""The pictures by name; `plots.PLOTS` has the others."""


def files() -> list[str]:
  """The names of all files that this script writes."""
  return [
    f"{name}{size}{dark}.webp"
    for name, shot in PICTURES.items()
    for size in shot.sizes
    for dark in ("", "-dark")
  ]


def take(studio: Studio, browser: Any, name: str) -> None:
  """Writes the files of a picture."""
  shot = PICTURES[name]
  for size, (width, height, scale) in shot.sizes.items():
    for dark in ("", "-dark"):
      context = browser.new_context(
        viewport={"width": width, "height": height},
        device_scale_factor=scale,
        color_scheme="dark" if dark else "light",
        reduced_motion="reduce",
      )
      page = context.new_page()
      page.set_default_timeout(_WAIT)
      shot.open(studio, page)
      if shot.at:
        page.locator(shot.at).first.evaluate("place => place.scrollIntoView()")
      page.wait_for_timeout(1_000)  # pictures are decoded, and the page has scrolled
      _write(page.screenshot(timeout=_WAIT), IMAGES / f"{name}{size}{dark}.webp")
      context.close()


def _write(png: bytes, path: pathlib.Path) -> None:
  from PIL import Image

  Image.open(io.BytesIO(png)).convert("RGB").save(path, "WEBP", quality=62, method=6)
  print(f"{path.name}: {path.stat().st_size / 1e3:.0f} kB", flush=True)


def _terminal(page: Any, command: str, printed: str) -> None:
  width = page.viewport_size["width"]
  size, padding = (8.8, 10) if width < 500 else (12.5, 16) if width < 1_000 else (14, 20)
  page.set_content(f"""<!doctype html><meta charset="utf-8"><style>
    :root {{ color-scheme: light dark }}
    body {{ margin: 0; background: light-dark(#fafafa, #14161c); color: light-dark(#222, #ddd) }}
    pre {{ margin: 0; padding: {padding}px; white-space: pre-wrap; overflow-wrap: anywhere;
      font: {size}px/1.35 "DejaVu Sans Mono", monospace }}
    b {{ color: light-dark(#3f51b5, #9fa8ff) }}
    </style><pre><b>$ {html.escape(command)}</b>\n{html.escape(printed)}</pre>""")


_SERVERS: dict[str, tuple[subprocess.Popen, str]] = {}


def _server(studio: Studio) -> str:
  """The address of a running server of the quickstart's model."""
  if "one" not in _SERVERS:
    command = _command("serve", f"--model_dir={studio.quickstart / 'model'}", "--port=0", "--searches=greedy")
    process = subprocess.Popen(
      command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=_environment()
    )
    assert process.stdout
    for line in process.stdout:
      if found := re.search(r"http://127\.0\.0\.1:\d+", line):
        _SERVERS["one"] = process, found[0]
        break
    else:
      raise SystemExit("xmcap serve ended before it served")
  return _SERVERS["one"][1]


@contextlib.contextmanager
def _browser() -> Iterator[Any]:
  from playwright.sync_api import sync_playwright

  found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
  with sync_playwright() as playwright:
    browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"], timeout=_WAIT)
    yield browser
    browser.close()
  for process, _ in _SERVERS.values():
    process.terminate()
    process.wait()


def _check_fonts() -> None:
  for language in ("ar", "hi", "ja", "th"):
    found = subprocess.run(
      ["fc-list", f":lang={language}", "family"], stdout=subprocess.PIPE, check=True
    ).stdout
    if not found.strip():
      raise SystemExit(
        f"no font has the letters of {language}: on Debian, fonts-noto-core and fonts-droid-fallback"
      )


def _command(*arguments: str) -> list[str]:
  return [sys.executable, "-c", "from xmcap.cli import console; console()", *arguments]


def _environment() -> dict[str, str]:
  return {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "80", "PYTHONUNBUFFERED": "1"}


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("--quickstart", type=pathlib.Path, default=ROOT / "runs" / "quickstart")
  parser.add_argument("--work", type=pathlib.Path, default=ROOT / "runs" / "pictures")
  parser.add_argument("names", nargs="*", metavar="NAME")
  arguments = parser.parse_args()
  if unknown := set(arguments.names) - set(PICTURES):
    raise SystemExit(f"no picture {', '.join(sorted(unknown))}; there are {', '.join(PICTURES)}")
  _check_fonts()
  studio = Studio(arguments.quickstart.resolve(), arguments.work.resolve())
  with _browser() as browser:
    for name in arguments.names or PICTURES:
      take(studio, browser, name)


if __name__ == "__main__":
  main()
