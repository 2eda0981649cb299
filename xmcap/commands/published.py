"""`xmcap published`: recomputes published tables from the result files that their authors released."""

from xmcap.commands import base
from xmcap.storage import outputs


def add(commands) -> None:
  """Declares the commands."""
  tables = base.add_group(commands, "published", "TABLES", "recompute published tables, and list deviations")
  command = base.add_command(
    tables, "babel-imagenet", _babel_imagenet, "Tables 2, 8 to 12, Figures 3 and 5 of Babel-ImageNet",
    "Each cell that has a result file is recomputed and compared with the paper.",
  )  # fmt: skip
  _add_options(command, "the folder 'results' of the paper's repository, with babel-imagenet/ and retrieval/")
  command = base.add_command(
    tables, "coco-cn", _coco_cn, "the captioning table of COCO-CN, Table 8, and the scores of each picture",
    "Each row that has outputs is scored again and held against what the paper and the authors' files print.",
  )  # fmt: skip
  outputs_of = (
    "the folder with merged_captions_coco-cn_test.json and result_coco-cn.txt, of COCO-CN-Results-Viewer"
  )
  _add_options(command, outputs_of)


def _add_options(command, results: str) -> None:
  base.text(command, "--results", "DIR", results, required=True)
  base.text(
    command, "--out", "DIR", "folder for published.csv, with a row per cell, and published.md", short="-o"
  )


def _babel_imagenet(arguments) -> None:
  from xmcap.scoring.published import babel_imagenet, babel_imagenet_prompts

  _show(arguments, babel_imagenet.recompute(arguments.results))
  print(babel_imagenet_prompts.grid_of(babel_imagenet_prompts.rows(arguments.results)).text(), end="")


def _coco_cn(arguments) -> None:
  from xmcap.scoring.published import coco_cn

  _show(arguments, coco_cn.recompute(arguments.results))


def _show(arguments, found) -> None:
  if arguments.out:
    with outputs.held(arguments.out, arguments.prog):
      found.write(arguments.out)
  print(found.terminal(), end="")
