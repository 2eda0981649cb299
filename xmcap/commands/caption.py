"""The command that captions pictures: with a trained model, or with any model behind an endpoint."""

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence

from xmcap import extras, languages, platforms, wording
from xmcap.commands import base, image_results
from xmcap.errors import UsageError, XmcapError
from xmcap.files import outputs

_OF_ENDPOINT = (
  "model", "prompt", "corpus", "split", "subset", "shots", "shots_from", "seed", "strategy", "key_variable",
  "extra_body", "timeout", "max_requests", "price", "max_cost", "blind",
)  # fmt: skip
_OF_MODEL = ("model_dir", "step", "weights", "search", "tags", "gin_file", "overrides", "explain")
_FORMS = {
  ".jsonl": "for xmcap score",
  ".csv": "a row for each picture, a column for each language",
  ".html": "a page with the pictures",
}


def add(commands) -> None:
  """Declares the command."""
  command = base.add_command(
    commands, "caption", _caption, "caption pictures in the requested languages",
    "With --model_dir it needs the extra train, with --endpoint the extra endpoint (docs/install.md).",
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
  _add_endpoint(command.add_argument_group("any model behind an endpoint (docs/any_model.md)"))
  base.add_gin(command)


def _add_model(group) -> None:
  base.text(group, "--model_dir", "DIR", "the folder that a training run wrote", "", type=base.address)
  base.number(group, "--step", "the checkpoint to use; default: the best or newest")
  base.add_weights(group)
  search = "greedy, beam or sample; default: the model's; options such as --gin.Beam.beams=8"
  base.text(group, "--search", "NAME", search, choices=("greedy", "beam", "sample"))
  tags = "tags for the prompts of a model trained with tags: a tagger's predictions, by the keys of --keys"
  base.text(group, "--tags", "FILE", tags)


def _add_endpoint(group) -> None:
  base.text(group, "--endpoint", "URL", "an OpenAI-compatible server, such as http://localhost:8000/v1", "")
  base.text(group, "--model", "NAME", "the model's name there", "")
  base.text(group, "--prompt", "NAME", "a published prompt, or your own FILE.toml; default: xmcap", "")
  base.text(
    group,
    "--corpus",
    "PATH",
    "caption this instead: XM3600's captions.jsonl beside images/, or records",
    "",
    type=base.address,
  )
  base.text(group, "--split", "NAME", "split of the records; default: test", "")
  base.text(group, "--subset", "SUBSET", "xm600:SEED or a file of keys of the corpus", "")
  base.number(group, "--shots", "examples before each question, with --shots_from")
  base.text(
    group,
    "--shots_from",
    "PATH",
    "a corpus whose pictures and captions are the examples, drawn with --seed",
    "",
    type=base.address,
  )
  base.number(group, "--seed", "seed of the examples; default: 0")
  base.text(
    group,
    "--strategy",
    "NAME",
    "direct, or translate: English first; default: direct",
    "",
    choices=("direct", "translate"),
  )
  base.text(
    group, "--key_variable", "NAME", "environment variable with the API key; default: OPENAI_API_KEY", ""
  )
  base.text(group, "--extra_body", "JSON", "further fields of each request", "")
  base.number(group, "--timeout", "seconds, after which a request is sent again; default: 180", least=1)
  base.number(group, "--max_requests", "most requests under way; default: 64", least=1, most=10_000)
  base.text(group, "--price", "IN,OUT[,CACHED]", "dollars for a million tokens", "")
  base.text(group, "--max_cost", "DOLLARS", "ask nothing more after so much", "")
  base.flag(group, "--blind", "go on if the model does not see pictures")


def _caption(arguments) -> None:
  if bool(arguments.model_dir) == bool(arguments.endpoint):
    raise UsageError(
      "give --model_dir of a trained model, or --endpoint and --model of any other (see xmcap caption --help)"
    )
  if arguments.endpoint:
    base.refuse(arguments, _OF_MODEL, "is of a trained model, and not of an endpoint: leave it out")
    base.require(arguments, ["model"])
    extras.check("xmcap caption --endpoint", "endpoint")
    _with_endpoint(arguments)
  else:
    base.refuse(arguments, _OF_ENDPOINT, "is of an endpoint, and not of a trained model: leave it out")
    extras.check("xmcap caption --model_dir", "train")
    _with_model(arguments)


def _with_model(arguments) -> None:
  platforms.choose()
  base.check_names(arguments)
  if arguments.languages:
    languages.parse(arguments.languages)  # reports an unknown one before the model is read
  from xmcap.evaluation import image_files

  files = image_files.find(arguments.images)
  as_predictions = arguments.json or bool(arguments.out)
  keys = image_files.keys(files, arguments.keys if as_predictions or arguments.tags else "path")
  outputs.keep_apart({"--out": arguments.out}, {"IMAGE": list(files), "--tags": arguments.tags})
  _check_page(arguments.out, len(files))
  if len(files) == 1:
    image_files.check(*files)  # report an error in the only picture before loading the model
  if arguments.search:
    arguments.overrides.append(f"Predictor.search=@{arguments.search.capitalize()}()")
  if arguments.tags:
    arguments.overrides += ["Predictor.prompt_tags=@TagPrompts()", f"TagPrompts.tags={arguments.tags!r}"]
  if not base.configure(arguments, arguments.model_dir):
    return
  from xmcap.evaluation import model_dir

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


def _with_endpoint(arguments) -> None:
  from xmcap.endpoint import inputs, prompts, run
  from xmcap.endpoint.asking import Price
  from xmcap.reading import provenance

  if bool(arguments.images) == bool(arguments.corpus):
    raise UsageError("give pictures, or --corpus for those of a corpus")
  if bool(arguments.shots) != bool(arguments.shots_from):
    raise UsageError(
      "--shots and --shots_from go together: how many examples, and the corpus that they are from"
    )
  codes = languages.parse(arguments.languages or "en")
  limits = {"timeout_seconds": arguments.timeout, "max_requests": arguments.max_requests}
  endpoint = inputs.endpoint(
    arguments.endpoint, arguments.model, arguments.key_variable, arguments.extra_body,
    **{name: limit for name, limit in limits.items() if limit},
  )  # fmt: skip
  prompt = prompts.get(arguments.prompt or prompts.DEFAULT)
  for code in codes:
    prompt.of(code)  # reports a language that it lacks
  if arguments.corpus:
    pictures = inputs.of_corpus(arguments.corpus, arguments.split or "test", arguments.subset)
  else:
    pictures = inputs.of_files(arguments.images, arguments.keys)
  _check_page(arguments.out, len(pictures.keys))
  outputs.keep_apart(
    {"--out": arguments.out},
    {"IMAGE": arguments.images, "--corpus": arguments.corpus, "--prompt": arguments.prompt},
  )
  settings = run.Settings(
    prompt=prompt,
    languages=codes,
    strategy=arguments.strategy or "direct",
    shots=inputs.shots(arguments.shots, arguments.shots_from, arguments.seed or 0, codes, set(pictures.keys)),
    price=Price(*inputs.numbers("--price", arguments.price)) if arguments.price else Price(),
    max_cost=inputs.numbers("--max_cost", arguments.max_cost)[0] if arguments.max_cost else None,
    blind=arguments.blind,
  )
  with _journal(arguments) as journal:
    outcome = run.caption(endpoint, settings, pictures.keys, pictures.read, journal, base.say)
    captions = iter(outcome.captions.items())
    _deliver(arguments, captions, codes, pictures.read, endpoint.model, len(outcome.captions))
  if arguments.out:
    provenance.write(arguments.out, outcome.provenance)
  for note in outcome.notes:
    base.say(note)
  if outcome.missing:
    raise XmcapError(
      f"{outcome.missing:,} of {len(pictures.keys) * len(codes):,} captions are missing: the same command asks again "
      "for those that failed"
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


@contextlib.contextmanager
def _journal(arguments) -> Iterator[str]:
  """The file of the answers, beside --out; without --out it is gone at the end."""
  from xmcap.endpoint.journal import SUFFIX

  if arguments.out:
    path = f"{os.path.splitext(arguments.out)[0]}{SUFFIX}"
    with outputs.held(path, arguments.prog, folder=False):
      yield path
  else:
    with tempfile.TemporaryDirectory(prefix="xmcap-") as folder:
      yield os.path.join(folder, f"captions{SUFFIX}")
