"""The command `xmcap data words`."""

import pathlib

from xmcap import languages
from xmcap.commands import base
from xmcap.errors import UsageError
from xmcap.storage import outputs


def add(actions) -> None:
  """Declares the command."""
  command = base.add_command(
    actions, "words", _run, "collect the frequent words of a corpus, with word vectors, for runs/w2vv.gin",
    "The vectors are trained on the captions by gensim (pip install 'xmcap[words]'), or read from a file.",
  )  # fmt: skip
  base.text(command, "dir", "DIR", "a built corpus")
  out = "folder for CODE.safetensors of each language"
  base.text(command, "--out", "DIR", out, short="-o", required=True)
  codes = "of the captions, separated by commas"
  base.text(command, "--languages", "CODES", codes, "zh", type=languages.parse)
  base.text(command, "--split", "NAME", "of the captions, such as train or train+train_mt", "train")
  base.text(command, "--sources", "NAMES", "of the captions: human, translated, mt; default: all sources", "")
  base.number(command, "--least", "minimum number of occurrences of a word", 5, least=1)
  vectors = "word2vec's text, or .safetensors as of this command: the vectors, which are then not trained"
  base.text(command, "--vectors", "FILE", vectors)
  base.number(command, "--width", "numbers of a trained vector", 500, least=1)
  base.number(command, "--epochs", "passes over the captions in training", 10, least=1)
  base.number(command, "--seed", "random seed of the training", 0)


def _run(arguments) -> None:
  from xmcap.data import parts, words
  from xmcap.data.corpora import word_vectors
  from xmcap.scoring.grid import Grid
  from xmcap.storage import files

  sources = [name for name in arguments.sources.split(",") if name]
  parts.check_sources(sources, "--sources")
  if arguments.vectors and len(arguments.languages) > 1:
    raise UsageError("--vectors has the words of one language: give one of --languages at a time")
  outputs.keep_apart({"--out": arguments.out}, {"DIR": arguments.dir, "--vectors": arguments.vectors})
  found = word_vectors.count_words(
    arguments.dir, arguments.split, arguments.languages, sources, arguments.least
  )
  out = pathlib.Path(arguments.out)
  rows, absent = [], 0
  with outputs.held(out, arguments.prog), outputs.together(out):
    files.make_folder(out)
    for code, vocabulary in found.items():
      if arguments.vectors:
        made, absent = word_vectors.take(arguments.vectors, vocabulary)
        origin = {"vectors": arguments.vectors}
      else:
        made = word_vectors.train(vocabulary, arguments.width, arguments.epochs, arguments.seed)
        settings = f"epochs={arguments.epochs},seed={arguments.seed}"
        origin = {"vectors": f"word2vec on {arguments.split}, {settings}"}
      words.write(out, code, made, {**origin, "least": str(arguments.least)})
      rows.append(
        (
          code, f"{len(vocabulary.captions):,}", f"{len(made.keys):,}", f"{vocabulary.coverage:.1%}",
          f"{vocabulary.unknown:,}", f"{made.vectors.shape[1]:,}",
        )
      )  # fmt: skip
  headings = ("language", "captions", "words", "of all words", "captions without a word", "vector width")
  print(Grid(headings, tuple(rows)).text())
  if absent:
    print(f"{arguments.vectors} has no vector of {absent:,} words, whose vectors are zeros")
  print(f"{out}: words and their vectors in {', '.join(found)}")
