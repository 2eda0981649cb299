"""`xmcap published`: recomputes papers' tables, from their own numbers or the files that their authors released."""

from xmcap.commands import base
from xmcap.files import outputs

# Paper -> its tables, more about them, and what --results names.
_PAPERS = {
  "xm3600": (
    "Tables 1, 2 and 4 to 7 of XM3600, and its choice of comparisons",
    "Differences of CIDEr come from Tables 8 to 11, correlations from Tables 5 and 7; Table 1 needs a release.",
    "a release such as captions.jsonl, for Table 1",
  ),
  "xm3600-draft": (
    "Tables 1, 2 and 6 of the draft of XM3600, whose systems are PLuGS models",
    "The correlations come from its Table 5; Table 1, of distinct captions, needs a release.",
    "a release such as captions.jsonl, for Table 1",
  ),
  "babel-imagenet": (
    "Tables 2 to 4 and 6 to 12 and Figures 3 to 5 and 7 of Babel-ImageNet",
    "Tables 3, 4, 6 and 7 and Figures 4 and 7 come from its other tables, the rest from result files, as far as given.",
    "the folder 'results' of the paper's repository, with babel-imagenet/ and retrieval/",
  ),
  "coco-cn": (
    "the captioning table of COCO-CN, Table 8, and the scores of each picture",
    "Each row that has outputs is scored again and held against what the paper and the authors' files print.",
    "the repository COCO-CN-Results-Viewer, or a folder with its files side by side",
  ),
  "thumb": (
    "Tables 1 to 5 and 7 of THumB, but for SPICE and metrics that need a model",
    "Ratings, BLEU, ROUGE-L and CIDEr (which needs Java) are computed again. The paper scored the first release.",
    "the repository jungokasai/THumB, or its folder mscoco",
  ),
}
_OPTIONAL = ("xm3600", "xm3600-draft")


def add(commands) -> None:
  """Declares the commands."""
  tables = base.add_group(commands, "published", "PAPER", "recompute published tables, and list deviations")
  for paper, (summary, details, results) in _PAPERS.items():
    command = base.add_command(
      tables, paper, _published, summary,
      f"{details} Each printed cell is a row: printed, computed, deviation. 'equal' counts the cells with the printed "
      "digits, 'rounded' those that only rounding moves; every other deviation is listed, too.",
    )  # fmt: skip
    command.set_defaults(paper=paper)
    base.text(command, "--results", "PATH", results, required=paper not in _OPTIONAL)
    out = "folder for published.csv, with a row per cell, and published.md"
    base.text(command, "--out", "DIR", out, short="-o")
    base.add_raw(command)


def _published(arguments) -> None:
  from xmcap.published import babel_imagenet, coco_cn, thumb, xm3600

  papers = {
    "xm3600": xm3600.recompute, "xm3600-draft": xm3600.recompute_draft, "coco-cn": coco_cn.recompute,
    "babel-imagenet": babel_imagenet.recompute, "thumb": thumb.recompute,
  }  # fmt: skip
  findings = papers[arguments.paper](arguments.results)
  if arguments.out:
    with outputs.held(arguments.out, arguments.prog):
      findings.write(arguments.out)
  print(findings.terminal(), end="")
