"""The commands about retrieval from matrices of scores: retrieval scores, retrieval fuse."""

from xmcap.commands import base
from xmcap.errors import UsageError
from xmcap.storage import outputs


def add(commands) -> None:
  """Declares the commands."""
  actions = base.add_group(
    commands, "retrieval", "ACTION", "matrices of scores: make one from embeddings, fuse two"
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
  base.text(command, "--out", "FILE.npy", out, short="-o", required=True)
  command = base.add_command(
    actions, "fuse", _fuse, "fuse two matrices of scores: w times the first and 1 - w times the second",
    "w is the one of 0, .01, ... .99 with the highest MRR on validation; the test matrices are not read for it. Writes "
    "FUSED.npy, and FUSED.json with w and the MRR of every w.",
  )  # fmt: skip
  scores = "[queries, candidates], float32 .npy; give it twice"
  validation = "the same two of the validation set; give it twice, in the same order"
  targets = "the right candidate of each query of validation: an index a line, or .npy; default: the diagonal"
  base.text(command, "--scores", "FILE.npy", scores, [], action="append", short="-s", required=True)
  base.text(command, "--validation_scores", "FILE.npy", validation, [], action="append", required=True)
  base.text(command, "--validation_targets", "FILE", targets)
  base.text(command, "--out", "FUSED.npy", "the matrix to write", short="-o", required=True)


def _scores(arguments) -> None:
  from xmcap.scoring.ranked import score_matrices
  from xmcap.scoring.reading import embedding_files

  _check_name(arguments.out)
  read = {"--queries": arguments.queries, "--candidates": arguments.candidates}
  outputs.keep_apart({"--out": arguments.out}, read)
  with outputs.held(arguments.out, arguments.prog, folder=False):
    queries, candidates = (embedding_files.read(path) for path in read.values())
    score_matrices.write_similarities(arguments.out, queries, candidates, arguments.similarity)
  print(f"{arguments.out}: scores of {len(queries):,} queries and {len(candidates):,} candidates")


def _check_name(out: str) -> None:
  if not out.endswith(".npy"):
    raise UsageError(f"--out={out}: a matrix is written as .npy; give such a name")


def _fuse(arguments) -> None:
  from xmcap.scoring.ranked import fusion, score_matrices

  named = {"--scores": arguments.scores, "--validation_scores": arguments.validation_scores}
  for option, paths in named.items():
    if len(paths) != 2:
      raise UsageError(f"{option}: given {len(paths)} times; two matrices are fused: give it twice")
  _check_name(arguments.out)
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
