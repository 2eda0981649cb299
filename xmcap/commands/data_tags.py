"""The command `xmcap data tags`."""

import pathlib

from xmcap import languages
from xmcap.commands import base
from xmcap.errors import UsageError
from xmcap.storage import outputs


def add(actions) -> None:
  """Declares the command."""
  command = base.add_command(
    actions, "tags", _run, "make tagging labels from tags and sentences, and references for `score tags`",
    "Chinese labels follow the rule of COCO-CN; labels of other languages are frequent words.",
  )  # fmt: skip
  base.text(command, "dir", "DIR", "a built corpus, or the texts of `data build coco_cn --no_images`")
  out = "folder for labels.txt, and SPLIT.jsonl with the labels of each picture"
  source = "source of the sentences: human (with the tags), translated or mt"
  base.text(command, "--out", "DIR", out, required=True)
  base.text(command, "--language", "CODE", "language of the tags and sentences", "zh")
  base.text(command, "--source", "NAME", source, "human")
  base.text(command, "--labels", "FILE", "use these labels, one per line, instead of the rule")
  base.number(command, "--least", "minimum number of training pictures of a label", 20, least=1)
  base.number(command, "--most", "keep only the N most frequent labels; default: all", least=1)


def _run(arguments) -> None:
  from xmcap.data import records
  from xmcap.data.corpora import tag_labels
  from xmcap.data.corpora.releases import coco_cn
  from xmcap.storage import files

  if arguments.source not in records.SOURCES:
    raise UsageError(f"--source={arguments.source}: choose one of {', '.join(records.SOURCES)}")
  if not languages.is_known(arguments.language):
    raise UsageError(f"--language={arguments.language}: not a language code: give one such as zh or en")
  outputs.keep_apart({"--out": arguments.out}, {"DIR": arguments.dir, "--labels": arguments.labels})
  made = tag_labels.make(
    tag_labels.read_pictures(arguments.dir),
    arguments.language,
    source=arguments.source,
    given=coco_cn.read_labels(arguments.labels) if arguments.labels else None,
    least=arguments.least,
    most=arguments.most,
  )
  out = pathlib.Path(arguments.out)
  with outputs.held(out, arguments.prog), outputs.together(out):
    files.make_folder(out)
    files.write_text(out / "labels.txt", "".join(f"{label}\n" for label in made.counts))
    for split in dict.fromkeys(split for _, split, _ in made.pictures):
      rows = ((key, arguments.language, labels) for key, of, labels in made.pictures if of == split)
      coco_cn.write_tag_lines(out / f"{split}.jsonl", rows)
  print(f"{made.table()}\n{out}: labels.txt, and the labels of each picture")
