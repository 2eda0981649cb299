"""The commands that build corpora: emoji36, emoji100 and emoji_tags, which are generated, and published releases."""

import argparse
import dataclasses
import functools
import os
import pathlib
from collections.abc import Mapping
from typing import Any

from xmcap.commands import base, build_options, data_build_folder
from xmcap.corpora.building.file_names import BABEL_IMAGENET, CC3M35L, COCO35L, ELSEWHERE, XM3600, ReleasePart
from xmcap.corpora.emoji import presets
from xmcap.errors import UsageError
from xmcap.files import outputs


def add(actions) -> None:
  """Declares `data build` of the generated corpora, own pictures, COCO-CN and the other releases."""
  corpora = base.add_group(actions, "build", "CORPUS", "build a corpus")
  for preset in presets.PRESETS:
    _add_drawn(corpora, preset)
  data_build_folder.add(corpora)
  _add_coco_cn(corpora)
  index = "the SentencePiece model of the runs: also write the index of caption lengths (see `data index`)"
  imagenet = "ImageNet's validation pictures and class names, for zero-shot classification"
  for name, parts, summary in (
    ("coco35l", COCO35L, "MSCOCO with captions in 35 languages"),
    ("cc3m35l", CC3M35L, "Conceptual Captions with captions in 35 languages"),
    ("xm3600", XM3600, "Crossmodal-3600: 3,600 pictures, 36 languages, for evaluation"),
    ("babel_imagenet", BABEL_IMAGENET, imagenet),
  ):
    command = _add_release(corpora, name, parts, summary)
    command.set_defaults(vocabulary=None)
    if parts is COCO35L:
      ids = "ids of pictures that train is to be without, one a line, such as coco-cn_test.txt (repeatable)"
      base.text(command, "--exclude", "FILE", ids, [], action="append")
    if parts in (COCO35L, CC3M35L):
      base.text(command, "--vocabulary", "PATH", index)


def _add_drawn(corpora, preset: presets.Preset) -> None:
  build = functools.partial(_build_drawn, preset)
  command = base.add_command(corpora, preset.name, build, preset.summary, preset.details, extra="train")
  base.text(command, "--out", "DIR", "folder of the corpus", required=True)
  for name, help, least in (
    ("num_emoji", "classes; about 360 emoji are distinguishable", 5),
    ("num_train", "training pictures with human captions", 1),
    ("num_validation", "validation pictures", 1),
    ("num_test", "test pictures", 1),
    ("vocabulary_size", "tokens of the SentencePiece model trained on the captions", 0),
  ):
    base.number(command, f"--{name}", help, getattr(preset, name), least=least)
  base.text(
    command, "--difficulty", "NAME", "easy (emoji in much the same places) or medium", preset.difficulty
  )
  if preset.source:
    base.text(
      command, "--source", "NAME", "of names and pictures: installed, debian, npm or auto", preset.source
    )
  base.add_processes(command)


def _build_drawn(preset: presets.Preset, arguments) -> None:
  """Builds a generated corpus, its vocabulary, and the index of the lengths of its captions."""
  from xmcap import languages
  from xmcap.corpora.emoji import corpus
  from xmcap.data import length_index
  from xmcap.data.vocabulary import Vocabulary, train_vocabulary

  options = {field.name for field in dataclasses.fields(preset)} & vars(arguments).keys()
  preset = dataclasses.replace(preset, **{name: getattr(arguments, name) for name in options})
  splits = tuple(preset.pictures) if preset.num_mt else ("train", "validation")
  codes = languages.WIDE if preset.name == "emoji100" else ()
  with outputs.held(arguments.out, arguments.prog):
    out = corpus.build(preset, arguments.out, processes=arguments.processes, progress=base.say)
    model = str(out / "vocabulary.model")
    if not os.path.exists(model):
      # Tokens may span words: the names of emoji recur as a whole, and targets become half as long.
      text = str(out / "vocabulary_text.txt")
      trained = train_vocabulary(text, model, preset.vocabulary_size, span_words=True, languages=codes)
      base.say(f"vocabulary: {trained.size:,} tokens")
    length_index.write_absent(out, Vocabulary(model), splits, processes=arguments.processes, say=base.say)
  print(f"{out}: {preset.name} is ready")


def _add_coco_cn(corpora) -> None:
  command = base.add_command(
    corpora, "coco_cn", _build_coco_cn, "COCO-CN: pictures of MSCOCO with Chinese sentences and tags",
    "Reads version 1805 or 1805v1.1, or the extension coco-cn_ext.icap2020.txt, as published, in place; "
    "docs/coco_cn.md says what is needed.",
    extra="train",
  )  # fmt: skip
  images = "folder or archive of MSCOCO 2014's pictures, such as train2014.zip (repeatable)"
  english = "MSCOCO's captions, such as captions_train2014.json (repeatable)"
  labels = "tags, one per line: count tags of the release that are not in this list"
  base.text(command, "--out", "DIR", "folder for the corpus", required=True)
  base.text(
    command,
    "--release",
    "PATH",
    "folder or archive of the text files, or that of the extension",
    required=True,
  )
  base.text(command, "--images", "PATH", images, [], action="append")
  base.text(command, "--english", "FILE", english, [], action="append")
  base.text(command, "--labels", "FILE", labels)
  base.flag(command, "--no_images", "write only references, tags and annotations, no records")
  build_options.add(command)


def _build_coco_cn(arguments) -> None:
  if bool(arguments.images) == arguments.no_images:
    raise UsageError("give either the pictures with --images=PATH, or --no_images to build only the texts")
  read = {f"--{name}": getattr(arguments, name) for name in ("release", "images", "english", "labels")}
  base.check_local({**read, "--out": arguments.out})
  outputs.keep_apart({"--out": arguments.out}, read)
  with outputs.held(arguments.out, arguments.prog):
    from xmcap.corpora.releases import coco_cn

    corpus = coco_cn.CocoCn(
      pathlib.Path(arguments.release),
      tuple(map(pathlib.Path, arguments.images)),
      tuple(map(pathlib.Path, arguments.english)),
      pathlib.Path(arguments.labels) if arguments.labels else None,
    )
    if not arguments.no_images:
      build_options.build(arguments, corpus)
      return
    about = coco_cn.write_text(corpus, arguments.out, build_options.parsed(arguments), say=base.say)
  for split, counts in about["splits"].items():
    print(
      f"{split}: {counts['pictures']:,} pictures with {counts['captions']:,} captions, and "
      f"{counts['machine_captions']:,} machine translations"
    )
  summary = about["summary"] and f"problems, each in {arguments.out}/problems.jsonl:\n{about['summary']}"
  print(f"{arguments.out} contains the texts\n{summary or 'no problems with the release'}")


def _add_release(
  corpora, name: str, parts: Mapping[str, ReleasePart], summary: str
) -> argparse.ArgumentParser:
  command = base.add_command(
    corpora, name, functools.partial(_build_release, name, parts), summary,
    "Reads the published files in place; a build that was killed resumes when it is started again. "
    "docs/corpora.md lists the files.",
    extra="train",
  )  # fmt: skip
  release = "folder of the published files under their original names; or name each:"
  base.text(command, "--out", "DIR", "folder for the corpus", required=True)
  base.text(command, "--release", "DIR", release)
  for option, part in parts.items():
    base.text(command, f"--{option}", "PATH", part.text)
  base.flag(command, "--download", "first download missing files that have a public address into --release")
  build_options.add(command)
  return command


def _build_release(name: str, parts: Mapping[str, ReleasePart], arguments: argparse.Namespace) -> None:
  base.check_local({f"--{name}": getattr(arguments, name) for name in ("release", "out", *parts)})
  if arguments.download and not arguments.release:
    raise UsageError("--download needs --release=DIR, the folder for the files")
  options = ("release", "exclude", *parts)
  outputs.keep_apart(
    {"--out": arguments.out}, {f"--{option}": getattr(arguments, option, None) for option in options}
  )
  places = [("--out", arguments.out, True)]
  if arguments.download:
    places.append(("--release", arguments.release, True))
  with outputs.held_all(places, arguments.prog):
    paths = _paths(name, parts, arguments)
    from xmcap.corpora.releases import babel_imagenet, cc3m35l, coco35l, xm3600
    from xmcap.data.vocabulary import Vocabulary

    if name == "coco35l":
      corpus = coco35l.Coco35l(**paths, exclude=tuple(map(pathlib.Path, arguments.exclude)))
    elif name == "cc3m35l":
      corpus = cc3m35l.Cc3m35l(**paths)
    elif name == "xm3600":
      corpus = xm3600.Xm3600(**paths)
    else:
      corpus = babel_imagenet.BabelImagenet(**paths)
    model = Vocabulary(arguments.vocabulary) if arguments.vocabulary else None
    build_options.build(arguments, corpus, model)


def _paths(name: str, parts: Mapping[str, ReleasePart], arguments) -> dict[str, Any]:
  """Option -> path of every part, as given or in the release's folder; None if it is optional and missing."""
  release = pathlib.Path(arguments.release) if arguments.release else None
  if name == "xm3600" and release and not any(getattr(arguments, option) for option in parts):
    from xmcap.reading import hub_folders

    if hub_folders.of_languages(mirror := hub_folders.tables(release)):
      return dict.fromkeys(parts, mirror)

  def find(option: str) -> pathlib.Path | None:
    if path := getattr(arguments, option):
      return pathlib.Path(path)
    return parts[option].find(release) if release else None

  if release and arguments.download:
    from xmcap.corpora.building import downloads

    for option, part in parts.items():
      if part.url and find(option) is None:
        downloads.fetch(part.url, release, base.say)
    if name in ELSEWHERE:
      base.say(ELSEWHERE[name])
  paths = {option: find(option) for option in parts}
  absent = [option for option, path in paths.items() if path is None and not parts[option].optional]
  if absent:
    hint = " (or add --download)" if all(parts[option].url for option in absent) else f"; {ELSEWHERE[name]}"
    where = f"{release} has no {parts[absent[0]].names[0]}: " if release else ""
    raise UsageError(f"{where}give {', '.join(f'--{option}' for option in absent)}{hint}")
  return paths
