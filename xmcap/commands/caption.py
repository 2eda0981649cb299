"""The command that captions pictures: with a trained model, any model behind an endpoint, or a function."""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from xmcap import extras, languages, platforms, wording
from xmcap.commands import base, captioners, image_results
from xmcap.errors import UsageError, XmcapError
from xmcap.files import outputs

if TYPE_CHECKING:
  from xmcap.endpoint.inputs import Pictures
  from xmcap.endpoint.journal import Journal
  from xmcap.endpoint.tally import Outcome

_OF_CORPUS = ("corpus", "split", "subset")
_OF_MODEL = ("model_dir", "step", "weights", "search", "tags", "features", "gin_file", "overrides", "explain")
_FORMS = {
  ".jsonl": "for xmcap score",
  ".csv": "a row for each picture, a column for each language",
  ".html": "a page with the pictures",
}


def add(commands) -> None:
  """Declares the command."""
  command = base.add_command(
    commands, "caption", _caption, "caption pictures in the requested languages",
    "With --model_dir it needs the extra train, else the extra endpoint (docs/install.md).",
  )  # fmt: skip
  codes = (
    "codes such as en,th,ar, or all (36), or trained: those that the model was trained on; default: en, or trained"
    " if en is not among them"
  )
  base.text(command, "--languages", "CODES", codes, "", short="-l")
  image_results.add(command, "the captions", _FORMS)
  base.add_raw(command)
  images = "pictures, folders of them, or patterns such as 'photos/**/*.jpg'"
  base.text(command, "images", "IMAGE", images, type=base.address, nargs="*")
  _add_model(command.add_argument_group("a trained model"))
  endpoint = command.add_argument_group(captioners.TITLE)
  captioners.add_endpoint(endpoint)
  _add_batch(endpoint)
  _add_corpus(command.add_argument_group("with an endpoint or a function"))
  base.add_gin(command)


def _add_model(group) -> None:
  base.text(group, "--model_dir", "DIR", "the folder that a training run wrote", "", type=base.address)
  base.number(group, "--step", "the checkpoint to use; default: the best or newest")
  base.add_weights(group)
  search = "greedy, beam or sample; default: the model's; options such as --gin.Beam.beams=8"
  base.text(group, "--search", "NAME", search, choices=("greedy", "beam", "sample"))
  tags = "tags for the prompts of a model trained with tags: a tagger's predictions, by the keys of --keys"
  base.text(group, "--tags", "FILE", tags)
  features = (
    "stored vectors of the pictures, for a model that was trained on such; captions all that are in it"
  )
  base.text(group, "--features", "PATH", features)


def _add_batch(group) -> None:
  batch = "write the questions as batch files of OpenAI's format instead of sending them; needs no --endpoint"
  base.text(group, "--write_batch", "DIR", batch, "")
  batch = "read the answers from files of outputs and errors of batches"
  base.text(group, "--read_batch", "FILE", batch, action="extend", nargs="+")


def _add_corpus(group) -> None:
  captioners.add_function(group)
  corpus = "caption this instead: XM3600's captions.jsonl beside images/, or records"
  base.text(group, "--corpus", "PATH", corpus, "", type=base.address)
  base.text(group, "--split", "NAME", "split of the records; default: test", "")
  base.text(group, "--subset", "SUBSET", "xm600:SEED or a file of keys of the corpus", "")


def _caption(arguments) -> None:
  asks = bool(arguments.endpoint or arguments.write_batch or arguments.read_batch)
  if bool(arguments.model_dir) + bool(arguments.captioner) + asks != 1:
    raise UsageError(
      "give --model_dir of a trained model, --endpoint and --model of any other, or --captioner of a function (see "
      "xmcap caption --help)"
    )
  if arguments.model_dir:
    base.refuse(
      arguments, _OF_CORPUS, "is of an endpoint or a function, and not of a trained model: leave it out"
    )
    base.refuse(
      arguments, captioners.OF_ENDPOINT, "is of an endpoint, and not of a trained model: leave it out"
    )
    extras.check("xmcap caption --model_dir", "train")
    _with_model(arguments)
    return
  base.refuse(arguments, _OF_MODEL, "is of a trained model, and of nothing else: leave it out")
  _with_captioner(arguments)


def _with_model(arguments) -> None:
  platforms.choose()
  base.check_names(arguments)
  if arguments.languages:
    languages.parse(arguments.languages)  # reports an unknown one before the model is read
  from xmcap.evaluation import image_files

  as_predictions = arguments.json or bool(arguments.out)
  if arguments.features:
    files = keys = _stored(arguments)
  else:
    files = image_files.find(arguments.images)
    keys = image_files.keys(files, arguments.keys if as_predictions or arguments.tags else "path")
  inputs = {"IMAGE": list(files), "--tags": arguments.tags, "--features": arguments.features}
  outputs.keep_apart({"--out": arguments.out}, inputs)
  _check_page(arguments.out, len(files))
  if len(files) == 1 and not arguments.features:
    image_files.check(*files)  # report an error in the only picture before loading the model
  if arguments.search:
    arguments.overrides.append(f"Predictor.search=@{arguments.search.capitalize()}()")
  if arguments.tags:
    arguments.overrides += ["Predictor.prompt_tags=@TagPrompts()", f"TagPrompts.tags={arguments.tags!r}"]
  if not base.configure(arguments, arguments.model_dir):
    return
  from xmcap.evaluation import model_dir
  from xmcap.training import compilation_cache

  base.say(compilation_cache.described())
  images = dict(zip(keys, files, strict=True))
  key_of = dict(zip(files, keys if as_predictions else files, strict=True))
  codes = model_dir.languages_of(arguments.model_dir, arguments.languages)
  read = arguments.step, arguments.weights
  whole = set()

  def captions() -> image_results.Results:
    for file, of_file in model_dir.caption_files(arguments.model_dir, images, codes, *read):
      whole.add(file)
      yield key_of[file], of_file

  _deliver(
    arguments, captions(), codes, lambda key: image_files.read(images[key]), arguments.model_dir, len(files)
  )
  image_results.check_whole(len(files) - len(whole), len(files))


def _stored(arguments) -> list[str]:
  """The keys of --features, which the model reads in place of pictures."""
  if arguments.images or arguments.out.lower().endswith(".html"):
    raise UsageError(
      "--features has no pictures to read or to show: leave IMAGE out, and give --out=FILE.jsonl or .csv"
    )
  from xmcap.data import features

  arguments.overrides.append(f"Predictor.features={arguments.features!r}")
  return list(features.read(arguments.features).keys)


def _with_captioner(arguments) -> None:
  """Captions pictures with an endpoint or a function, or by batch files of an endpoint's format."""
  if arguments.write_batch and arguments.read_batch:
    raise UsageError(
      "--write_batch and --read_batch do not go together: read the answers, then write the rest"
    )
  batches = arguments.write_batch or arguments.read_batch
  if batches and arguments.strategy not in ("", "direct"):
    raise UsageError(
      f"--strategy={arguments.strategy}: a batch has a question for each caption: give --strategy=direct"
    )
  codes = languages.parse(arguments.languages or "en")
  captioner = captioners.get(arguments, codes)
  pictures = _pictures(arguments)
  with captioners.journal(arguments.out, arguments.prog) as journal:
    if batches and isinstance(captioner, captioners.OfEndpoint):
      _with_batches(arguments, captioner, codes, pictures, journal)
    else:
      _finish(arguments, captioner.ask(pictures, codes, journal), codes, pictures, captioner.name)


def _with_batches(
  arguments, captioner: captioners.OfEndpoint, codes: Sequence[str], pictures: "Pictures", journal: "Journal",
) -> None:  # fmt: skip
  from xmcap.endpoint import batch

  asked = captioner.endpoint, captioner.settings(codes, pictures.keys), *pictures[:2], journal
  if arguments.write_batch:
    for note in batch.write(*asked, arguments.write_batch, base.say):
      base.say(note)
  else:
    outcome = batch.read(*asked, arguments.read_batch, base.say)
    again = "--write_batch writes the questions that are not answered"
    _finish(arguments, outcome, codes, pictures, captioner.name, again)


def _pictures(arguments) -> "Pictures":
  """The pictures that are named, or those of the corpus."""
  from xmcap.endpoint import inputs

  if bool(arguments.images) == bool(arguments.corpus):
    raise UsageError("give pictures, or --corpus for those of a corpus")
  if arguments.corpus:
    pictures = inputs.of_corpus(arguments.corpus, arguments.split or "test", arguments.subset)
  else:
    pictures = inputs.of_files(arguments.images, arguments.keys)
  _check_page(arguments.out, len(pictures.keys))
  outputs.keep_apart(
    {"--out": arguments.out, "--write_batch": arguments.write_batch},
    {
      "IMAGE": arguments.images, "--corpus": arguments.corpus, "--prompt": arguments.prompt,
      "--read_batch": arguments.read_batch,
    },
  )  # fmt: skip
  return pictures


def _finish(
  arguments, outcome: "Outcome", codes: Sequence[str], pictures: "Pictures", model: str,
  again: str = "the same command asks again for those that failed",
) -> None:  # fmt: skip
  """Delivers captions with their provenance, and says what was done; XmcapError, with `again`, if some are missing."""
  from xmcap.reading import provenance

  _deliver(arguments, iter(outcome.captions.items()), codes, pictures.read, model, len(outcome.captions))
  if arguments.out:
    provenance.write(arguments.out, outcome.provenance)
  for note in outcome.notes:
    base.say(note)
  if outcome.missing:
    if not outcome.provenance["states"]["failed"] and not arguments.read_batch:
      again = "the lines above say why"  # nothing is left to ask
    raise XmcapError(
      f"{outcome.missing:,} of {len(pictures.keys) * len(codes):,} captions are missing: {again}"
    )


def _deliver(
  arguments, captions: image_results.Results, codes: Sequence[str], read: Callable[[str], bytes], model: str, count: int
) -> None:  # fmt: skip
  """Writes or prints the captions of `count` pictures; `read` gives a picture's file for a page."""
  from xmcap.pages import captions_table, gallery
  from xmcap.reading import predictions

  def page(results: image_results.Results) -> Iterator[str]:
    return gallery.lines("Captions", f"{wording.count(count, 'picture')}, {model}", results, read)

  forms = {
    ".jsonl": predictions.as_lines,
    ".csv": lambda results: captions_table.wide(codes, results, base.say),
    ".html": page,
  }
  image_results.deliver(arguments, captions, forms, str, "pictures captioned", count)


def _check_page(out: str, count: int) -> None:
  """Raises UsageError if --out is a page of too many pictures."""
  from xmcap.pages import gallery

  if out.lower().endswith(".html") and count > gallery.MOST:
    raise UsageError(
      f"--out={out}: {count:,} pictures are too many for a page: name at most {gallery.MOST:,}, or give .jsonl or .csv"
    )
