"""The commands that run a model: train, eval, caption."""

import contextlib
from collections.abc import Iterator

from xmcap import languages, platforms, quiet
from xmcap.commands import base, hosts, image_results, measure
from xmcap.errors import RestartError, UsageError
from xmcap.files import buckets, outputs

_LOCK_SECONDS = 120  # NFS may keep the lock of a dead host for somewhat less


def add(commands) -> None:
  """Declares the commands."""
  train = base.add_command(
    commands,
    "train",
    _train,
    "train a model as configured in gin files",
    "The same command resumes a run.",
    extra="train",
  )
  check = "check data, vocabulary, weights, folder, one step and the evaluators, without training"
  scratch = "start over if none of the run's checkpoints can be read (they are in MODEL_DIR/damaged)"
  data = "resume from a checkpoint that was trained on other data: another batch size, seed, mixture, ..."
  base.flag(train, "--dry_run", check)
  measure.add(train)
  base.flag(train, "--from_scratch", scratch)
  base.flag(train, "--other_data", data)
  hosts.add(train)
  base.add_gin(train)

  evaluate = base.add_command(
    commands,
    "eval",
    _eval,
    "caption a split with a trained model and score the captions in each language",
    extra="train",
  )
  base.add_model(evaluate)
  base.add_raw(evaluate)
  hosts.add(evaluate)
  base.add_gin(evaluate)

  caption = base.add_command(
    commands, "caption", _caption, "caption pictures in the requested languages", extra="train"
  )
  base.add_model(caption)
  codes = (
    "codes such as en,th,ar, or all (36), or trained: those that the model was trained on; default: en, or trained"
    " if en is not among them"
  )
  base.text(caption, "--languages", "CODES", codes, "", short="-l")
  forms = {
    ".jsonl": "for xmcap score",
    ".csv": "a row for each picture, a column for each language",
    ".html": "a page with the pictures",
  }
  image_results.add(caption, "the captions", forms)
  base.add_raw(caption)
  search = "greedy, beam or sample; default: the model's; options such as --gin.Beam.beams=8"
  base.text(caption, "--search", "NAME", search, choices=("greedy", "beam", "sample"))
  tags = "tags for the prompts of a model trained with tags: a tagger's predictions, by the keys of --keys"
  base.text(caption, "--tags", "FILE", tags)
  images = "pictures, folders of them, or patterns such as 'photos/**/*.jpg'"
  base.text(caption, "images", "IMAGE", images, type=base.address, nargs="+")
  base.add_gin(caption)


def _train(arguments) -> None:
  if not arguments.gin_file:
    raise UsageError(
      "xmcap train needs gin files, such as --gin_file=models/tiny.gin --gin_file=data/emoji36.gin"
      " --gin_file=runs/train.gin"
    )
  from xmcap import configuration

  platforms.choose()
  if measure.several(arguments):
    measure.compare(arguments)
    return
  measure.use_xla_flags(arguments)
  if not base.configure(arguments):
    return
  if arguments.measure:
    measure.here(arguments)
    return
  allowed = {"from_scratch": arguments.from_scratch, "other_data": arguments.other_data}
  if arguments.dry_run:
    from xmcap.dry_run import run as dry_run

    dry_run.dry_run(**allowed)
    return
  import jax

  from xmcap.evaluation import model_dir
  from xmcap.files import addresses
  from xmcap.training import loop
  from xmcap.training.reporting import goodput
  from xmcap.training.run import Start

  with hosts.joined(arguments, training=True):
    lock = contextlib.nullcontext()
    if jax.process_index() == 0:  # for all processes
      folder = configuration.macro("MODEL_DIR")
      if addresses.is_remote(folder):
        buckets.check_writable(folder)
      lock = outputs.held(folder, arguments.prog, "MODEL_DIR", lease=_LOCK_SECONDS, bucket=True)
    with lock:
      model_dir.check_model_dir()
      result = loop.train(
        start=Start(**allowed, begun=model_dir.write_model_dir, launched=goodput.process_start())
      )
  if not result.finished:
    if "SIGINT" in result.message:
      raise KeyboardInterrupt
    raise RestartError(result.message)


def _eval(arguments) -> None:
  platforms.choose()
  if not base.configure(arguments, arguments.model_dir, ["runs/eval.gin"]):
    return
  from xmcap.evaluation import model_dir

  with hosts.joined(arguments, training=False):
    quiet.die_plainly()
    # What is bound in gin is used unless it is given here.
    options = {"step": arguments.step, "weights": arguments.weights}
    model_dir.evaluate(**{name: value for name, value in options.items() if value is not None})


def _caption(arguments) -> None:
  platforms.choose()
  base.check_names(arguments)
  if arguments.languages:
    languages.parse(arguments.languages)  # reports an unknown one before the model is read
  from xmcap import wording
  from xmcap.evaluation import image_files
  from xmcap.pages import captions_table, gallery

  files = image_files.find(arguments.images)
  as_predictions = arguments.json or bool(arguments.out)
  keys = image_files.keys(files, arguments.keys if as_predictions or arguments.tags else "path")
  outputs.keep_apart({"--out": arguments.out}, {"IMAGE": list(files), "--tags": arguments.tags})
  if arguments.out.lower().endswith(".html") and len(files) > gallery.MOST:
    raise UsageError(
      f"--out={arguments.out}: {len(files):,} pictures are too many for a page: name at most {gallery.MOST:,}, or give"
      " .jsonl or .csv"
    )
  if len(files) == 1:
    image_files.check(*files)  # report an error in the only picture before loading the model
  if arguments.search:
    arguments.overrides.append(f"Predictor.search=@{arguments.search.capitalize()}()")
  if arguments.tags:
    arguments.overrides += ["Predictor.prompt_tags=@TagPrompts()", f"TagPrompts.tags={arguments.tags!r}"]
  if not base.configure(arguments, arguments.model_dir):
    return
  from xmcap.evaluation import model_dir
  from xmcap.reading import predictions

  images = dict(zip(keys, files, strict=True))
  key_of = dict(zip(files, keys if as_predictions else files, strict=True))
  codes = model_dir.languages_of(arguments.model_dir, arguments.languages)
  read = arguments.step, arguments.weights
  whole = set()

  def captions() -> image_results.Results:
    for file, of_file in model_dir.caption_files(arguments.model_dir, images, codes, *read):
      whole.add(file)
      yield key_of[file], of_file

  def page(results: image_results.Results) -> Iterator[str]:
    return gallery.lines(
      "Captions", f"{wording.count(len(files), 'picture')}, {arguments.model_dir}", results,
      lambda key: image_files.read(images[key]),
    )  # fmt: skip

  forms = {
    ".jsonl": predictions.as_lines,
    ".csv": lambda results: captions_table.wide(codes, results, base.say),
    ".html": page,
  }
  image_results.deliver(arguments, captions(), forms, str, "pictures captioned", len(files))
  image_results.check_whole(len(files) - len(whole), len(files))
