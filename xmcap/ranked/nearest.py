"""The sentences of a pool that are nearest to each picture: what `xmcap human annotate` suggests.

Li et al., "COCO-CN for Cross-Lingual Image Tagging, Captioning and Retrieval" (2019), section III: an annotator sees
the five sentences, of a pool of machine-translated ones, whose vectors have the highest cosine with the picture's.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from xmcap.ranked import score_matrices
from xmcap.reading import embedding_rows
from xmcap.reading.embedding_rows import Embeddings


def nearest(
  queries: Embeddings, candidates: Embeddings, texts: Sequence[str], count: int, similarity: str = "cosine"
) -> Iterator[list[tuple[str, float]]]:
  """Yields the nearest different sentences of each query with their similarities, best first.

  A sentence that occurs several times counts once, with its first embedding; of equally near ones the first leads.

  Args:
    queries: [Q, D].
    candidates: [C, D], the embeddings of the sentences.
    texts: the C sentences.
    count: how many for each query; fewer if there are fewer different ones.
    similarity: as for `score_matrices.similarities`, which also gives the errors.
  """
  first: dict[str, int] = {}
  for place, text in enumerate(texts):
    first.setdefault(text, place)
  places = np.array(sorted(first.values()))
  if len(places) < len(candidates):
    candidates = embedding_rows.taken(candidates, places)
  count = min(count, len(places))
  for scores in score_matrices.similarities(queries, candidates, similarity):
    last = np.partition(scores, -count, axis=1)[:, -count]
    for row, least in zip(scores, last, strict=True):
      best = np.flatnonzero(row >= least)
      best = best[np.argsort(-row[best], kind="stable")][:count]
      yield [(texts[int(places[place])], float(row[place])) for place in best]
