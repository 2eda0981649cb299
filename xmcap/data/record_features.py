"""Stored vectors of images in the order of the records that they belong to."""

import os

from xmcap.data import features
from xmcap.data.features import Features
from xmcap.data.mixture import MixedSource
from xmcap.data.records import RecordSource, parse_columns, spread

_COMPARED = 1024  # records of a split


def of_source(path: str | os.PathLike, source: RecordSource | MixedSource) -> Features:
  """Returns the keys and vectors of the images of a split in the order of its records, D numbers each.

  The vectors stay memory-mapped if the file has them in this order, as `xmcap features --corpus` writes them. Only
  1,024 records of a large split are compared, because reading all of CC3M takes minutes: compare the key of each record
  that you read.

  Raises:
    UsageError: as `features.read`; or an image has no vector, and then the message counts and names them.
  """
  stored = features.read(path)
  sample = spread(source, _COMPARED)
  compared = [image.key for image in source.iterate(sample, parse_columns)]
  start = stored.keys.index(compared[0]) if compared[0] in stored.keys else 0
  end = start + len(source)
  in_order = Features(stored.keys[start:end], stored.vectors[start:end])
  if len(in_order.keys) == len(source) and compared == [in_order.keys[row] for row in sample]:
    return in_order
  keys = tuple(image.key for image in source.iterate(range(len(source)), parse_columns))
  return Features(
    keys, features.of_keys(stored, keys, str(path), f"split '{source.split}' of {source.directory}")
  )
