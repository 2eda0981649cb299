"""Generated corpora: scenes of one to three emoji from left to right, with captions in many languages.

A caption joins the names of the emoji, which CLDR has from native speakers, with the list pattern of the language. Test
and validation images are combinations that training never sees. If a language lacks a name for an emoji (Maori,
Quechua), the image has no caption in it. `presets.py` has the corpora; emoji100.py and emoji_tags.py say what
theirs have in addition.

`build` writes a folder:

  records              the splits (records.py; of emoji36 `train` and `validation`); one caption per language, with the
                       standard list pattern
  tags.txt             the classes
  test/, validation/   captions.jsonl and images/KEY.png, in XM3600's release layout; with a second reference if the
                       language has a pattern without "and" (cldr.py); not of emoji100
  vocabulary_text.txt  names and captions in all languages, for training a SentencePiece model
  NAME.json            options, emoji and their source; written last, so it marks a complete corpus
"""

import os
import pathlib
from typing import Any

from xmcap import languages
from xmcap.corpora.building import release
from xmcap.corpora.emoji import choice as emoji_choice
from xmcap.corpora.emoji import emoji100, emoji_tags, scenes
from xmcap.corpora.emoji import sources as emoji_sources
from xmcap.corpora.emoji.combinations import Combinations
from xmcap.corpora.emoji.drawn_split import SEED, Drawing, DrawnSplit, SceneCaptions
from xmcap.corpora.emoji.presets import EMOJI36, EMOJI100, EMOJI_TAGS, Preset
from xmcap.data import record_writer
from xmcap.files import files, plans
from xmcap.progress import Progress, Say

VERSION = "1.0.0"


def build(
  preset: Preset, out: str | os.PathLike, *, processes: int | None = None, progress: Say | None = None
) -> pathlib.Path:
  """Builds a corpus; leaves a folder alone that already has it, and completes one that a kill left.

  The same preset and source give the same bytes with any number of processes.

  Args:
    preset: the corpus.
    out: the folder.
    processes: number of processes; None: one per core.
    progress: receives progress lines.

  Raises:
    UsageError: there are too few emoji, the folder contains something else, or a package is not installed.
    XmcapError: no source works (the message lists all), or the disk is full or cannot be written.
  """
  out = pathlib.Path(out)
  say = progress or (lambda line: None)

  def make(work_dir: pathlib.Path) -> dict[str, Any]:
    drawing = _DRAW[preset.name](preset, say)
    written = [
      record_writer.write_split(
        out, split.name, split.shards, split.records, dataset=split.dataset, processes=processes,
        progress=Progress(say, split.name, split.count), finished=work_dir,
      )
      for split in drawing.recorded
    ]  # fmt: skip
    for split in drawing.released:
      records = (record for shard in split.shards for record in split.records(shard, references=True))
      release.write_release(out / split.name, records)
      say(f"{split.name}: {split.count:,} pictures in the release layout")
    further = drawing.write_more(out)
    record_writer.write_tags(out, drawing.trained[0].tags)
    files.write_text(
      out / "vocabulary_text.txt", "".join(split.vocabulary_text() for split in drawing.trained)
    )
    record_writer.write_metadata(
      out,
      written,
      dataset=preset.name,
      version=VERSION,
      description=drawing.description,
      homepage="https://cldr.unicode.org/",
    )
    return {**drawing.about, **further}

  names = ("num_emoji", "num_held_out", "num_each", "least", "source", "difficulty", "image_size")
  options = {name: getattr(preset, name) for name in names}
  plan = {
    "corpus": preset.name,
    "version": VERSION,
    "options": {**options, "pictures": preset.pictures},
    "inputs": {},
  }
  if plans.carry_out(out, plan, make)[1]:
    say(f"{out} already has this corpus")
  return out


def _draw_emoji36(preset: Preset, say: Say) -> Drawing:
  say("looking for names and pictures of emoji")
  source = emoji_sources.find(preset.source or "auto")
  chosen = emoji_choice.choose(source.cldr.names, source.images, preset.num_emoji, emoji_choice.OPTIONAL)
  say(f"{preset.num_emoji} emoji ({source.way})")
  names = {language: [emoji.names.get(language) for emoji in chosen] for language in languages.LANGUAGES}
  captioner = SceneCaptions(names, source.cldr.standard, source.cldr.plain)
  renderer = scenes.Renderer([emoji.picture for emoji in chosen], preset.image_size, preset.scene)
  draw = Combinations(preset.num_emoji, preset.pictures, SEED).draw
  tags = [emoji.tag for emoji in chosen]
  train, validation, test = (
    DrawnSplit(preset.name, name, count, preset.shard_records, tags, captioner, renderer, draw)
    for name, count in preset.pictures.items()
  )
  return Drawing(
    "Pictures of emoji with their names, by native speakers, as captions in 36 languages.",
    recorded=(train, validation),
    released=(validation, test),
    trained=(train,),
    about={"way": source.way, "emoji": emoji_choice.described(chosen)},
  )


_DRAW = {EMOJI36.name: _draw_emoji36, EMOJI100.name: emoji100.draw, EMOJI_TAGS.name: emoji_tags.draw}
