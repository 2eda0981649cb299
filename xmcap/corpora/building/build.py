"""Builds a corpus from a release, on all cores, in constant memory; a killed build resumes where it stopped.

  1. The corpus gives its splits: it lists and finds their images, and sorts the captions by shard.
  2. Each shard becomes one file of records (`Split.make`).

OUT/.build has the intermediate files until the end. The bytes of OUT depend only on the release and the options, not on
the number of processes, on kills, or on timing. OUT contains the records with TFDS's metadata, and

  problems.jsonl  each problem: `kind`, `where`, `what`
  languages.txt   the languages of the captions
  NAME.json       options, inputs, counts of lines, captions and images; written last, so it marks a complete corpus
"""

import abc
import collections
import dataclasses
import itertools
import os
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from xmcap import languages as languages_lib
from xmcap import processes as processes_lib
from xmcap.corpora.building import duplicates, file_names
from xmcap.corpora.building.options import BuildInProgress, Options
from xmcap.corpora.building.problems import Problems
from xmcap.corpora.building.splits import Split
from xmcap.data import length_index, record_writer, records
from xmcap.data.vocabulary import Vocabulary
from xmcap.errors import UsageError, XmcapError
from xmcap.files import files, plans
from xmcap.progress import Progress, Say

_COUNTS = ("captions", "listed", "found", "missing", "broken")


@dataclasses.dataclass(frozen=True)
class CorpusBuild(abc.ABC):
  """A corpus to build: a dataclass whose fields are the paths of the release's parts, None if absent."""

  NAME: ClassVar[str]
  DESCRIPTION: ClassVar[str]
  VERSION: ClassVar[str] = "1.0.0"
  HOMEPAGE: ClassVar[str] = "https://google.github.io/crossmodal-3600/"
  RENEWED: ClassVar[bool] = False
  """Whether an unfinished build with other options or inputs is restarted rather than refused."""
  DUPLICATES: ClassVar[str] = "keep"
  """What is done about identical pictures by default; a release that keeps them can refuse them, but not merge them."""
  WHAT: ClassVar[str] = "release"
  """What the parts are called in messages."""
  PAGE: ClassVar[str] = "docs/corpora.md"
  """The page that describes the parts."""
  PARTS: ClassVar[Mapping[str, file_names.ReleasePart]]
  """Field -> the published file."""
  LANGUAGES: ClassVar[Sequence[str]] = ()
  """The languages of the mixture NAME, if its captions may have others; (): they have no others."""

  @abc.abstractmethod
  def splits(self, work: BuildInProgress) -> Iterator[Split]:
    """Yields the splits, after reading as much of the release as is needed to make their shards."""

  def recognised(self, work: BuildInProgress) -> Mapping[str, Any]:
    """Returns entries for NAME.json about how the parts were read, after `splits`."""
    return {}

  def paths(self) -> dict[str, pathlib.Path | None]:
    """Role -> file or folder that the records are made of."""
    return {name: getattr(self, name) for name in self.PARTS}

  def plan(self, options: Options) -> plans.Plan:
    """Returns what identifies a build of this corpus; UsageError if a part is missing."""
    inputs = {}
    paths = {name: path for name, path in self.paths().items() if path is not None}
    for name, path in paths.items():
      try:
        status = path.stat()
      except OSError as error:
        raise UsageError(f"{path} ({name}): {error.strerror}; {self.PAGE} lists the files") from None
      inputs[name] = {"name": path.name, "modified": status.st_mtime_ns}
      if not path.is_dir():
        inputs[name]["bytes"] = status.st_size
    settings = {"options": dataclasses.asdict(options), "inputs": inputs}
    return {"corpus": self.NAME, "version": self.VERSION, **settings}


@dataclasses.dataclass(frozen=True)
class BuildReport:
  """The result of a build.

  Attributes:
    splits: split -> `lines`, `captions`, `records`, and numbers of images `listed`, `found`, `missing`, `broken`.
    held: whether the folder already had the corpus.
    what: what the inputs are called.
    others: language -> captions, of languages that the corpus has and its mixture `mixture` has not.
  """

  out: pathlib.Path
  splits: Mapping[str, Mapping[str, int]]
  problems: Problems
  held: bool = False
  what: str = "release"
  mixture: str = ""
  others: Mapping[str, int] = dataclasses.field(default_factory=dict)

  def summary(self) -> str:
    """Returns lines of text: the splits, then each kind of problem that occurred."""
    lines = [f"{self.out} already has this corpus" if self.held else f"{self.out} is built"]
    for split, counts in self.splits.items():
      lines.append(
        f"{split}: {counts['records']:,} records with {counts['captions']:,} captions, from {counts['lines']:,} lines; "
        f"of {counts['listed']:,} pictures {counts['found']:,} found, {counts['missing']:,} missing, "
        f"{counts['broken']:,} broken"
      )
    if self.others:
      named = ", ".join(f"{language} ({count:,} captions)" for language, count in self.others.items())
      lines.append(
        f"the mixture {self.mixture} is without {named}: to train on all languages of this folder, give"
        " --gin_file=data/folder.gin after the gin file of the run"
      )
    if self.problems.counts:
      lines += [f"problems, listed in {self.out / 'problems.jsonl'}:", self.problems.summary()]
    else:
      lines.append(f"no problems with the {self.what}")
    return "\n".join(lines)


def build(
  corpus: CorpusBuild,
  out: str | os.PathLike,
  options: Options,
  *,
  processes: int | None = None,
  progress: Say | None = None,
  vocabulary: Vocabulary | None = None,
) -> BuildReport:
  """Builds a corpus; leaves a folder alone that already has it, and completes one that a kill left.

  Args:
    corpus, options: the corpus, and how it is built.
    out: folder; new, empty, or from an earlier build of the same corpus.
    processes: None: one per core; 1: only this process.
    progress: receives progress lines.
    vocabulary: if given, an index of caption lengths in its tokens is also written, unless there is one.

  Raises:
    UsageError: an input is missing or of the wrong kind, or `out` contains something else.
    XmcapError: a file of the release is damaged, it has a problem and `on_bad` is `stop`, splits share pictures and
      `duplicates` is `refuse`, or the disk is full.
  """
  out = pathlib.Path(out)
  options = dataclasses.replace(options, duplicates=options.duplicates or corpus.DUPLICATES)
  if options.duplicates == "merge" != corpus.DUPLICATES:
    raise UsageError("--duplicates=merge: the records of a release stay as they are: choose keep or refuse")
  say = progress or (lambda line: None)
  cores = processes or processes_lib.available_cores()

  def make(work_dir: pathlib.Path) -> dict[str, Any]:
    stopped: XmcapError | None = None
    counts: dict[str, dict[str, int]] = {}
    languages: collections.Counter[str] = collections.Counter()
    with files.whole(out / "problems.jsonl") as listed:
      problems = Problems(options.on_bad, listed)
      work = BuildInProgress(work_dir, options, cores, problems, say)
      try:
        counts = _write(corpus, out, work, languages)
      except XmcapError as error:
        if not problems.counts:
          raise
        stopped = error  # what was found until then is still listed
    if stopped is not None:
      raise stopped
    troubles = {"problems": problems.counts, "first_problems": problems.examples}
    by_language = {language: languages[language] for language in languages_lib.ordered(languages)}
    if by_language:
      files.write_text(out / records.LANGUAGES, "".join(f"{language}\n" for language in by_language))
    return {"splits": counts, "languages": by_language, **troubles, **corpus.recognised(work)}

  about, existed = plans.carry_out(out, corpus.plan(options), make, corpus.RENEWED)
  if vocabulary is not None:
    length_index.write_absent(out, vocabulary, list(about["splits"]), processes=processes, say=say)
  problems = Problems()
  problems.counts, problems.examples = about["problems"], about["first_problems"]
  others = {
    language: count
    for language, count in about["languages"].items()
    if corpus.LANGUAGES and language not in corpus.LANGUAGES
  }
  return BuildReport(out, about["splits"], problems, existed, corpus.WHAT, corpus.NAME, others)


def _write(
  corpus: CorpusBuild, out: pathlib.Path, work: BuildInProgress, languages: collections.Counter[str]
) -> dict[str, dict[str, int]]:
  """Writes all splits; returns their counts, and adds those of captions to `languages`."""
  written, counts = [], {}
  # A list, so that an unreadable release is found before hours of writing.
  splits = list(corpus.splits(work))
  for split in splits:
    of_split = record_writer.write_split(
      out,
      split.name,
      range(split.shards),
      split.make,
      dataset=corpus.NAME,
      processes=work.processes,
      progress=Progress(work.say, f"{split.name}: records", split.count),
      finished=work.folder,
    )
    written_records = sum(of_split.shard_lengths)
    if not written_records:
      split.collect(work.problems)
      said = work.problems.in_brief()
      if not counts:
        plans.clear(work.folder)
      raise XmcapError(
        f"the split '{split.name}' has no records: {split.count:,} pictures were searched for in "
        f"{split.pictures.searched}: {said or 'no line of captions can be used'}"
      )
    tally, captions = split.collect(work.problems)
    languages.update(captions)
    counts[split.name] = {
      "lines": split.lines,
      "records": written_records,
      **{name: tally[name] for name in _COUNTS},
    }
    written.append(of_split)
  pixels = itertools.chain.from_iterable(split.pixels() for split in splits)
  shared = duplicates.count(work.folder / "splits.sqlite", pixels, work.problems)
  if shared and work.options.duplicates == "refuse":
    number = work.problems.counts["in_other_split"]
    others = " or ".join(dict.fromkeys((corpus.DUPLICATES, "keep")))
    raise XmcapError(
      f"{number:,} pictures are in several splits (first: {shared}), and problems.jsonl lists them: remove them from "
      f"one, or give --duplicates={others}"
    )
  about = {"version": corpus.VERSION, "description": corpus.DESCRIPTION, "homepage": corpus.HOMEPAGE}
  record_writer.write_metadata(out, written, dataset=corpus.NAME, **about)
  return counts
