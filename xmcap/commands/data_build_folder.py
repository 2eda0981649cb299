"""`xmcap data build folder`: builds a corpus of the user's own pictures."""

import pathlib
import re

from xmcap import languages, wording
from xmcap.commands import base, build_options
from xmcap.corpora.building.file_names import FOLDER
from xmcap.errors import UsageError
from xmcap.files import outputs

_TRAINED = re.compile("train:([1-9][0-9]{2,6})")


def add(corpora) -> None:
  """Declares the command."""
  command = base.add_command(
    corpora, "folder", _build, "your own pictures and captions",
    "Reads JSONL, CSV, TSV, COCO's JSON, workbooks, WebDataset tars, Parquet and Hugging Face datasets, as "
    "docs/own_data.md lists. "
    "A build that was killed resumes when it is started again.",
    extra="train",
  )  # fmt: skip
  vocabulary = "train:N for a new vocabulary of N tokens, or the file of a SentencePiece model"
  shares = (
    "column:NAME, folder (by names of folders and files), or shares such as train:0.9,validation:0.05,test:0.05; "
    "default: what a column or all files name, else these shares"
  )
  base.text(command, "--captions", "PATH", FOLDER["captions"].text, required=True, action="extend", nargs="+")
  base.text(command, "--images", "PATH", FOLDER["images"].text)
  base.text(command, "--out", "DIR", "folder for the corpus", required=True)
  base.text(command, "--vocabulary", "HOW", vocabulary, "")
  base.text(command, "--splits", "RULE", shares, "")
  base.text(command, "--language", "CODE", "language of captions without one, such as en or pt-BR", "")
  base.add_columns(command)
  build_options.add(
    command,
    "merge (the default: one record with all captions, so that no test picture is trained on), keep or refuse",
  )


def _build(arguments) -> None:
  base.check_local({f"--{name}": getattr(arguments, name) for name in ("captions", "images", "out")})
  trained = _TRAINED.fullmatch(arguments.vocabulary)
  if arguments.vocabulary.startswith("train:") and not trained:
    size = arguments.vocabulary.removeprefix("train:")
    wrong = f"{size} tokens are too {'many' if len(size) > 2 else 'few'}" if size.isdecimal() else "no number"
    raise UsageError(
      f"--vocabulary={arguments.vocabulary}: {wrong}: give train:N with N from 100 to 9999999 (some hundreds for a few "
      "pictures, 8000 for thousands), or the file of a model"
    )
  read = {"--captions": arguments.captions, "--images": arguments.images}
  outputs.keep_apart({"--out": arguments.out}, read)
  with outputs.held(arguments.out, arguments.prog):
    _build_held(arguments, int(trained[1]) if trained else 0)


def _code(written: str) -> str:
  """Returns the code of --language, which may be an alias or a name; UsageError if it is unknown."""
  return languages.named(written) or languages.get(written).code


def _build_held(arguments, trained: int) -> None:
  """Builds the corpus, and trains a vocabulary of `trained` tokens, or keeps the given one if that is 0."""
  from xmcap.corpora.folder import own
  from xmcap.corpora.folder.split_choice import SplitRule
  from xmcap.data import length_index, records
  from xmcap.data.vocabulary import Vocabulary, train_on_records
  from xmcap.files import files

  vocabulary = Vocabulary(arguments.vocabulary) if arguments.vocabulary and not trained else None
  columns = base.column_names(arguments, arguments.language and _code(arguments.language))
  images = pathlib.Path(arguments.images) if arguments.images else None
  corpus = own.Folder(arguments.captions, images, columns, SplitRule(arguments.splits))
  report = build_options.build(arguments, corpus)
  for split, machine in own.write_references(report.out, report.splits).items():
    left = wording.count(machine, "machine translation")
    print(f"note: {split}/captions.jsonl is without {left}: references are people's")
  path = report.out / "vocabulary.model"
  if not path.exists():
    if vocabulary is not None:
      files.write_bytes(path, vocabulary.model)
    elif trained:
      try:
        train_on_records(str(report.out), str(path), trained)
      except UsageError as error:
        raise UsageError(f"--vocabulary={arguments.vocabulary}: {error}; the records are built") from None
  elif vocabulary is not None and Vocabulary(str(path)).sha256 != vocabulary.sha256:
    raise UsageError(f"{path} differs from {vocabulary.path}: remove it, or leave --vocabulary out")
  codes = records.read_languages(report.out)
  print(f"languages: {' '.join(codes)}")
  for language in codes:
    if language not in languages.LANGUAGES:
      name = languages.get(language).english_name
      print(
        f"note: {language} ({name}) is not one of the 36 languages: it uses default rules for words, "
        "and is not identified"
      )
  if not path.exists():
    print(
      f"no vocabulary: train one with xmcap data vocabulary {report.out}, or give mT5's with --gin.VOCABULARY=PATH"
    )
    return
  model = Vocabulary(str(path))
  length_index.write_absent(
    report.out, model, list(report.splits), processes=arguments.processes, say=base.say
  )
  fewer = "; the text of train has no more" if model.size < trained else ""
  print(f"vocabulary: {path}, {model.size:,} tokens{fewer}")
