"""emoji36: generated scenes with human-written names as captions in 36 languages, from two Debian packages.

A picture shows one to three emoji from left to right. Its caption joins their names, which CLDR has from native
speakers, with the list pattern of the language. Test and validation pictures are combinations that training never sees.
If a language lacks a name for an emoji (Maori, Quechua), the picture has no caption in it.

`build` writes a folder:

  records              `train` and `validation` (records.py) and tags.txt; one caption per language, with the standard
                       list pattern
  test/, validation/   captions.jsonl and images/KEY.png, in XM3600's release layout; with a second reference if the
                       language has a pattern without "and" (cldr.py)
  vocabulary_text.txt  names and captions in all languages, for training a SentencePiece model
  emoji36.json         options, emoji and their source; written last, so it marks a complete corpus
"""

import os
import pathlib
from typing import Any

from xmcap import languages
from xmcap.corpora.emoji import choice as emoji_choice
from xmcap.corpora.emoji import drawn_split, scenes
from xmcap.corpora.emoji import sources as emoji_sources
from xmcap.corpora.emoji.combinations import Combinations
from xmcap.corpora.emoji.drawn_split import DrawnSplit, SceneCaptions
from xmcap.corpora.emoji.options import Emoji36Options
from xmcap.progress import Say

NAME = "emoji36"
VERSION = "1.0.0"
_DESCRIPTION = "Pictures of emoji with their names, by native speakers, as captions in 36 languages."
_RECORDS_IN_SHARD = 8192
_OPTIONAL = ("mi", "quz")  # languages in which an emoji may lack a name


def build(
  out: str | os.PathLike,
  *,
  cache: str | os.PathLike | None = None,
  processes: int | None = None,
  progress: Say | None = None,
  **given: Any,
) -> pathlib.Path:
  """Builds the corpus; leaves a folder alone that already has it, and completes one that a kill left.

  The same options and source give the same bytes with any number of processes.

  Args:
    out: the folder.
    cache: folder for downloads; None: in the user's cache folder.
    processes: number of processes; None: one per core.
    progress: receives progress lines.
    given: fields of `Emoji36Options`.

  Raises:
    UsageError: an option is out of range, or the folder contains something else.
    XmcapError: no source works (the message lists all three), or the disk is full or cannot be written.
  """
  options = Emoji36Options(**given)

  def make(out: pathlib.Path, work_dir: pathlib.Path, say: Say) -> dict[str, Any]:
    say("looking for names and pictures of emoji")
    source = emoji_sources.find(options.source, cache)
    chosen = emoji_choice.choose(source.cldr.names, source.pictures, options.num_emoji, _OPTIONAL)
    say(f"{options.num_emoji} emoji ({source.way})")
    names = {language: [emoji.names.get(language) for emoji in chosen] for language in languages.LANGUAGES}
    captioner = SceneCaptions(names, source.cldr.standard, source.cldr.plain)
    renderer = scenes.Renderer([emoji.picture for emoji in chosen], options.image_size, options.scene)
    draw = Combinations(options.num_emoji, options.pictures, options.seed).draw
    tags = [emoji.tag for emoji in chosen]
    train, validation, test = (
      DrawnSplit(NAME, name, count, _RECORDS_IN_SHARD, options.seed, tags, captioner, renderer, draw)
      for name, count in options.pictures.items()
    )
    written = drawn_split.write_records(out, (train, validation), work_dir, processes, say)
    drawn_split.write_released(out, (validation, test), say)
    drawn_split.write_beside(out, (train,), written, VERSION, _DESCRIPTION)
    return {"way": source.way, "emoji": emoji_choice.described(chosen)}

  planned = options.plan("num_emoji", "source")
  return drawn_split.build_once(out, NAME, VERSION, planned, make, progress)
