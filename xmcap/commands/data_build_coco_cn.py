"""The command `xmcap data build coco_cn`."""

import pathlib

from xmcap.commands import base, build_options
from xmcap.errors import UsageError
from xmcap.storage import outputs


def add(corpora) -> None:
  """Declares the command."""
  command = base.add_command(
    corpora, "coco_cn", _build, "COCO-CN: pictures of MSCOCO with Chinese sentences and tags",
    "Reads version 1805 or 1805v1.1 as published, in place; docs/corpora.md says what is needed.",
  )  # fmt: skip
  images = "folder or archive of MSCOCO 2014's pictures, such as train2014.zip (repeatable)"
  english = "MSCOCO's captions, such as captions_train2014.json (repeatable)"
  labels = "tags, one per line: count tags of the release that are not in this list"
  base.text(command, "--out", "DIR", "folder for the corpus", required=True)
  base.text(command, "--release", "PATH", "folder or archive of the text files", required=True)
  base.text(command, "--images", "PATH", images, [], action="append")
  base.text(command, "--english", "FILE", english, [], action="append")
  base.text(command, "--labels", "FILE", labels)
  base.flag(command, "--no_images", "write only references, tags and annotations, no records")
  build_options.add(command)


def _build(arguments) -> None:
  if bool(arguments.images) == arguments.no_images:
    raise UsageError("give either the pictures with --images=PATH, or --no_images to build only the texts")
  read = {f"--{name}": getattr(arguments, name) for name in ("release", "images", "english", "labels")}
  build_options.check_local({**read, "--out": arguments.out})
  outputs.keep_apart({"--out": arguments.out}, read)
  with outputs.held(arguments.out, arguments.prog):
    from xmcap.data.corpora.releases import coco_cn

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
