"""`xmcap human annotate` makes a page for describing pictures; `xmcap human annotations` reads the saved files."""

import functools

from xmcap import languages
from xmcap.commands import base
from xmcap.errors import UsageError
from xmcap.storage import outputs


def add(actions) -> None:
  """Declares the commands among the actions of `xmcap human`."""
  page = base.add_command(
    actions, "annotate", _annotate, "make a page on which people write captions and tags, from suggestions of models",
    "Writes OUT/annotate.html, a file that needs no server; pictures lie in it, or in OUT/pictures if there are more "
    "than 300. Annotators save a file each, which xmcap human annotations reads.",
  )  # fmt: skip
  base.text(page, "--images", "PATH", "pictures, folders of them, or patterns", required=True, **base.SEVERAL)
  base.text(page, "--language", "CODE", "that people write in, such as zh or pt-BR", required=True)
  sentences = (
    'suggested: JSONL of {"image/key", "language", "caption"}, as xmcap caption writes it; several mix'
  )
  base.text(page, "--sentences", "FILE", sentences, **base.SEVERAL)
  tags = (
    'suggested: JSONL of {"image/key", "language", "tags": [...]}, or lines of ID tag (score) tag (score) ...'
  )
  base.text(page, "--tags", "FILE", tags, **base.SEVERAL)
  base.text(page, "--out", "DIR", "folder for the page", required=True)
  report = base.add_command(
    actions, "annotations", _annotations, "report on the files that annotators saved, and write the files of a corpus",
    "Writes annotations.json, .md, .tex and .csv; captions.jsonl for xmcap data build folder; tags.jsonl; and "
    "LANGUAGE.tsv as COCO-CN's tool exports it. Of an annotator's annotations of a picture the latest counts.",
  )  # fmt: skip
  base.text(report, "files", "FILE", "files that annotators saved", nargs="+")
  base.text(report, "--out", "DIR", "folder for all results", required=True)


def _annotate(arguments) -> None:
  language = languages.get(arguments.language)
  from xmcap.evaluation import picture_files
  from xmcap.scoring import files
  from xmcap.scoring.human import annotation_page
  from xmcap.scoring.reading import inputs

  read = {"--sentences": arguments.sentences, "--tags": arguments.tags}
  inputs.check_pipes({f"{option}={path}": path for option, paths in read.items() for path in paths})
  found = picture_files.find(arguments.images)
  keys = picture_files.keys(found, "key")
  out = arguments.out
  outputs.keep_apart({"--out": [f"{out}/{annotation_page.PAGE}"]}, {**read, "--images": list(found)})
  sentences = annotation_page.read_sentences(arguments.sentences, language.code)
  tags = annotation_page.read_tags(arguments.tags, language.code, base.say)
  suggested = {"--sentences": sentences, "--tags": tags}
  known = set(keys)
  for option, texts in suggested.items():
    if texts and known.isdisjoint(texts):
      raise UsageError(
        f"{option}: none of its {files.count(len(texts), 'picture')} ({files.first_few(list(texts))}) is among "
        f"--images ({files.first_few(keys)}); name them as xmcap caption does"
      )
  items = []
  for key, (file, path) in zip(keys, found.items(), strict=True):
    read_picture = functools.partial(picture_files.read, file)
    items.append(
      annotation_page.AnnotationItem(key, path, read_picture, sentences.get(key, []), tags.get(key, []))
    )
  with outputs.held(out, arguments.prog):
    annotation_page.write_annotation_page(out, language.code, items)
  page = f"{out}/{annotation_page.PAGE}"
  print(
    f"{page}: {files.count(len(items), 'picture')}, {language.english_name}, "
    f"{files.count(sum(len(item.sentences) for item in items), 'suggested sentence')}, "
    f"{files.count(sum(len(item.tags) for item in items), 'suggested tag')}"
  )
  for option, texts in suggested.items():
    unknown = [key for key in texts if key not in known]
    if unknown:
      few = f"{files.count(len(unknown), 'picture')} ({files.first_few(unknown)})"
      print(f"{option}: suggestions left out, as --images lacks the picture: {few}")
    lacking = sum(not texts.get(key) for key in keys)
    if texts and lacking:
      print(f"{option}: no suggestion for {lacking:,} of {files.count(len(items), 'picture')}")
  if len(items) > annotation_page.MOST_EMBEDDED:
    print(f"{out}/{annotation_page.FOLDER}: the pictures; send the whole folder {out}")
  print("when people have saved: xmcap human annotations FILE.jsonl --out=DIR")


def _annotations(arguments) -> None:
  from xmcap.scoring import files
  from xmcap.scoring.human import annotation_report, annotations
  from xmcap.scoring.reading import inputs

  inputs.check_pipes({name: name for name in arguments.files})
  read, replaced = annotations.read(arguments.files)
  findings = annotation_report.evaluate(read, replaced)
  out = arguments.out
  corpus = list(annotations.corpus_files(out, read))
  outputs.keep_apart({"--out": [*findings.files(out), *corpus]}, {"FILE": arguments.files})
  print(findings.terminal())
  with outputs.held(out, arguments.prog), outputs.together(out):
    findings.write(out)
    annotations.write_corpus(out, read)
  described = sum(each.described for each in read)
  print(f"\n{out}: {', '.join(path.name for path in corpus)}, {files.count(described, 'sentence')}")
  if described:
    print(f"next: xmcap data build folder --captions={out}/captions.jsonl --images=IMAGES --out=DIR")
