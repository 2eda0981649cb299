"""The command that tags new pictures with a trained tagger."""

from collections.abc import Iterator, Mapping

from xmcap import languages, platforms, terminal
from xmcap.commands import base
from xmcap.errors import UsageError, XmcapError
from xmcap.files import outputs

Tagged = Iterator[tuple[str, Mapping[str, Mapping[str, float]]]]
"""(key of a picture, {language: {tag: probability}})."""


def add(commands) -> None:
  """Declares the command."""
  command = base.add_command(
    commands, "tag", _tag, "tag pictures with a trained tagger, the most probable tags first",
    "The JSONL is for xmcap score tags, xmcap human annotate --tags and xmcap caption --tags.",
    extra="train",
  )  # fmt: skip
  base.add_model(command, "the folder of a run of runs/tag_mono.gin, tag_multitask.gin or tag_cascade.gin")
  base.add_languages(command, "of the tags; default: all of the tagger")
  base.number(command, "--most", "tags for each picture and language", 10, least=1)
  base.text(command, "--out", "FILE", "write the tags as JSONL", "", short="-o")
  base.flag(command, "--json", "print the tags as JSONL")
  base.add_keys(command)
  features = "stored features of the pictures, for a tagger that was trained on such; tags all that are in it"
  base.text(command, "--features", "PATH", features)
  images = "pictures, folders of them, or patterns such as 'photos/**/*.jpg'"
  base.text(command, "images", "IMAGE", images, type=base.address, nargs="*")


def _tag(arguments) -> None:
  platforms.choose()
  if bool(arguments.images) == bool(arguments.features):
    raise UsageError("give pictures, or --features for a tagger that was trained on stored features")
  from xmcap.data import features
  from xmcap.evaluation import picture_files

  broken: set[str] = set()
  files = picture_files.find(arguments.images)
  as_lines = arguments.json or bool(arguments.out)
  keys = picture_files.keys(files, arguments.keys if as_lines else "path")
  outputs.keep_apart({"--out": arguments.out}, {"IMAGE": list(files), "--features": arguments.features})
  from xmcap.families.tagging.picture_tags import PictureTagger

  tagger = PictureTagger(arguments.model_dir, arguments.step)
  if arguments.features:
    file = features.read(arguments.features)
    if tagger.image_size is not None:
      raise UsageError(f"{arguments.model_dir} sees pictures: name them, and leave --features out")
    if file.vectors.shape[1] != tagger.width:
      raise UsageError(
        f"{arguments.features}: width {file.vectors.shape[1]}, but {arguments.model_dir} was trained on {tagger.width}"
      )
    keys, places = list(file.keys), {key: place for place, key in enumerate(file.keys)}

    def load(key: str):
      return file.vectors[places[key]]

  elif tagger.image_size is None:
    raise UsageError(
      f"{arguments.model_dir} was trained on stored features: give those of the pictures, --features"
    )
  else:
    load = picture_files.Loader(dict(zip(keys, files, strict=True)), tagger.image_size)
    broken = load.broken
  predicted = tagger(keys, load, arguments.languages or (), arguments.most)
  tagged = ((key, tags) for key, tags in predicted if key not in broken)
  if arguments.out:
    with outputs.held(arguments.out, arguments.prog, folder=False):
      _write(arguments.out, tagged, len(keys))
  else:
    _print(tagged, arguments.json)
  if broken:
    raise XmcapError(f"{len(broken):,} of {len(keys):,} pictures left out, see above: replace or remove them")


def _lines(tagged: Tagged) -> Iterator[str]:
  from xmcap.reading import tag_files

  for key, of_image in tagged:
    for language, tags in of_image.items():
      yield tag_files.as_line(key, language, tags)


def _write(out: str, tagged: Tagged, count: int) -> None:
  from xmcap.files import files
  from xmcap.progress import Progress

  progress = Progress(base.say, "pictures tagged", count)

  def counted() -> Tagged:
    for done, of_image in enumerate(tagged, 1):
      yield of_image
      progress(done)

  files.write_lines(out, _lines(counted()))


def _print(tagged: Tagged, as_json: bool) -> None:
  if as_json:
    for line in _lines(tagged):
      terminal.check_reader()
      print(line, end="")
    return
  for key, of_image in tagged:
    terminal.check_reader()
    print(terminal.shown(key, limit=None))
    for language, tags in of_image.items():
      told = "  ".join(f"{tag} {score:.2f}" for tag, score in tags.items())
      print(f"  {language:<4} {languages.get(language).english_name:<14} {terminal.shown(told, limit=None)}")
