"""The commands that score captions and compare scores."""

import contextlib
import os

from xmcap.commands import base
from xmcap.errors import UsageError
from xmcap.storage import outputs


def add(commands) -> None:
  """Declares the commands."""
  _add_score(commands)
  _add_compare(commands)


def _add_score(commands) -> None:
  command = base.add_command(
    commands,
    "score",
    _score,
    "score predictions against references: CIDEr for each language",
    "Writes table.csv, .json, .md and .tex, scores.npz, slices.csv, health.csv and report.html.",
  )
  command.add_argument(
    "--references",
    required=True,
    metavar="FILE",
    help="captions.jsonl or captions.zip of XM3600, COCO annotations, or JSONL of image/key, language, caption",
  )
  command.add_argument(
    "--predictions",
    required=True,
    metavar="FILE",
    help='JSONL of {"image/key", "language", "caption"}, COCO results, or a folder of CODE.jsonl or CODE.json',
  )
  command.add_argument("--out", required=True, metavar="DIR", help="where the tables and the report go")
  command.add_argument("--language", metavar="CODE", help="of COCO files, which name none")
  command.add_argument(
    "--languages", default="", metavar="CODES", help="only these; default: all in the references"
  )
  words = command.add_argument_group("what is measured")
  words.add_argument(
    "--metrics",
    default="cider,cider_d",
    metavar="NAMES",
    help="of cider, cider_d, bleu (1 to 4), chrf, rouge_l, exact; or all",
  )
  words.add_argument(
    "--tokenizer",
    default="default",
    metavar="NAME",
    help="default, char, given (the release's caption/tokenized), ptb (English, needs Java), whitespace",
  )
  words.add_argument(
    "--df", default="", metavar="FILE", help="document frequencies; default: those of the references"
  )
  words.add_argument("--save_df", default="", metavar="FILE", help="write those of the references")
  words.add_argument(
    "--subset", default="", metavar="KEYS", help="a file of image keys, or xm600:SEED for 600 drawn by a seed"
  )
  words.add_argument(
    "--missing",
    default="refuse",
    metavar="WAY",
    help="with predictions that are missing: refuse, or score them as empty captions (empty)",
  )
  words.add_argument(
    "--bootstrap", type=int, default=0, metavar="N", help="resamples for 95%% intervals, such as 1000"
  )
  words.add_argument("--seed", type=int, default=0, metavar="N", help="of the resamples")
  words.add_argument("--no_health", action="store_true", help="do not look for wrong languages and the like")
  shown = command.add_argument_group("what is shown")
  shown.add_argument("--title", default="", metavar="TEXT", help="heads the tables and the report")
  shown.add_argument(
    "--baseline",
    default="",
    metavar="DIR",
    help="scores to show beside: a folder of xmcap score, or 'paper' for the four models of the XM3600 paper",
  )
  shown.add_argument("--images", default="", metavar="DIR", help="KEY.jpg or KEY.png for the report")
  _add_pictures(shown)
  shown.add_argument("--only_tables", action="store_true", help="write the tables and nothing else")
  command.add_argument(
    "--processes",
    type=int,
    default=0,
    metavar="N",
    help="that share the work; 0: one a core; no more than one a language is started",
  )


def _add_pictures(command) -> None:
  command.add_argument(
    "--pictures",
    default="embed",
    choices=("embed", "link", "none"),
    metavar="WAY",
    help="how the report holds pictures: embed thumbnails, link to the files, or none",
  )


def _score(arguments) -> object:
  from xmcap import languages, processes
  from xmcap.scoring import metrics, options, output, workers

  options.check_count("processes", arguments.processes, processes.MAX)
  outputs.keep_apart(
    {"--out": output.files_of(arguments.out, arguments.predictions), "--save_df": arguments.save_df},
    {
      "--references": arguments.references,
      "--predictions": arguments.predictions,
      "--df": arguments.df,
      "--subset": arguments.subset,
      "--baseline": os.path.join(arguments.baseline, "table.json") if arguments.baseline else "",
    },
  )
  places = [("--out", arguments.out, True)]
  if arguments.save_df:
    places.append(("--save_df", arguments.save_df, False))
  with outputs.held_all(places, arguments.prog):
    result = output.score_files(
      arguments.references,
      arguments.predictions,
      arguments.out,
      languages.parse(arguments.languages) if arguments.languages else None,
      language=arguments.language,
      document_frequencies=arguments.df,
      save_document_frequencies=arguments.save_df,
      baseline=arguments.baseline,
      only_tables=arguments.only_tables,
      images_dir=arguments.images or None,
      pictures=arguments.pictures,
      processes=arguments.processes or workers.available(),
      title=arguments.title,
      metrics=metrics.parse(arguments.metrics),
      tokenizer=arguments.tokenizer,
      subset=arguments.subset,
      missing=arguments.missing,
      bootstrap=arguments.bootstrap,
      seed=arguments.seed,
      health=not arguments.no_health,
    )
  if not arguments.only_tables:
    _say_pictures(arguments, result.statistics)
  print(result.table.terminal())
  if result.health:
    print(output.health_grid(result.health).text())
  return result


def _say_pictures(arguments, scores) -> None:
  """Says how many pictures were found, if not all: the report has none of the others."""
  if not arguments.images or arguments.pictures == "none":
    return
  import sys

  from xmcap.scoring.report import pictures

  keys = {key for of_language in scores.values() for key in of_language.keys}
  found = pictures.count(keys, arguments.images)
  if found < len(keys):
    print(
      f"xmcap: {found:,} of {len(keys):,} pictures found in {arguments.images}: name the folder that holds KEY.jpg or "
      "KEY.png",
      file=sys.stderr,
    )


def _add_compare(commands) -> None:
  command = base.add_command(
    commands,
    "compare",
    _compare,
    "say which systems are better than the first, language by language, and how sure that is",
    "Paired bootstrap and approximate randomisation, with Holm's correction over the languages.",
  )
  command.add_argument(
    "systems", nargs="+", metavar="DIR", help="folders of xmcap score, or NAME=DIR; the first is the baseline"
  )
  command.add_argument("--out", default="", metavar="DIR", help="where comparison.* and the report go")
  command.add_argument(
    "--metrics", default="", metavar="NAMES", help="default: cider_d, or the first that was scored"
  )
  command.add_argument("--resamples", type=int, default=1000, metavar="N", help="of each test")
  command.add_argument("--seed", type=int, default=0, metavar="N", help="of the resamples")
  command.add_argument(
    "--references", default="", metavar="FILE", help="what was scored against: adds a report side by side"
  )
  command.add_argument("--language", metavar="CODE", help="of references that name none")
  command.add_argument("--images", default="", metavar="DIR", help="KEY.jpg or KEY.png for the report")
  _add_pictures(command)


def _compare(arguments) -> None:
  from xmcap.scoring import metrics, side_by_side, significance

  folders: dict[str, str] = {}
  for argument in arguments.systems:
    name, equals, folder = argument.partition("=")
    if not equals:
      name, folder = os.path.basename(os.path.normpath(argument)), argument
    if not name or name in folders:
      raise UsageError(f"two systems would be called '{name}': name them, as in ours={folder}")
    folders[name] = folder
  if arguments.references and not arguments.out:
    raise UsageError("--references adds a report, which needs a place: give --out=DIR")
  if arguments.images and not arguments.references:
    raise UsageError("--images is for the report, which needs captions too: give --references=FILE")
  with contextlib.ExitStack() as stack:
    if arguments.out:
      names = [*(f"comparison.{suffix}" for suffix in ("csv", "json", "md", "tex")), "report.html"]
      outputs.keep_apart(
        {"--out": [os.path.join(arguments.out, name) for name in names]},
        {"--references": arguments.references},
      )
      stack.enter_context(outputs.held(arguments.out, arguments.prog))
    systems = {name: significance.read_system(folder) for name, folder in folders.items()}
    comparison = significance.compare(
      systems,
      metrics.parse(arguments.metrics) if arguments.metrics else None,
      arguments.resamples,
      arguments.seed,
    )
    if arguments.out:
      stack.enter_context(outputs.together(arguments.out))
      comparison.write(arguments.out)
    if arguments.references:
      side_by_side.write(
        arguments.out,
        systems,
        folders,
        arguments.references,
        comparison,
        language=arguments.language,
        images_dir=arguments.images or None,
        pictures=arguments.pictures,
      )
  if arguments.references:
    _say_pictures(arguments, next(iter(systems.values())).statistics)
  print(comparison.terminal())
