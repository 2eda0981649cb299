"""The commands that select pictures and inspect corpora: data select, check, show, index and stats."""

import contextlib
import os
import time

from xmcap.commands import base, data_build, data_derived
from xmcap.errors import UsageError, XmcapError
from xmcap.files import outputs

_STREAM_OPTIONS = (
  "split", "languages", "vocabulary", "captions_per_image", "image_size", "target_length", "seed",
)  # fmt: skip


def add(commands) -> None:
  """Declares the commands."""
  actions = base.add_group(commands, "data", "ACTION", "build and inspect corpora")
  _add_select(actions)
  data_build.add(actions)
  data_derived.add(actions)
  _add_check(actions)
  _add_show(actions)
  _add_index(actions)
  _add_stats(actions)


def _add_select(actions) -> None:
  command = base.add_command(
    actions, "select", _select, "select pictures from where each language is spoken, as XM3600's were",
    "The language of the smallest pool comes first. Where an area has too few pictures, they come from a country of "
    "the language, then from its continents, then from anywhere.",
  )  # fmt: skip
  candidates = (
    "CSV of image/key (or ImageID), and languages (spoken in the area), or country (two letters), or both; or "
    "latitude and longitude; or a folder of pictures with GPS coordinates in EXIF"
  )
  places = "CSV of language, country and perhaps area (IN.28); default: where the 36 languages have an official status"
  cities = "for coordinates: a table of GeoNames such as cities500.zip; its nearest place within 100 km gives country and area"
  base.text(command, "candidates", "FILE", candidates)
  out = "CSV of the selected pictures, their languages and levels"
  base.text(command, "--out", "FILE", out, endings=(".csv",), required=True)
  base.add_raw(command)
  base.add_languages(command, "to select for; default: all 36, or those of --places")
  base.number(command, "--count", "pictures for each language", 100, least=1)
  base.text(command, "--places", "FILE", places)
  base.text(command, "--cities", "FILE", cities)
  base.number(command, "--seed", "seed of the order within a pool", 0)


def _select(arguments) -> None:
  from xmcap.corpora.building import selection

  tables = {"--places": arguments.places, "--cities": arguments.cities}
  outputs.keep_apart({"--out": arguments.out}, {"FILE": arguments.candidates, **tables})
  countries = selection.countries_of_languages(arguments.places)
  with outputs.held(arguments.out, arguments.prog, folder=False):
    candidates = selection.read_candidates(arguments.candidates, arguments.cities)
    selected = selection.select(
      candidates,
      arguments.languages or tuple(countries),
      arguments.count,
      arguments.seed,
      countries,
    )
    selection.write(arguments.out, selected)
  print(selection.table(selected))
  if candidates.left_out:
    print(f"{arguments.candidates}: {candidates.left_out:,} pictures without coordinates were left out")
  print(f"{arguments.out}: {len(selected.pictures):,} pictures")


def _add_check(actions) -> None:
  command = base.add_command(
    actions, "check", _check, "check every record, picture and caption of a corpus",
    "Exits with code 1 if a record cannot be used. Pictures that two splits share are warnings. With --against it only "
    "finds pictures shared with other corpora.",
    extra="train",
  )  # fmt: skip
  base.text(command, "dir", "DIR", "a built corpus")
  parts = "a split, or a part such as train[:1000] (repeatable); default: all"
  base.text(command, "--split", "NAME", parts, [], action="append")
  out = "folder for check.json and the list check.jsonl; default: the corpus's folder"
  base.text(command, "--out", "DIR", out)
  base.number(command, "--max_characters", "report longer captions", 500)
  against = "another corpus: list the shared pictures, by id and by pixels, in shared.jsonl (repeatable)"
  base.text(command, "--against", "DIR", against, [], action="append")
  base.add_processes(command)


def _check(arguments) -> None:
  from xmcap.corpora.checking import check, shared

  out = arguments.out or arguments.dir
  has_folder = bool(arguments.out) or os.path.isdir(arguments.dir)
  if arguments.against and not has_folder:
    raise UsageError(f"{arguments.dir} is no folder of this machine: say where the list goes with --out=DIR")
  options = {"splits": arguments.split, "processes": arguments.processes, "say": base.say}
  with outputs.held(out, arguments.prog) if has_folder else contextlib.nullcontext():
    if arguments.against:
      pairs = shared.find(arguments.dir, arguments.against, out, **options)
      print(f"{shared.table(pairs)}\n\neach pair is in {os.path.join(out, 'shared.jsonl')}")
      return
    splits = check.check(arguments.dir, out=arguments.out, max_characters=arguments.max_characters, **options)
  listed = os.path.join(out, "check.jsonl")
  images, bad = sum(split.pictures for split in splits), sum(split.bad for split in splits)
  wrong = sum(split.counts["wrong_index"] for split in splits)
  print(*splits, f"{images:,} records checked; findings are listed in {listed}", sep="\n\n")
  if bad:
    raise XmcapError(
      f"{arguments.dir}: {bad:,} of {images:,} records cannot be used (listed in {listed}): build the corpus again"
    )
  if wrong:
    raise XmcapError(
      f"{arguments.dir}: the index of {wrong:,} files is wrong (listed in {listed}): remove each, and run "
      f"`xmcap data index {arguments.dir}`"
    )


def _add_show(actions) -> None:
  command = base.add_command(
    actions, "show", _show, "write a contact sheet of examples as the model sees them",
    "Shows a built corpus, or the stream that the gin files of a run configure.",
    extra="train",
  )  # fmt: skip
  base.text(command, "dir", "DIR", "a built corpus; leave out with --gin_file", nargs="?")
  base.text(command, "--out", "FILE", "the sheet, an HTML file", endings=(".html",), required=True)
  base.number(command, "--count", "number of pictures", 24)
  base.number(command, "--step", "number of the batch; a batch has as many pictures as the sheet", 0)
  group = command.add_argument_group("the stream", "With --gin_file these come from the configuration.")
  base.text(group, "--split", "NAME", "default: train, or the first split")
  base.number(group, "--captions_per_image", "default: 4", least=1, metavar="K")
  base.number(group, "--image_size", "pixels; default: 224", least=1)
  base.number(group, "--target_length", "tokens; default: 64", least=1, metavar="T")
  base.text(group, "--languages", "CODES", "such as en,th,ar; default: all languages of the corpus")
  base.text(group, "--vocabulary", "PATH", "default: vocabulary.model in DIR")
  base.number(group, "--seed", "default: 0")
  base.add_gin(command)


def _show(arguments) -> None:
  if arguments.dir and arguments.dir.startswith("--gin."):
    # argparse mistakes an override that contains a space for the folder.
    arguments.overrides.append(arguments.dir.removeprefix("--gin."))
    arguments.dir = None
  named = {name: getattr(arguments, name) for name in _STREAM_OPTIONS if getattr(arguments, name) is not None}
  if bool(arguments.gin_file) == bool(arguments.dir):
    raise UsageError("xmcap data show needs either a corpus, DIR, or the gin files of a run, --gin_file=FILE")
  if arguments.gin_file and named:
    name = next(iter(named))
    raise UsageError(f"--{name} is for DIR: with --gin_file write --gin.CaptionStream.{name}=VALUE")
  if arguments.overrides and not arguments.gin_file:
    raise UsageError(f"--gin.{arguments.overrides[0]} needs --gin_file")
  if arguments.gin_file and not base.configure(arguments):
    return
  from xmcap.corpora.checking import show, show_page

  read = {"--gin_file": arguments.gin_file, "--vocabulary": arguments.vocabulary}
  outputs.keep_apart({"--out": arguments.out}, read)
  if arguments.dir:
    stream = show.stream_of(arguments.dir, count=arguments.count, **named)
  else:
    stream = show.configured_stream()
  directories = [part.source.directory for part in stream.parts]
  of_corpus = [entry.path for folder in directories if os.path.isdir(folder) for entry in os.scandir(folder)]
  outputs.keep_apart({"--out": arguments.out}, {"DIR": of_corpus})
  shown = show.examples(stream, arguments.step, arguments.count)
  names = " + ".join(os.path.basename(os.path.abspath(folder)) for folder in directories)
  title = f"{names}, split {stream.source.split}"
  facts = show.facts(stream, arguments.step)
  with outputs.held(arguments.out, arguments.prog, folder=False):
    show_page.write_sheet(arguments.out, shown, title, facts, stream.target_lengths[-1])
  print(f"{arguments.out}: {len(shown):,} pictures")


def _add_index(actions) -> None:
  command = base.add_command(
    actions, "index", _index, "index the records, for reading them in a bucket, and the lengths of captions",
    "Indexes the files of records that have no index yet, also in a bucket, whose files it copies here for "
    "that. With a vocabulary it also writes the index of caption lengths for CaptionStream.target_lengths. "
    "`xmcap data build` writes both.",
    extra="train",
  )  # fmt: skip
  model = "the SentencePiece model of the runs; default: vocabulary.model in DIR, if DIR is local and has it"
  base.text(command, "dir", "DIR", "a built corpus")
  base.text(command, "--vocabulary", "PATH", model)
  base.text(command, "--splits", "NAME,...", "splits of DIR, separated by commas; default: all")
  base.add_processes(command)


def _index(arguments) -> None:
  from xmcap.data import length_index, records
  from xmcap.data.array_records import range_index
  from xmcap.data.vocabulary import Vocabulary
  from xmcap.files import addresses

  is_local = not addresses.is_remote(arguments.dir)
  own = addresses.join(arguments.dir, "vocabulary.model")
  path = arguments.vocabulary or (own if is_local and addresses.is_file(own) else "")
  splits = arguments.splits.split(",") if arguments.splits else records.splits(arguments.dir)
  if not splits:
    raise UsageError(f"{arguments.dir}: not a corpus (dataset_info.json is missing): build one")
  paths = [path for split in splits for path in records.files_of(arguments.dir, split)]
  options = {"processes": arguments.processes, "say": base.say}
  with outputs.held(arguments.dir, arguments.prog, "DIR") if is_local else contextlib.nullcontext():
    if path:
      began = time.monotonic()
      captions = length_index.write(arguments.dir, Vocabulary(path), splits, **options)
      rate = sum(captions.values()) / (time.monotonic() - began)
      counts = ", ".join(f"{count:,} in {split}" for split, count in captions.items())
      print(f"{arguments.dir}/lengths: lengths of captions, {counts} ({rate:,.0f} per second), for {path}")
    try:
      indexed = range_index.write_absent(paths, **options)
      print(f"{arguments.dir}: {len(paths):,} files of records, of which {indexed:,} were indexed now")
    except range_index.NoRangesError as error:
      if not path:
        raise
      print(f"the records have no index, which only a bucket needs: {error}")  # such as those of `tfds build`


def _add_stats(actions) -> None:
  command = base.add_command(
    actions, "stats", _stats, "print captions, images, words, characters and replication for each language",
    "A corpus built from XM3600, COCO-35L or CC3M-35L is compared with the published figures.",
    extra="train",
  )  # fmt: skip
  base.text(command, "dir", "DIR", "a built corpus, or a folder with captions.jsonl")
  base.text(command, "--vocabulary", "PATH", "a SentencePiece model: also print lengths in tokens", "")
  length = "tokens to which targets are truncated, with --vocabulary"
  base.number(command, "--target_length", length, 64, metavar="T")
  base.add_processes(command)


def _stats(arguments) -> None:
  from xmcap.corpora.checking import statistics, statistics_tables

  counted = statistics.statistics(
    arguments.dir,
    vocabulary=arguments.vocabulary,
    target_length=arguments.target_length,
    processes=arguments.processes,
    say=base.say,
  )
  print(statistics_tables.text(counted))
