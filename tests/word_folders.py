"""Folders of words with vectors, as `xmcap data words` writes them."""

import numpy as np

from xmcap.data.features import Features
from xmcap.families.word2visualvec import words


def write(folder, width=3, **of_languages) -> str:
  """`of_languages`: code -> words. The vectors are drawn."""
  folder.mkdir(parents=True, exist_ok=True)
  for code, names in of_languages.items():
    vectors = np.random.default_rng(len(names)).normal(size=(len(names), width)).astype(np.float32)
    words.write(folder, code, Features(tuple(names), vectors), {})
  return str(folder)
