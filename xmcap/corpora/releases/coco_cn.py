"""COCO-CN: 20,341 images of MSCOCO with sentences and tags in Chinese -> records of train, val and test.

Li et al., "COCO-CN for Cross-Lingual Image Tagging, Captioning and Retrieval" (IEEE Trans. Multimedia 2019), versions
1805 and 1805v1.1, and the extension of 2020, 4,573 other images, as a corpus of its own. A record's key is the
image's id, its captions are those by people (`human`), those of test that people translated (`translated`) and those
that a machine translated (`mt`), each in the order of their numbers, then the English captions of MSCOCO in the order
of their file. Its tags are by language, as people gave them. `annotations.jsonl` beside the records has the words and
parts of speech.
"""

import dataclasses
import itertools
import json
import os
import pathlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from xmcap.corpora.building import annotations, build, line_check, splits, tag_labels, text_archive
from xmcap.corpora.building.annotations import Annotated, Sentence
from xmcap.corpora.building.image_search import ImageSearch, Wanted
from xmcap.corpora.building.options import BuildInProgress, Options
from xmcap.corpora.building.problems import Problems
from xmcap.corpora.building.splits import Split
from xmcap.corpora.releases import coco_cn_lines, coco_ids
from xmcap.data.records import Caption
from xmcap.files import files, plans
from xmcap.progress import Say
from xmcap.reading import documents, layouts
from xmcap.reading.inputs import Input

TEXT_NAME = "coco_cn_text"
"""What a folder of texts alone calls its corpus."""

_REFERENCES = ("human", "translated")


@dataclasses.dataclass(frozen=True)
class CocoCn(build.CorpusBuild):
  """COCO-CN.

  Attributes:
    release: the folder or archive of the text files, or the file of the extension.
    images: folders or archives of MSCOCO 2014's images; () for `write_text`.
    english: MSCOCO's caption files.
    labels: a list of tags, one a line; others are counted. None: any tag is right.
  """

  NAME = "coco_cn"
  DESCRIPTION = "COCO-CN: 20,341 pictures of MSCOCO with sentences and tags in Chinese by people."
  HOMEPAGE = "https://github.com/li-xirong/coco-cn"
  PAGE = "docs/coco_cn.md"
  PARTS = {}
  release: pathlib.Path
  images: tuple[pathlib.Path, ...] = ()
  english: tuple[pathlib.Path, ...] = ()
  labels: pathlib.Path | None = None

  def paths(self) -> dict[str, pathlib.Path | None]:
    images = {f"images{number}": path for number, path in enumerate(self.images)}
    english = {f"english{number}": path for number, path in enumerate(self.english)}
    return {"release": self.release, **images, **english, "labels": self.labels}

  def splits(self, work: BuildInProgress) -> Iterator[Split]:
    release = self.read(work)
    images = ImageSearch.search(work, self.images)
    for split, listed in release.images.items():
      yield splits.write(work, split, map(_wanted, listed), images, release.lines[split])

  def read(self, work: BuildInProgress) -> coco_cn_lines.Release:
    """Reads the text files, and writes `annotations.jsonl`; errors as `coco_cn_lines.read`."""
    paths = text_archive.gather(self.release, coco_cn_lines.NAMES, work.folder / "text", work.problems)
    if len(paths) > 1 and paths.pop(coco_cn_lines.EXTENSION, None):
      work.say(f"{coco_cn_lines.EXTENSION} is not read: build it apart, with --release={self.release}/...")
    labels = tag_labels.read(self.labels) if self.labels else None
    release = coco_cn_lines.read(paths, self.release, work.problems, labels)
    sizes = [f"{len(images):,} pictures for {split}" for split, images in release.images.items()]
    work.say(f"COCO-CN, version {release.version}: {', '.join(sizes)}")
    _add_english(release, self.english, work.problems)
    annotations.write(work.folder.parent, itertools.chain.from_iterable(release.images.values()))
    return release


def write_text(
  corpus: CocoCn, out: str | os.PathLike, options: Options, *, say: Say | None = None
) -> dict[str, Any]:
  """Writes the texts without images: no records, for a record has an image.

  `SPLIT/captions.jsonl` are references in XM3600's layout (sentences by people and translated by people),
  `SPLIT-mt/captions.jsonl` the same of the machine's, `SPLIT/tags.jsonl` the tags, `annotations.jsonl` all of it.

  Returns:
    What `coco_cn_text.json` holds: options, inputs, `splits` with counts, `problems`.
  """
  out = pathlib.Path(out)

  def make(work_dir: pathlib.Path) -> Mapping[str, Any]:
    with files.whole(out / "problems.jsonl") as listed:
      problems = Problems(options.on_bad, listed)
      work = BuildInProgress(work_dir, options, problems=problems, say=say or (lambda line: None))
      release = corpus.read(work)
    counts = {}
    for split, images in release.images.items():
      for folder in (out / split, out / f"{split}-mt"):
        files.remove_incomplete(folder)
      captions = _write_references(out / split / "captions.jsonl", images, _REFERENCES)
      machine = _write_references(out / f"{split}-mt" / "captions.jsonl", images, ("mt",))
      tags = [(image.key, language, tags) for image in images for language, tags in image.tags.items()]
      if tags:  # the extension has none
        tag_labels.write_lines(out / split / "tags.jsonl", tags)
      counts[split] = {"pictures": len(images), "captions": captions, "machine_captions": machine}
    return {"splits": counts, "problems": problems.counts, "summary": problems.summary()}

  plan = {**corpus.plan(options), "corpus": TEXT_NAME}
  return plans.carry_out(out, plan, make)[0]


def _wanted(image: Annotated) -> Wanted:
  captions = [
    Caption(sentence.language, sentence.text, " ".join(sentence.words), sentence.source)
    for sentence in image.sentences
  ]
  where = f"coco-cn_{image.split}.txt"
  return Wanted(image.key, where, image.key, captions=captions, tags_by_language=image.tags)


def _add_english(release: coco_cn_lines.Release, paths: Iterable[pathlib.Path], problems: Problems) -> None:
  """Adds MSCOCO's captions to the images with the numbers of its images."""
  images = itertools.chain.from_iterable(release.images.values())
  by_number = {coco_ids.number(image.key): image for image in images}
  for path in paths:
    with Input(path) as source:
      document = documents.of(source.document(), path.name)
    for number, row in document.rows:
      where = f"{path.name}, {document.place.format(number)}"
      image = by_number.get(coco_ids.number(layouts.id_of(row, "image_id", where)))
      text = layouts.text(row, "caption", where)
      if image is not None and (text := line_check.usable(text, where, problems)):
        image.sentences.append(Sentence("en", "human", text.strip()))


def _write_references(path: pathlib.Path, images: Iterable[Annotated], sources: tuple[str, ...]) -> int:
  """Writes the sentences of some sources; returns how many. If there are none, it writes no file."""
  count = 0
  lines: list[str] = []
  for image in images:
    by_language: dict[str, list[Sentence]] = {}
    for sentence in image.sentences:
      if sentence.source in sources:
        by_language.setdefault(sentence.language, []).append(sentence)
    line: dict[str, Any] = {"image/key": image.key, "image/locale": ""}
    for language, sentences in by_language.items():
      count += len(sentences)
      line[language] = {"caption": [sentence.text for sentence in sentences]}
      if all(sentence.words for sentence in sentences):
        line[language]["caption/tokenized"] = [" ".join(sentence.words) for sentence in sentences]
    if by_language:
      lines.append(_json_line(line))
  if lines:
    files.write_lines(path, lines)
  return count


def _json_line(row: dict[str, Any]) -> str:
  return f"{json.dumps(row, ensure_ascii=False)}\n"
