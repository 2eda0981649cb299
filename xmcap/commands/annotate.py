"""`xmcap human annotate` makes pages for describing pictures; `xmcap human annotations` reads the saved files."""

import functools
import os
import pathlib
from collections.abc import Sequence

from xmcap import languages
from xmcap.commands import base
from xmcap.errors import UsageError
from xmcap.files import outputs

_PROCEDURES = ("coco-cn", "xm3600")


def add(actions) -> None:
  """Declares the commands among the actions of `xmcap human`."""
  page = base.add_command(
    actions, "annotate", _annotate, "make a page on which people write captions and tags, from suggestions of models",
    "Writes OUT/annotate.html, a file that needs no server; pictures lie in it, or in OUT/pictures if there are more "
    "than 300. With --annotators it is OUT/NAME/annotate.html for each, and OUT/assignment.jsonl says who describes "
    "what. Annotators save a file each, which xmcap human annotations reads.",
  )  # fmt: skip
  base.text(page, "--images", "PATH", "pictures, folders of them, or patterns", required=True, **base.SEVERAL)
  base.text(page, "--language", "CODE", "that people write in, such as zh or pt-BR", required=True)
  procedure = (
    "coco-cn: sentences and tags, suggested beside the picture; xm3600: rate one English machine caption of each "
    "picture of a batch, then describe these pictures without a caption in view"
  )
  base.text(page, "--procedure", None, procedure, "coco-cn", choices=_PROCEDURES)
  sentences = (
    'suggested, or to rate: JSONL of {"image/key", "language", "caption"}, as of xmcap caption; several mix'
  )
  base.text(page, "--sentences", "FILE", sentences, **base.SEVERAL)
  tags = (
    'suggested: JSONL of {"image/key", "language", "tags": [...]}, or lines of ID tag (score) tag (score) ...'
  )
  base.text(page, "--tags", "FILE", tags, **base.SEVERAL)
  rated = (
    "of the captions that are rated by xm3600; default: en, which its annotators read beside their language"
  )
  base.text(page, "--rated_language", "CODE", rated)
  batch = "pictures of a batch of xm3600; default: 15"
  base.number(page, "--batch", batch, least=1)
  guidelines = "text in place of the page's guidelines: a paragraph a line, '# ' before a heading"
  base.text(page, "--guidelines", "FILE", guidelines)
  annotators = "a page for each of these people, with pictures of their own"
  base.text(page, "--annotators", "NAME", annotators, **base.SEVERAL)
  replication = "annotators who describe a picture; default: 1, of xm3600 2"
  base.number(page, "--replication", replication, least=1)
  base.text(page, "--out", "DIR", "folder for the page", required=True)
  report = base.add_command(
    actions, "annotations", _annotations, "report on the files that annotators saved, and write the files of a corpus",
    "Writes annotations.json, .md, .tex and .csv, and the same of coverage and of caption_ratings; captions.jsonl for "
    "xmcap data build folder and for --references of xmcap score; tags.jsonl; and LANGUAGE.tsv as COCO-CN's tool "
    "exports it. Of an annotator's annotations of a picture the latest counts.",
  )  # fmt: skip
  base.text(report, "files", "FILE", "files that annotators saved", nargs="+")
  assignment = "assignment.jsonl of a page's folder: what is missing is then counted"
  base.text(report, "--assignment", "FILE", assignment, **base.SEVERAL)
  watch_list = (
    "names of annotators who failed an inspection, one line each time; at three times one is left out"
  )
  base.text(report, "--watch_list", "FILE", watch_list)
  inspect = "also write inspection.tsv: N per cent of each annotator's annotations, drawn by chance, to check"
  base.number(report, "--inspect", inspect, 0, most=100)
  base.text(report, "--out", "DIR", "folder for all results", required=True)
  base.add_raw(report)


def _procedure(arguments):
  """Returns the procedure with what the user changes in it; UsageError if it has no use for one."""
  import msgspec

  from xmcap.human.annotation_procedures import PROCEDURES, read_guidelines

  name = arguments.procedure
  procedure = PROCEDURES[name]
  if arguments.tags and not procedure.tags:
    raise UsageError(f"--tags: people write no tags by --procedure={name}; leave it out")
  if not procedure.ratings:
    why = f"has no use: nothing is rated by --procedure={name}; leave it out, or give --procedure=xm3600"
    base.refuse(arguments, ("batch", "rated_language"), why)
  if procedure.ratings and not arguments.sentences:
    raise UsageError(
      f"--procedure={name} needs --sentences=FILE: captions by a machine, which people rate first"
    )
  if arguments.replication and not arguments.annotators:
    raise UsageError("--replication needs --annotators: the people to whom pictures are assigned")
  changes = {"batch": arguments.batch, "replication": arguments.replication}
  if arguments.rated_language:
    changes["rated_language"] = languages.get(arguments.rated_language).code
  changes = {field: value for field, value in changes.items() if value}
  if arguments.guidelines:
    changes |= {"guidelines": read_guidelines(arguments.guidelines)}
  return msgspec.structs.replace(procedure, **changes)


def _suggestions(arguments, language: str, keys: Sequence[str]) -> dict[str, dict[str, list[str]]]:
  """Returns option -> image key -> sentences or tags; UsageError if all of them are of other pictures than `keys`."""
  from xmcap import wording
  from xmcap.human import annotation_page

  suggested = {
    "--sentences": annotation_page.read_sentences(arguments.sentences, language),
    "--tags": annotation_page.read_tags(arguments.tags, language, base.say),
  }
  for option, texts in suggested.items():
    if texts and set(keys).isdisjoint(texts):
      raise UsageError(
        f"{option}: none of its {wording.count(len(texts), 'picture')} ({wording.first_few(list(texts))}) is among "
        f"--images ({wording.first_few(keys)}); name them as xmcap caption does"
      )
  return suggested


def _annotate(arguments) -> None:
  language = languages.get(arguments.language)
  from xmcap import wording
  from xmcap.evaluation import image_files
  from xmcap.files import files
  from xmcap.human import annotation_assignment, annotation_page
  from xmcap.reading import inputs

  read = {
    "--sentences": arguments.sentences,
    "--tags": arguments.tags,
    "--guidelines": [arguments.guidelines] if arguments.guidelines else [],
  }
  inputs.check_pipes({f"{option}={path}": path for option, paths in read.items() for path in paths})
  procedure = _procedure(arguments)
  images = image_files.find(arguments.images)
  keys = image_files.keys(images, "key")
  out = arguments.out
  shares, folders = {"": keys}, {"": out}
  if arguments.annotators:
    shares = annotation_assignment.assign(keys, arguments.annotators, procedure.replication)
    folders = {name: f"{out}/{name}" for name in shares}
  pages = {name: f"{folder}/{annotation_page.PAGE}" for name, folder in folders.items()}
  assignment = f"{out}/{annotation_assignment.FILE}"
  outputs.keep_apart({"--out": [*pages.values(), assignment]}, {**read, "--images": list(images)})
  suggested = _suggestions(arguments, procedure.rated_language or language.code, keys)
  items = {}
  for key, (file, path) in zip(keys, images.items(), strict=True):
    read_picture = functools.partial(image_files.read, file)
    sentences, tags = (suggested[option].get(key, []) for option in ("--sentences", "--tags"))
    rated = sentences[0] if procedure.ratings and sentences else ""
    suggestions = [] if procedure.ratings else sentences
    items[key] = annotation_page.AnnotationItem(key, path, read_picture, suggestions, tags, rated)
  with outputs.held(out, arguments.prog), outputs.together(out, below=True):
    others = {out, *folders.values(), *(f"{out}/{name}" for name in annotation_assignment.earlier(out))}
    of_pages = [f"{folder}/{annotation_page.FOLDER}" for folder in others]
    outputs.keep_apart({"--out": of_pages}, {"--images": {os.path.dirname(file) or "." for file in images}})
    written = set()
    for name, share in shares.items():
      own = [items[key] for key in share]
      written |= annotation_page.write_annotation_page(folders[name], language.code, own, procedure, name)
    removed = [page for folder in sorted(others) for page in annotation_page.remove_others(folder, written)]
    if arguments.annotators:
      annotation_assignment.write(assignment, language.code, shares)
    else:
      files.remove(assignment)
  for name, share in shares.items():
    own = [items[key] for key in share]
    parts = [f"{pages[name]}: {wording.count(len(own), 'picture')}", language.english_name]
    if procedure.ratings:
      parts.append(f"{wording.count(len(own), 'caption')} in {procedure.rated_language} to rate")
    else:
      parts.append(wording.count(sum(len(item.sentences) for item in own), "suggested sentence"))
      parts.append(wording.count(sum(len(item.tags) for item in own), "suggested tag"))
    print(", ".join(parts))
    if len(own) > annotation_page.MOST_EMBEDDED:
      print(f"{folders[name]}/{annotation_page.FOLDER}: the pictures; send the whole folder {folders[name]}")
  if removed:
    print(f"removed, as nobody is to use them any more: {', '.join(map(str, removed))}")
  for option, texts in suggested.items():
    unknown = sorted(set(texts) - set(keys))
    if unknown:
      few = f"{wording.count(len(unknown), 'picture')} ({wording.first_few(unknown)})"
      print(f"{option}: suggestions left out, as --images lacks the picture: {few}")
    lacking = sum(not texts.get(key) for key in keys)
    if texts and lacking:
      print(f"{option}: no suggestion for {lacking:,} of {wording.count(len(items), 'picture')}")
  assignment_option = f" --assignment={assignment}" if arguments.annotators else ""
  print(f"when people have saved: xmcap human annotations FILE.jsonl{assignment_option} --out=DIR")


def _annotations(arguments) -> None:
  from xmcap import wording
  from xmcap.files import files
  from xmcap.human import (
    annotation_assignment,
    annotation_ratings,
    annotation_report,
    annotations,
    inspection,
  )
  from xmcap.reading import inputs

  inputs.check_pipes({name: name for name in [*arguments.files, *arguments.assignment]})
  read, replaced = annotations.read(arguments.files)
  if arguments.watch_list:
    read, watched = inspection.without_excluded(read, arguments.watch_list)
    print(watched)
  assigned = annotation_assignment.read(arguments.assignment)
  every = [
    annotation_report.evaluate(read, replaced),
    annotation_ratings.evaluate(read),
    annotation_assignment.coverage(read, assigned),
  ]
  findings = [finding for finding in every if finding]
  out = arguments.out
  corpus = list(annotations.corpus_files(out, read))
  to_inspect = pathlib.Path(out, "inspection.tsv")
  results = [to_inspect, *(file for finding in findings for file in finding.files(out))]
  inputs_of = {
    "FILE": arguments.files,
    "--assignment": arguments.assignment,
    "--watch_list": arguments.watch_list,
  }
  outputs.keep_apart({"--out": [*results, *corpus]}, inputs_of)
  print("\n\n".join(finding.terminal(out) for finding in findings))
  with outputs.held(out, arguments.prog), outputs.together(out):
    for finding in findings:
      finding.write(out)
    annotations.write_corpus(out, read)
    if arguments.inspect:
      files.write_lines(to_inspect, annotations.as_tsv(inspection.drawn(read, arguments.inspect)))
  described = sum(of_file.described for of_file in read)
  print(f"\n{out}: {', '.join(path.name for path in corpus)}, {wording.count(described, 'sentence')}")
  if described:
    print(f"next: xmcap data build folder --captions={out}/captions.jsonl --images=IMAGES --out=DIR")
    print(f"or: xmcap score --references={out}/captions.jsonl --predictions=FILE --out=DIR")
