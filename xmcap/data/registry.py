"""Corpora and mixtures by name, from which streams and seqio's tasks take records, languages, rates and vocabularies.

  corpus = registry.register_corpus("emoji36", languages=("en", "th"))
  registry.registration("emoji36").vocabulary()

Gin gives the location of a corpus, which is needed only for reading:

  emoji36.data_dir = "/data/emoji36"
  emoji36.vocabulary = "/data/emoji36/vocabulary.model"

Importing the package registers all its gin configurables: t5x allows no more of them once it has read the gin files.
"""

import wrapt

from xmcap.data.registered_corpora import (
  CorpusPart,
  Location,
  RegisteredCorpus,
  Registration,
  register_built,
  register_corpus,
  register_own,
  register_part,
)
from xmcap.data.registered_mixtures import (
  Part,
  number_of_tags,
  register_mixture,
  registration,
  vocabulary_rows,
)

__all__ = [
  "CorpusPart",
  "Location",
  "Part",
  "RegisteredCorpus",
  "Registration",
  "number_of_tags",
  "register_built",
  "register_corpus",
  "register_mixture",
  "register_own",
  "register_part",
  "registration",
  "vocabulary_rows",
]

wrapt.register_post_import_hook("xmcap.data.seqio_tasks:mirror", "seqio")
