"""The command that writes vectors of pictures by a model's image tower."""

from xmcap import platforms
from xmcap.commands import base, hosts
from xmcap.errors import UsageError
from xmcap.files import outputs


def add(commands) -> None:
  """Declares the command."""
  command = base.add_command(
    commands, "features", _features, "write vectors of pictures by the image tower of a model",
    "The model is a captioner, a tagger or a dual tower. Streams read the vectors instead of pictures. Started again, "
    "it goes on where it was.",
    extra="train",
  )  # fmt: skip
  images = "files, folders and patterns, if there is no --corpus"
  out = "the file, or the folder for --format=bigfile"
  base.text(command, "pictures", "PICTURES", images, nargs="*", type=base.address)
  base.add_model(command, "a run's folder, or what `xmcap convert` wrote")
  base.text(command, "--out", "PATH", out, short="-o", required=True)
  base.text(command, "--corpus", "DIR", "a built corpus: the pictures of a split")
  base.text(command, "--split", "NAME", "of --corpus, such as train, train[:100] or train+val+test", "train")
  crops = "1: the picture as the model sees it; 10: the mean over corners, centre and their mirror images"
  base.text(command, "--crops", None, crops, "1", choices=("1", "10"))
  vectors = "the tower's own vector, or the mean over its patch tokens"
  base.text(command, "--vectors", None, vectors, "pooled", choices=("pooled", "mean"))
  form = "safetensors, or BigFile (feature.bin, id.txt, shape.txt)"
  base.text(command, "--format", None, form, "safetensors", choices=("safetensors", "bigfile"))
  on_bad = "stop at a picture that cannot be decoded, or leave it out"
  base.text(command, "--on_bad", None, on_bad, "stop", choices=("stop", "skip"))
  hosts.add(command)


def _features(arguments) -> None:
  if bool(arguments.corpus) == bool(arguments.pictures):
    raise UsageError("give either --corpus or pictures")
  in_folder = arguments.format == "bigfile"
  if not in_folder and not arguments.out.endswith(".safetensors"):
    raise UsageError(
      f"--out={arguments.out}: give a name with .safetensors, or --format=bigfile for a folder"
    )
  inputs = {"--model_dir": arguments.model_dir, "--corpus": arguments.corpus, "PICTURES": arguments.pictures}
  outputs.keep_apart({"--out": arguments.out}, inputs)
  platforms.choose()
  images, read = _pictures(arguments)
  from xmcap.evaluation import image_features

  with hosts.writing(arguments, folder=in_folder) as is_first:
    left_out = image_features.write(
      arguments.out, images, read, arguments.model_dir, arguments.step, arguments.weights,
      int(arguments.crops), arguments.vectors, arguments.format, arguments.on_bad == "skip", base.say,
    )  # fmt: skip
  if is_first:
    print(f"{arguments.out}: vectors of {len(images) - left_out:,} pictures are ready")


def _pictures(arguments):
  """Key -> picture, and the function that reads one."""
  from xmcap.data import records
  from xmcap.evaluation import image_files

  if arguments.corpus:
    source = records.RecordSource(arguments.corpus, arguments.split)
    keys = [record.key for record in source.iterate(range(len(source)), records.parse_columns)]
    return dict(zip(keys, map(str, range(len(keys))), strict=True)), lambda number: source[int(number)].image
  paths = image_files.find(arguments.pictures)
  return dict(zip(image_files.keys(paths, "key"), paths, strict=True)), image_files.read
