"""The command that tags new pictures with a trained tagger."""

from collections.abc import Iterator, Mapping

from xmcap import platforms
from xmcap.commands import base, image_results
from xmcap.errors import UsageError
from xmcap.files import outputs


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
  image_results.add(command, "the tags", {".jsonl": "for other commands"})
  features = "stored features of the pictures, for a tagger that was trained on such; tags all that are in it"
  base.text(command, "--features", "PATH", features)
  images = "pictures, folders of them, or patterns such as 'photos/**/*.jpg'"
  base.text(command, "images", "IMAGE", images, type=base.address, nargs="*")


def _tag(arguments) -> None:
  platforms.choose()
  if bool(arguments.images) == bool(arguments.features):
    raise UsageError("give pictures, or --features for a tagger that was trained on stored features")
  from xmcap.data import features
  from xmcap.evaluation import image_files

  broken: set[str] = set()
  files = image_files.find(arguments.images)
  as_lines = arguments.json or bool(arguments.out)
  keys = image_files.keys(files, arguments.keys if as_lines else "path")
  outputs.keep_apart({"--out": arguments.out}, {"IMAGE": list(files), "--features": arguments.features})
  from xmcap.families.tagging.image_tags import ImageTagger

  tagger = ImageTagger(arguments.model_dir, arguments.step, arguments.weights)
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
    load = image_files.Loader(dict(zip(keys, files, strict=True)), tagger.image_size)
    broken = load.broken
  predicted = tagger(keys, load, arguments.languages or (), arguments.most)
  tagged = ((key, tags) for key, tags in predicted if key not in broken)
  image_results.deliver(arguments, tagged, {".jsonl": _lines}, _text, "pictures tagged", len(keys))
  image_results.check_whole(len(broken), len(keys))


def _lines(tagged: image_results.Results) -> Iterator[str]:
  from xmcap.reading import tag_files

  for key, of_image in tagged:
    for language, tags in of_image.items():
      yield tag_files.as_line(key, language, tags)


def _text(tags: Mapping[str, float]) -> str:
  return "  ".join(f"{tag} {score:.2f}" for tag, score in tags.items())
