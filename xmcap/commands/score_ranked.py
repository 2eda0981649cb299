"""The commands that score rankings: score zero-shot, retrieval, correlation, tags."""

import os
from collections.abc import Mapping, Sequence

from xmcap import languages
from xmcap.commands import base
from xmcap.errors import UsageError
from xmcap.files import outputs

_FORMS = ".npy, or .safetensors with one tensor"
_SCORES = [*(f"table.{suffix}" for suffix in ("csv", "json", "md", "tex")), "scores.npz", "report.html"]


def add(actions) -> None:
  """Declares the commands among those of `xmcap score`."""
  _add_zero_shot(actions)
  _add_retrieval(actions)
  _add_correlation(actions)
  _add_tags(actions)


def _add_zero_shot(actions) -> None:
  command = base.add_command(
    actions, "zero-shot", _zero_shot, "score embeddings of pictures against those of the names of classes: top-1",
    "As in Babel-ImageNet: in each language among the classes that have a name in it. Writes table.csv, .json, .md and "
    ".tex, scores.npz, classes.csv, report.html and, with --class_curve, class_curve.csv.",
  )  # fmt: skip
  labels = 'JSON of {"DE": [[index, ...], [label, ...]]}, as babel_imagenet.json'
  targets = "the class of each picture: an index a line, or .npy of integers"
  prompts = "a name for the prompts, for the signature"
  fixed = "also top-1 among so many random classes, which compares languages; 0: without"
  texts = "a folder of CODE.npy or CODE.safetensors, [labels, width] or [prompts, labels, width]"
  images = f"embeddings [pictures, width]: {_FORMS}"
  base.text(command, "--pictures", "FILE", images, short="-p", required=True)
  base.text(command, "--targets", "FILE", targets, required=True)
  base.text(command, "--labels", "FILE", labels, short="-r", required=True)
  base.text(command, "--texts", "DIR", texts, required=True)
  base.text(command, "--prompts", "TEXT", prompts, "label")
  base.number(command, "--fixed_classes", fixed, 100, most=100_000)
  base.number(command, "--fixed_draws", "how often these are drawn", 10, least=1, most=1_000)
  curve = (
    "also top-1 over these numbers of random classes, such as 50,100,200, in five draws each, and its line"
  )
  base.text(command, "--class_curve", "NUMBERS", curve, "")
  base.text(command, "--images", "DIR", "KEY.jpg or KEY.png for the report")
  base.text(
    command,
    "--keys",
    "FILE",
    "keys of the pictures, one a line; default: keys.txt beside pictures.npy, or numbers",
  )
  base.add_similarity(command)
  _add_baseline(command)
  _add_output(
    command, "only these, or every; default: all, of Babel-ImageNet's 298 the paper's 100 and en", every=True
  )


def _add_retrieval(actions) -> None:
  command = base.add_command(
    actions, "retrieval", _retrieval, "score embeddings of pictures and captions against each other: R@1, 5, 10",
    "Both ways, in each language among its captions. Writes table.csv, .json, .md, .tex, scores.npz and report.html.",
  )  # fmt: skip
  captions = (
    'what xmcap score takes as references, or JSON of {"images": [...], "captions": {"de": [[...], ...]}}'
  )
  texts = "a folder of CODE.npy or CODE.safetensors, [captions, width] in the order of the captions"
  images = f"embeddings [pictures, width] in the order of the captions' images: {_FORMS}"
  base.text(command, "--pictures", "FILE", images, short="-p")
  base.text(command, "--captions", "FILE", captions, short="-r")
  base.text(command, "--texts", "DIR", texts)
  base.text(command, "--language", "CODE", "of captions that name none, and of --scores", short="-l")
  base.text(command, "--k", "NUMBERS", "how many candidates may hold a right one: of 1, 5, 10", "1,5,10")
  per_image = "all captions of a picture in a language, or its first; --texts are of all"
  base.text(command, "--captions_per_image", "NAME", per_image, "all", choices=("all", "first"))
  presets = ("xm3600", "xflickrco", "xtd", "coco_cn")
  preset = f"refuse other pictures or numbers of captions than those of this set: {', '.join(presets)}"
  base.text(command, "--preset", "NAME", preset, choices=presets)
  base.add_similarity(command)
  _add_baseline(command)
  _add_output(command)
  instead = "scores instead of embeddings: MRR, R@1, 5, 10, median rank; needs --language"
  matrix = command.add_argument_group(instead)
  scores = "[queries, candidates], float32 .npy, which is read some rows at a time"
  targets = "the right candidate of each query: an index a line, or .npy of integers; default: the diagonal"
  base.text(matrix, "--scores", "FILE.npy", scores, short="-s")
  base.text(matrix, "--targets", "FILE", targets)
  base.text(matrix, "--keys", "FILE", "keys of the queries, one a line; default: their numbers from 0")


def _add_tags(actions) -> None:
  command = base.add_command(
    actions, "tags", _tags, "score predicted tags of pictures: precision, recall and F at k",
    "Scores each language as in COCO-CN. Writes table.csv, .json, .md and .tex, scores.npz and report.html.",
  )  # fmt: skip
  tags = 'JSONL of {"image/key", "language", "tags": [...]}, or lines of ID tag tag ... with --language'
  ranked = f'{tags}; best first, or with scores: "tags": {{tag: score}}, or ID tag score tag score ...'
  depths = "numbers of predicted tags to score: 1, 3, 5 or 10, separated by commas"
  labels = "the known tags, one per line; any other tag is an error"
  base.text(command, "--references", "FILE", tags, short="-r", required=True)
  base.text(command, "--predictions", "FILE", ranked, short="-p", required=True)
  base.text(command, "--labels", "FILE", labels)
  base.text(command, "--k", "NUMBERS", depths, "5")
  base.text(command, "--language", "CODE", "language of lines that name none", short="-l")
  _add_output(command)


def _add_correlation(actions) -> None:
  command = base.add_command(
    actions, "correlation", _correlation, "correlate zero-shot accuracy with retrieval over models and languages",
    "Figure 3 of Babel-ImageNet: a point is a model and a language, text-to-image R@1 against top-1. With --counts its "
    "Figures 4 and 7: classes, and top-1, against counts of languages, such as pictures in training data. Writes "
    "points.csv, correlation.csv and correlation.md, with --counts also classes_points.csv and classes_correlation.*.",
  )  # fmt: skip
  folder = "folders of `score {}`, one for each model"
  base.text(command, "--zero_shot", "DIR", folder.format("zero-shot"), **base.SEVERAL)
  base.text(command, "--retrieval", "DIR", folder.format("retrieval") + ", in the same order", **base.SEVERAL)
  paper = "add the printed points of the paper's models: xm3600, xflickrco or xtd"
  counts = "instead of --retrieval: CSV of language,count"
  base.text(command, "--paper", "NAME", paper, choices=("xm3600", "xflickrco", "xtd"))
  base.text(command, "--counts", "FILE", counts)
  base.text(command, "--baseline", "NAME", "with --counts: add models of the paper", **base.SEVERAL)
  base.text(command, "--out", "DIR", "folder for the tables", short="-o", required=True)
  base.add_raw(command)
  base.number(
    command, "--bootstrap", "resamples of the points for 95%% intervals; 0: none", 1000, most=100_000
  )
  base.number(command, "--seed", "of the resamples", 0)


def _add_baseline(command) -> None:
  help = (
    "paper: Babel-ImageNet's twelve models; one of them, such as mSigLIP; or another folder of this command"
  )
  base.text(command, "--baseline", "NAME", help)


def _add_output(command, of: str = "only these; default: all that are named", every: bool = False) -> None:
  """Adds the options of a table of rankings: where it goes, its languages, intervals and title."""
  resamples = "resamples of the pictures for 95%% intervals, such as 1000"
  base.text(command, "--out", "DIR", "folder for the tables", short="-o", required=True)
  base.add_raw(command)
  base.add_languages(command, of, every)
  base.number(command, "--bootstrap", resamples, 0, most=100_000)
  base.number(command, "--seed", "of the resamples and of random classes", 0)
  base.text(command, "--title", "TEXT", "heads the tables", "")


def _zero_shot(arguments) -> None:
  from xmcap.pages.report import pictures
  from xmcap.ranked import class_curve, zero_shot
  from xmcap.reading import embedding_files

  written = [*_SCORES, "classes.csv", "class_curve.csv"]
  _keep_apart(arguments, ("pictures", "targets", "labels", "keys"), written)
  sizes = class_curve.parse(arguments.class_curve) if arguments.class_curve else ()
  pictures.check("embed", arguments.images)
  if not arguments.prompts or any(mark in arguments.prompts for mark in "|\n"):
    raise UsageError("--prompts: give a short name on one line, without |")
  with outputs.held(arguments.out, arguments.prog):
    labels = zero_shot.read_labels(arguments.labels, arguments.languages, base.say)
    keys = _keys(arguments)
    if keys is None:
      keys = embedding_files.keys_beside(arguments.pictures) or None
    targets = zero_shot.read_targets(arguments.targets)
    texts = embedding_files.by_language(arguments.texts, languages.of_wikipedia)
    _say_not_scored(arguments, labels, texts, "labels")
    result = zero_shot.score_zero_shot(
      embedding_files.read(arguments.pictures),
      targets,
      labels,
      texts,
      prompts=arguments.prompts,
      fixed_classes=arguments.fixed_classes,
      fixed_draws=arguments.fixed_draws,
      curve_sizes=sizes,
      keys=keys,
      **_shared(arguments),
    )
    _write(arguments, _beside(arguments, result), arguments.images)
    if line := pictures.missing(arguments.images, result.statistics):
      base.say(line)


def _retrieval(arguments) -> None:
  from xmcap.ranked import retrieval, retrieval_sets, row_order
  from xmcap.reading import embedding_files
  from xmcap.scoring.metrics.ranked import DEPTHS

  depths = _depths(arguments.k, DEPTHS)
  if arguments.scores:
    _matrix(arguments, depths)
    return
  base.require(arguments, ("pictures", "captions", "texts"), "; or --scores")
  base.refuse(arguments, ("targets", "keys"), "belongs to --scores; leave it out")
  _keep_apart(arguments, ("pictures", "captions"), _SCORES)
  with outputs.held(arguments.out, arguments.prog):
    keys, captions = retrieval.read_captions(arguments.captions, arguments.languages, arguments.language)
    if arguments.preset:
      retrieval_sets.check(
        arguments.preset,
        keys,
        {language: len(of_language.texts) for language, of_language in captions.items()},
      )
    of_languages = {language: of_language.texts for language, of_language in captions.items()}
    row_order.check_beside(arguments.pictures, arguments.texts, keys, of_languages)
    texts = embedding_files.by_language(arguments.texts)
    _say_not_scored(arguments, captions, texts, "captions")
    result = retrieval.score_retrieval(
      embedding_files.read(arguments.pictures),
      keys,
      captions,
      texts,
      depths=depths,
      per_image=arguments.captions_per_image,
      **_shared(arguments),
    )
    _write(arguments, _beside(arguments, result, keys))


def _matrix(arguments, depths: Sequence[int]) -> None:
  from xmcap.ranked import score_matrices

  of_embeddings = ("pictures", "captions", "texts", "languages", "preset", "baseline")
  options = [f"--{name}" for name in of_embeddings if getattr(arguments, name)]
  if options:
    raise UsageError(f"--scores takes the place of embeddings; leave {', '.join(options)} out")
  if not arguments.language:
    raise UsageError("--scores names no language of its queries; give --language=CODE")
  _keep_apart(arguments, ("scores", "targets", "keys"), _SCORES)
  with outputs.held(arguments.out, arguments.prog):
    matrix = score_matrices.open_matrix(arguments.scores)
    result = score_matrices.score_matrix(
      matrix,
      score_matrices.read_targets(arguments.targets, matrix),
      arguments.language,
      depths,
      keys=_keys(arguments),
      bootstrap=arguments.bootstrap,
      seed=arguments.seed,
      title=arguments.title,
    )
    _write(arguments, result)


def _correlation(arguments) -> None:
  from xmcap.files import files
  from xmcap.ranked import tasks_correlation

  if arguments.counts:
    base.refuse(arguments, ("retrieval", "paper"), "is without --counts; leave it out")
  else:
    base.refuse(arguments, ("baseline",), "is with --counts; leave it out")
  written = [f"{prefix}{name}" for prefix in ("", "classes_") for name in ("points.csv", "correlation.csv")]
  _keep_apart(arguments, ("counts",), written)
  with outputs.held(arguments.out, arguments.prog), outputs.together(arguments.out):
    if arguments.counts:
      counts = tasks_correlation.read_counts(arguments.counts)
      series = tasks_correlation.of_counts(arguments.zero_shot, arguments.baseline, counts)
    else:
      folders = arguments.zero_shot, arguments.retrieval
      series = {"": tasks_correlation.points(*folders, arguments.paper or "", say=base.say)}
    if not arguments.counts:
      for name in (*written[2:], "classes_correlation.md"):  # of an earlier run
        files.remove(os.path.join(arguments.out, name))
    tables = []
    for prefix, points in series.items():
      coefficients = points.coefficients(arguments.bootstrap, arguments.seed)
      points.write(arguments.out, coefficients, prefix)
      tables.append("".join([points.grid(coefficients).text(), *(f"\n{note}\n" for note in points.notes())]))
  print("\n".join(tables), end="")


def _beside(arguments, result, keys: Sequence[str] = ()):
  """Returns the result with the scores of --baseline in its table, if there is one."""
  from xmcap.ranked import babel_baselines

  return babel_baselines.with_baseline(result, arguments.baseline, keys) if arguments.baseline else result


def _tags(arguments) -> None:
  from xmcap.ranked import tags
  from xmcap.reading import inputs, tag_files
  from xmcap.scoring.metrics.tags import DEPTHS

  depths = _depths(arguments.k, DEPTHS)
  read = ("references", "predictions", "labels")
  _keep_apart(arguments, read, _SCORES)
  inputs.check_pipes({f"--{name}": getattr(arguments, name) for name in read})
  with outputs.held(arguments.out, arguments.prog):
    references = tag_files.read(arguments.references, arguments.language, arguments.languages, say=base.say)
    predictions = tag_files.read(arguments.predictions, arguments.language, arguments.languages, say=base.say)
    extra = [language for language in predictions if language not in references]
    missing = [language for language in references if language not in predictions]
    if extra or missing:
      files = ((arguments.references, extra), (arguments.predictions, missing))
      lacks = "; ".join(f"{path}: no tags in {', '.join(codes)}" for path, codes in files if codes)
      raise UsageError(f"{lacks}, which the other file has; choose by --languages")
    result = tags.score_tags(
      references,
      predictions,
      depths,
      vocabulary=tag_files.read_vocabulary(arguments.labels) if arguments.labels else None,
      bootstrap=arguments.bootstrap,
      seed=arguments.seed,
      title=arguments.title,
    )
    _write(arguments, result)


def _say_not_scored(arguments, codes, texts, noun: str) -> None:
  """Names the languages of --texts without captions or labels, unless --languages left them out."""
  from xmcap.reading import embedding_files

  if not arguments.languages:
    for line in embedding_files.not_scored(codes, texts, noun):
      base.say(f"{arguments.texts}: {line}")


def _keys(arguments) -> list[str] | None:
  from xmcap.reading.inputs import Input

  if not arguments.keys:
    return None
  with Input(arguments.keys) as source:
    return [line for _, line in source.lines()]


def _shared(arguments) -> Mapping:
  return {name: getattr(arguments, name) for name in ("similarity", "bootstrap", "seed", "title")}


def _write(arguments, result, images: str | None = None) -> None:
  """Writes the tables and the report of a result to --out together, and prints the table."""
  from xmcap.ranked import page

  with outputs.together(arguments.out):
    page.write_results(arguments.out, result, images)
  print(result.table.terminal(arguments.out))


def _depths(text: str, allowed: Sequence[int]) -> tuple[int, ...]:
  """Returns the numbers that --k names; UsageError for one that is not allowed, or named twice."""
  depths = {str(k): k for k in allowed}
  names = [part.strip() for part in text.split(",")]
  unknown = [name for name in names if name not in depths]
  if unknown or len(set(names)) < len(names):
    raise UsageError(f"--k={text}: name some of {', '.join(depths)}, each once")
  return tuple(k for name, k in depths.items() if name in names)


def _keep_apart(arguments, inputs, names) -> None:
  """Raises UsageError if one of these files in --out is also an input of one of these options."""
  written = [os.path.join(arguments.out, name) for name in names]
  outputs.keep_apart({"--out": written}, {f"--{name}": getattr(arguments, name) for name in inputs})
