"""The command that writes a model's embeddings of pictures and texts."""

from xmcap import languages, platforms
from xmcap.commands import base, hosts
from xmcap.errors import UsageError
from xmcap.files import outputs


def add(commands) -> None:
  """Declares the command."""
  command = base.add_command(
    commands, "embed", _embed, "embed pictures and texts with a dual tower or a Word2VisualVec",
    "Writes vectors.json, pictures.npy and keys.txt, captions/CODE.npy, predictions/CODE.npy and labels/CODE.npy, for "
    "`xmcap score zero-shot`, `score retrieval` and `score --vectors`. Started again, it goes on where it was.",
    extra="train",
  )  # fmt: skip
  images = "a folder of pictures; with --captions it holds KEY.jpg or KEY.png of each of their pictures"
  captions = "captions, as for `xmcap score retrieval`"
  predictions = "captions of systems, as for `xmcap score`, for its --vectors (repeatable)"
  prefix = "goes before every caption and prediction, such as CLIPScore's 'A photo depicts '"
  labels = "names of classes, as for `xmcap score zero-shot`"
  corpus = "a built corpus: the pictures of a split, and a caption each in --languages"
  prompts = 'JSON of {"DE": ["ein Bild von {}", ...]}; a language without prompts has its names alone'
  base.add_model(command)
  base.text(command, "--out", "DIR", "folder for the embeddings", short="-o", required=True)
  base.text(command, "--images", "DIR", images, type=base.address)
  base.text(command, "--corpus", "DIR", corpus)
  base.text(command, "--split", "NAME", "of --corpus", "train")
  base.text(command, "--captions", "FILE", captions)
  base.text(command, "--predictions", "FILE", predictions, **base.SEVERAL)
  base.text(command, "--prefix", "TEXT", prefix, "")
  base.text(command, "--labels", "FILE", labels)
  base.text(command, "--prompts", "FILE", prompts)
  features = "stored features of the pictures, for a Word2VisualVec; alone: of all pictures in it"
  base.text(command, "--features", "PATH", features)
  base.add_languages(command, "of the texts; default: all that are there; every: all of --labels", every=True)
  base.text(command, "--language", "CODE", "of captions that name none", short="-l")
  adapters = "a folder of languages' adapters, DIR/CODE each, of `convert --part=adapter`"
  base.text(command, "--adapters", "DIR", adapters)
  hosts.add(command)


def _embed(arguments) -> None:
  inputs = ("images", "captions", "predictions", "labels", "corpus", "features")
  if not any(getattr(arguments, name) for name in inputs):
    raise UsageError(
      "nothing to embed: give --images, --captions, --predictions, --labels, --corpus or --features"
    )
  if arguments.corpus and (arguments.images or arguments.captions):
    raise UsageError("--corpus has pictures and captions of its own: leave --images and --captions out")
  if arguments.prompts and not arguments.labels:
    raise UsageError("--prompts are for names of classes: give --labels too")
  read = {f"--{name}": getattr(arguments, name) for name in (*inputs, "prompts", "model_dir", "adapters")}
  outputs.keep_apart({"--out": arguments.out}, read)
  platforms.choose()
  inputs = _inputs(arguments)
  from xmcap.evaluation import embed

  with hosts.writing(arguments) as is_first:
    adapters = arguments.adapters or ""
    read = arguments.model_dir, arguments.step, arguments.weights
    embed.write(arguments.out, inputs, *read, adapters, base.say)
  if is_first:
    print(f"{arguments.out}: embeddings are ready")


def _inputs(arguments):
  from xmcap import wording
  from xmcap.data import features
  from xmcap.evaluation import embed, image_files
  from xmcap.pages.report import pictures
  from xmcap.ranked import prompts, retrieval, zero_shot

  codes = None if arguments.languages == languages.EVERY else arguments.languages
  reads_words = _reads_words(arguments)
  keys, captions, labels, templates, images, more = (), {}, {}, {}, {}, {}
  if arguments.corpus:
    of_corpus = embed.of_corpus(arguments.corpus, arguments.split, codes or ())
    captions, images = of_corpus.captions, of_corpus.images
    more = {"read": of_corpus.read, "tokenized": of_corpus.tokenized}
  if arguments.captions:
    keys, captions = retrieval.read_captions(arguments.captions, codes, arguments.language)
  if arguments.predictions:
    more["predictions"] = _predictions(arguments.predictions, codes, arguments.language)
  if arguments.labels:
    labels = zero_shot.read_labels(arguments.labels, arguments.languages, base.say)
  if arguments.prompts:
    templates = prompts.read_prompts(arguments.prompts)
    for line in prompts.unmatched(templates, labels):
      base.say(f"{arguments.prompts}: {line}")
  if arguments.images and keys:
    files = pictures.find_all(arguments.images, keys)
    missing = [key for key in keys if key not in files]
    if missing:
      raise UsageError(
        f"{arguments.images}: no pictures of {wording.first_few(missing)}, which {arguments.captions} has captions of"
      )
    images = {key: str(files[key]) for key in keys}
  elif arguments.images:
    paths = image_files.find([arguments.images])
    images = dict(zip(image_files.keys(paths, "key"), paths, strict=True))
  if reads_words and arguments.features:
    # The keys of the pictures take the place of their files.
    images = {key: key for key in images or keys or features.read(arguments.features).keys}
    more["features"] = arguments.features
  elif reads_words:
    images = {}
  return embed.Inputs(images, captions, labels, templates, prefix=arguments.prefix, **more)


def _predictions(paths, codes, language):
  """Returns language code -> the distinct captions of all files that are not empty."""
  from xmcap.reading.predictions import read_predictions

  texts: dict[str, dict[str, None]] = {}
  for path in paths:
    for of_image in read_predictions(path, language).values():
      for code, text in of_image.items():
        texts.setdefault(code, {}).update({text: None} if text.strip() else {})
  by_language = {
    code: tuple(of_language) for code in languages.ordered(texts) if (of_language := texts[code])
  }
  return languages.choose(by_language, codes, ", ".join(paths), "predictions")


def _reads_words(arguments) -> bool:
  """Whether the model is a Word2VisualVec; UsageError if the options do not fit the model."""
  from xmcap.models import model_json

  reads = "words" in model_json.of_folder(arguments.model_dir).parts
  if reads and arguments.images:
    raise UsageError(
      f"{arguments.model_dir}: a Word2VisualVec sees no pictures: give their stored --features, not --images"
    )
  if reads and arguments.prefix:
    raise UsageError(f"{arguments.model_dir}: a Word2VisualVec reads single words: leave --prefix out")
  if not reads and arguments.features:
    raise UsageError(f"{arguments.model_dir} sees pictures: leave --features out")
  return reads
