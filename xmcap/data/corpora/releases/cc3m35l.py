"""CC3M-35L: Conceptual Captions with captions in English and, machine translated, in 34 more languages.

Thapliyal et al., "Crossmodal-3600" (EMNLP 2022), section 4. `rec_num` of a line of captions counts the lines of the
published TSV from 1; a record's key is that number in eight digits, and the records are in its order. Pictures are
found by their addresses where img2dataset kept them, and by `rec_num` otherwise. Many addresses are dead: how many
pictures were found, missing and broken is part of the result.
"""

import os
import pathlib
from collections.abc import Iterator

from xmcap.data.corpora import build, listing
from xmcap.data.corpora.pictures import open_pictures
from xmcap.data.corpora.releases import translated
from xmcap.data.corpora.releases.translations import Cc3mIds

NAME = "cc3m_35l"
VERSION = "1.0.0"
DESCRIPTION = (
  "Conceptual Captions with captions in 35 languages, 34 of them by machine translation; one record an image."
)


def corpus(
  *,
  train_captions: str | os.PathLike,
  dev_captions: str | os.PathLike,
  train_tsv: str | os.PathLike,
  dev_tsv: str | os.PathLike,
  train_images: str | os.PathLike,
  dev_images: str | os.PathLike,
  train_keys: str | os.PathLike | None = None,
  dev_keys: str | os.PathLike | None = None,
) -> build.Corpus:
  """The corpus, for `build.build`.

  Args:
    train_captions, dev_captions: cc3m_mt_train.jsonl and cc3m_mt_dev.jsonl, or .bz2 or .gz.
    train_tsv, dev_tsv: the published lists, `caption<TAB>url`.
    train_images, dev_images: what img2dataset left (tars or files), or folders or archives of pictures.
    train_keys, dev_keys: for pictures under other names: `rec_num<TAB>file` or `url<TAB>file`.
  """
  given = {
    "train_captions": train_captions,
    "dev_captions": dev_captions,
    "train_tsv": train_tsv,
    "dev_tsv": dev_tsv,
    "train_images": train_images,
    "dev_images": dev_images,
    "train_keys": train_keys,
    "dev_keys": dev_keys,
  }
  inputs = {role: pathlib.Path(path) for role, path in given.items() if path is not None}

  def splits(work: build.Work) -> Iterator[build.Split]:
    for name, short in (("train", "train"), ("validation", "dev")):
      listed = translated.write_listing(work, name, listing.read_tsv(inputs[f"{short}_tsv"]))
      places = [inputs[f"{short}_images"]]
      pictures = open_pictures(
        places,
        work.folder / f"pictures-{name}",
        key_map=inputs.get(f"{short}_keys"),
        problems=work.problems,
        say=work.say,
      )
      captions = inputs[f"{short}_captions"]
      yield translated.read_split(work, name, captions, listed, Cc3mIds(listed.count), places, pictures)

  return build.Corpus(NAME, VERSION, DESCRIPTION, inputs, lambda work: list(splits(work)))
