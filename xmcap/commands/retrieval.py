"""The commands about retrieval: retrieval scores, retrieval fuse, retrieval top."""

import json
import os
import re
from collections.abc import Iterator

from xmcap import languages
from xmcap.commands import base
from xmcap.errors import UsageError
from xmcap.files import outputs


def add(commands) -> None:
  """Declares the commands."""
  actions = base.add_group(
    commands,
    "retrieval",
    "ACTION",
    "matrices of scores: make one from embeddings, fuse two; nearest sentences",
  )
  command = base.add_command(
    actions, "scores", _scores, "write the matrix of scores of queries and candidates, from their embeddings",
    "`xmcap score retrieval --scores` and `xmcap retrieval fuse` read the matrix.",
  )  # fmt: skip
  forms = "[rows, width] as .npy, or .safetensors with one tensor"
  base.text(command, "--queries", "FILE", f"embeddings of the queries: {forms}", short="-q", required=True)
  base.text(command, "--candidates", "FILE", "embeddings of the candidates", short="-c", required=True)
  base.add_similarity(command)
  out = "the matrix to write, [queries, candidates]"
  base.text(command, "--out", "FILE.npy", out, short="-o", endings=(".npy",), required=True)
  command = base.add_command(
    actions, "fuse", _fuse, "fuse two matrices of scores: w times the first and 1 - w times the second",
    "w is the one of 0, .01, ... .99 with the highest MRR on validation; the test matrices are not read for it. Writes "
    "FUSED.npy, and FUSED.json with w and the MRR of every w.",
  )  # fmt: skip
  scores = "[queries, candidates], float32 .npy: two of them"
  validation = "the same two of the validation set, in the same order"
  targets = "the right candidate of each query of validation: an index a line, or .npy; default: the diagonal"
  base.text(command, "--scores", "FILE.npy", scores, short="-s", required=True, **base.SEVERAL)
  base.text(command, "--validation_scores", "FILE.npy", validation, required=True, **base.SEVERAL)
  base.text(command, "--validation_targets", "FILE", targets)
  fused = "the matrix to write"
  base.text(command, "--out", "FUSED.npy", fused, short="-o", endings=(".npy",), required=True)
  command = base.add_command(
    actions, "top", _top, "write the nearest sentences of a pool for each picture, for human annotate --sentences",
    'Lines of {"image/key", "language", "caption", "score"}, the best first; equal sentences count once.',
  )  # fmt: skip
  images = (
    "the pictures' vectors with their keys: a folder with pictures.npy and keys.txt, as `xmcap embed` writes it, or "
    "what `xmcap features` writes"
  )
  texts = (
    f"embeddings of the sentences, in their order: {forms}, or a BigFile folder with ids sent0, sent1, ..."
  )
  sentences = "the pool, as for `xmcap embed --captions`: a text has one a line"
  base.text(command, "--queries", "PATH", images, short="-q", required=True)
  base.text(command, "--candidates", "FILE", texts, short="-c", required=True)
  base.text(command, "--sentences", "FILE", sentences, required=True)
  base.text(command, "--language", "CODE", "of the sentences, such as zh", short="-l", required=True)
  base.number(command, "--k", "sentences for each picture", 5, least=1, most=1_000)
  base.add_similarity(command)
  out = "the lines to write, as JSONL"
  base.text(command, "--out", "FILE", out, short="-o", endings=(".jsonl",), required=True)


def _scores(arguments) -> None:
  from xmcap.ranked import score_matrices
  from xmcap.reading import embedding_files

  read = {"--queries": arguments.queries, "--candidates": arguments.candidates}
  outputs.keep_apart({"--out": arguments.out}, read)
  with outputs.held(arguments.out, arguments.prog, folder=False):
    queries, candidates = (embedding_files.read(path) for path in read.values())
    score_matrices.write_similarities(arguments.out, queries, candidates, arguments.similarity)
  print(f"{arguments.out}: scores of {len(queries):,} queries and {len(candidates):,} candidates")


def _top(arguments) -> None:
  language = languages.get(arguments.language).code
  from xmcap import wording
  from xmcap.data import features
  from xmcap.files import files
  from xmcap.ranked import retrieval, score_matrices
  from xmcap.reading import inputs

  read = {f"--{name}": getattr(arguments, name) for name in ("queries", "candidates", "sentences")}
  inputs.check_pipes({"--sentences": arguments.sentences})
  outputs.keep_apart({"--out": arguments.out}, read)
  with outputs.held(arguments.out, arguments.prog, folder=False):
    _, captions = retrieval.read_captions(arguments.sentences, [language], language)
    texts = captions[language].texts
    candidates = _pool(arguments.candidates)
    if len(candidates) != len(texts):
      raise UsageError(
        f"{arguments.candidates}: {wording.count(len(candidates), 'embedding')} for "
        f"{wording.count(len(texts), 'sentence')}"
        f" in '{language}' of {arguments.sentences}; embed that file"
      )
    images = features.read(arguments.queries)
    neighbours = score_matrices.nearest(images.vectors, candidates, texts, arguments.k, arguments.similarity)
    rows = zip(images.keys, neighbours, strict=True)

    def lines() -> Iterator[str]:
      for key, of_image in base.reporting(rows, "pictures", len(images.keys)):
        for text, score in of_image:
          row = {"image/key": key, "language": language, "caption": text, "score": round(score, 6)}
          yield json.dumps(row, ensure_ascii=False) + "\n"

    files.write_lines(arguments.out, lines())
  print(
    f"{arguments.out}: {arguments.k} of {wording.count(len(set(texts)), 'different sentence')} for each of "
    f"{wording.count(len(images.keys), 'picture')}"
  )


def _pool(path: str):
  """Returns the embeddings of a pool, [C, D], in the order of its sentences."""
  import numpy as np

  from xmcap.data import features
  from xmcap.reading import embedding_files, embedding_rows

  if not os.path.isdir(path):
    return embedding_files.read(path)
  stored = features.read(path)
  # COCO-CN's annotation system takes the number in a sentence's id as that of its line, from 0.
  places = {
    int(match[0]): row for row, key in enumerate(stored.keys) if (match := re.search("[0-9]{1,18}$", key))
  }
  if sorted(places) != list(range(len(stored.keys))):
    raise UsageError(
      f"{path}: its ids do not number the sentences from 0, as sent0, sent1, ...; give the embeddings as .npy in the "
      "order of the sentences"
    )
  rows = np.array([places[number] for number in range(len(places))])
  return embedding_rows.taken(embedding_rows.stored(stored.vectors, path), rows)


def _fuse(arguments) -> None:
  from xmcap.ranked import fusion, score_matrices

  named = {"--scores": arguments.scores, "--validation_scores": arguments.validation_scores}
  for option, paths in named.items():
    if len(paths) != 2:
      raise UsageError(f"{option} names {len(paths)} files; two matrices are fused: give two")
  read = {**named, "--validation_targets": arguments.validation_targets}
  outputs.keep_apart({"--out": [arguments.out, fusion.json_of(arguments.out)]}, read)
  with outputs.held(arguments.out, arguments.prog, folder=False):
    # Headers alone, so that a wrong shape is known before the work begins.
    first, second = map(score_matrices.open_matrix, arguments.scores)
    fusion.check_shapes(first, second)
    ours, others = map(score_matrices.open_matrix, arguments.validation_scores)
    targets = score_matrices.read_targets(arguments.validation_targets, ours, "--validation_targets")
    choice = fusion.choose(ours, others, targets)
    fusion.write(arguments.out, first, second, choice)
  print(
    f"w {choice.weight:.2f}: MRR {choice.best:.4f} on {choice.queries:,} queries of validation; the second matrix "
    f"alone (w 0) has {choice.mrr[0]:.4f}"
  )
