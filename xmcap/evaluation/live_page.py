"""Shows how a run's captions of a few images change while it trains, in the terminal and on a page."""

import functools
import itertools
import shutil
import time
from collections.abc import Iterator, Sequence
from typing import Any

import gin
import jax
import numpy as np

from xmcap import languages, terminal
from xmcap.data import images, records
from xmcap.errors import UsageError, XmcapError
from xmcap.evaluation import samples
from xmcap.files import files
from xmcap.pages.report import elements
from xmcap.pages.report.pictures import thumbnail
from xmcap.training.hosts import watch
from xmcap.training.hosts.stopping import EvaluationStopped
from xmcap.training.run import Hook, Run

_LANGUAGES = 4
_RELOAD = 5  # seconds
_LABELS = 18  # columns of the terminal before a caption
_LONGEST = 160  # characters of a caption on the page: an untrained model does not know when to stop
_SIDE = 320  # pixels of an image on the page


@gin.configurable
class LivePage(Hook):
  """A hook that captions a few images every so often, for people who watch a small run.

  The page replaces the file `out`, and a later evaluation may replace the page by its report. A page that cannot be
  written is reported once, and the run goes on.

  Args:
    predictor: captions images, as a `Predictor`.
    data_dir: folder of the records with the images.
    out: the page, a local file; "": only the terminal.
    split: split of the records; its first images with captions in all the languages are shown.
    languages: codes; (): four that the first record has.
    pictures: number of images.
    every: steps between two looks.
    title: title of the page.
    note: what the captions are, in a sentence.

  Raises:
    UsageError: a value is out of range, or no image has captions in all the languages.
  """

  def __init__(
    self, predictor: Any = gin.REQUIRED, data_dir: str = gin.REQUIRED, out: str = "", split: str = "validation",
    languages: Sequence[str] = (), pictures: int = 4, every: int = 200, title: str = "A run in progress",
    note: str = "",
  ):  # fmt: skip
    if pictures < 1 or every < 1:
      raise UsageError("LivePage: pictures and every must be at least 1")
    self.predictor, self.out, self.every, self.title, self.note = predictor, out, every, title, note
    source = records.RecordSource(data_dir, split)
    self.languages = tuple(languages) or _first_languages(source)
    pairs = ((record, _by_language(record)) for record in source)
    whole = ((record, captions) for record, captions in pairs if captions.keys() >= set(self.languages))
    chosen = list(itertools.islice(whole, pictures))
    if not chosen:
      raise UsageError(
        f"LivePage: no picture of {data_dir}, split '{split}', has captions in {' '.join(self.languages)}: give"
        " LivePage.languages"
      )
    self.references = {record.key: captions for record, captions in chosen}
    self._files = {record.key: record.image for record, _ in chosen}
    self._history: list[tuple[int, dict[str, dict[str, str]]]] = []
    self._has_failed = False

  def begin(self, run: Run) -> None:
    """Writes the page with the captions of people, so that there is something to see at once."""
    if run.step < run.total_steps:
      self._write(run)
      if self.out:
        run.say(f"watch it learn: open {self.out}")

  def __call__(self, run: Run) -> None:
    if not run.every(self.every):
      return
    began = time.monotonic()
    load = functools.partial(_pixels, self._files, self.predictor.image_size)
    try:
      with watch.during("evaluation", f"a look at step {run.step}"):
        captions = dict(self.predictor(run.state.weights, list(self._files), load, self.languages))
    except EvaluationStopped:
      run.evaluation_stopped = True
      return
    self._history.append((run.step, captions))
    run.say("\n".join(self._lines(run, captions)))
    self._write(run)
    run.progress.beside("evaluating", time.monotonic() - began)

  def _lines(self, run: Run, captions: dict[str, dict[str, str]]) -> list[str]:
    """The lines for the terminal: a caption, and after it in brackets what a person wrote if that differs."""
    lines = [f"step {run.step}/{run.total_steps}  captions so far (in brackets what a person wrote):"]
    room = max(20, (shutil.get_terminal_size().columns - _LABELS) // 2)
    for number, (key, references) in enumerate(self.references.items(), 1):
      for language in self.languages:
        caption, label = captions[key][language], f"picture {number}" if language == self.languages[0] else ""
        wrong = (
          ""
          if caption in references[language]
          else f"  ({terminal.shown(references[language][0], room - 4)})"
        )
        lines.append(f"  {label:<10} {language:<4} {terminal.shown(caption or '-', room)}{wrong}")
    return lines

  def _write(self, run: Run) -> None:
    if not self.out or jax.process_index():
      return
    try:
      files.write_lines(self.out, self._page(run))
    except XmcapError as error:
      if not self._has_failed:
        run.say(f"{self.out}: cannot be written ({error}); the run goes on without the page")
      self._has_failed = True

  def _page(self, run: Run) -> Iterator[str]:
    cards = (self._card(number, key) for number, key in enumerate(self.references, 1))
    lede = f"Step {run.step:,} of {run.total_steps:,}. {elements.escape(self.note)}"
    header = f"""<progress max="{run.total_steps}" value="{run.step}">{run.step / run.total_steps:.0%}</progress>
<p class="note">This page reloads itself every {_RELOAD} seconds.</p>"""
    return elements.card_page(self.title, "live.css", lede, header, cards, reload_seconds=_RELOAD)

  def _card(self, number: int, key: str) -> str:
    data = thumbnail(lambda: self._files[key], _SIDE, quality=90) or b""
    source = elements.picture_uri(data)
    rows = "".join(self._row(key, language) for language in self.languages)
    head = "<thead><tr><th>Language</th><th>The model now</th><th>A person</th></tr></thead>"
    return f"""<article class="sheet card"><img src="{source}" alt="picture {number}">
<div><table>{head}<tbody>{rows}</tbody></table>
{self._earlier(key)}</div></article>
"""

  def _row(self, key: str, code: str) -> str:
    language, references = languages.get(code), self.references[key][code]
    spoken = {"lang": code, "dir": language.direction}
    caption = self._history[-1][1][key][code] if self._history else ""
    right = "right" if caption in references else None
    cells = [
      elements.tag("th", language.english_name, scope="row"),
      elements.tag(
        "td", elements.escape(terminal.shown(caption, _LONGEST)) or "\u2013", class_=right, **spoken
      ),
      elements.tag("td", elements.escape(references[0]), class_="soft", **spoken),
    ]
    return elements.tag("tr", "".join(cells))

  def _earlier(self, key: str) -> str:
    """How the caption in the first language came about: each step at which it changed."""
    language = self.languages[0]
    steps = [(step, captions[key][language]) for step, captions in self._history]
    changed = [step for before, step in itertools.pairwise([(0, ""), *steps]) if before[1] != step[1]]
    spoken = {"lang": language, "dir": languages.get(language).direction}
    items = "".join(
      f"<li>step {step:,}: {elements.tag('bdi', elements.escape(terminal.shown(caption, _LONGEST)), **spoken)}</li>"
      for step, caption in changed
    )
    return elements.tag("ol", items, class_="earlier") if items else ""


def _by_language(record: records.Record) -> dict[str, list[str]]:
  texts: dict[str, list[str]] = {}
  for caption in record.captions:
    texts.setdefault(caption.language, []).append(caption.text)
  return texts


def _first_languages(source: records.RecordSource) -> tuple[str, ...]:
  return samples.chosen(_by_language(source.read([0])[0]), _LANGUAGES)


def _pixels(pictures: dict[str, bytes], size: int, key: str) -> np.ndarray:
  return images.load(pictures[key], key, size)
