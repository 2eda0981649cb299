"""Sizes of a model that follow from its corpus."""

import gin

from xmcap.data.records import read_tags
from xmcap.data.registry.mixtures import registration


@gin.configurable
def vocabulary_rows(mixture: str) -> int:
  """Returns the number of embedding rows for the vocabulary of a corpus: the vocab_size of a model for it.

  Args:
    mixture: name of the mixture.
  """
  return registration(mixture).vocabulary().rows


@gin.configurable
def number_of_tags(mixture: str) -> int:
  """Returns the number of tags of a corpus: the num_classes of a tagger for it.

  Args:
    mixture: name of the mixture.
  """
  return len(read_tags(registration(mixture).corpus.location().data_dir))
