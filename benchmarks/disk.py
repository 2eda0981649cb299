"""Disk that a built COCO-35L takes, against its pictures and captions alone, and against one split a language.

usage: python benchmarks/disk.py [--pictures=200]
Pictures are generated photographs of about 160 kB, as COCO's are, all different; five captions each in 35 languages.
"Captions compressed" are the texts with their languages, JSON lines, compressed by bz2. The other layout is what its
peers have: for each language a split of its own, whose records hold the picture again with that language's captions;
written with the same writer and measured on disk.
"""

import argparse
import bz2
import functools
import json
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from benchmarks import large_release, report
from xmcap.corpora.building import build
from xmcap.corpora.building.options import Options
from xmcap.corpora.releases import coco35l
from xmcap.data import record_writer, records
from xmcap.languages import TRAINED


def of_language(corpus: pathlib.Path, language: str):
  """The records of a split with the captions of one language."""
  for record in records.RecordSource(corpus, "train"):
    captions = [caption for caption in record.captions if caption.language == language]
    yield records.Record(record.key, record.image, captions)


def compressed_captions(corpus: pathlib.Path) -> int:
  """Bytes of all captions of the training split, compressed."""
  packer = bz2.BZ2Compressor()
  size = 0
  for record in records.RecordSource(corpus, "train"):
    captions = [(caption.language, caption.text) for caption in record.captions]
    line = json.dumps({"key": record.key, "captions": captions}, ensure_ascii=False)
    size += len(packer.compress(line.encode() + b"\n"))
  return size + len(packer.flush())


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument("--pictures", type=int, default=200)
  pictures = parser.parse_args().pictures
  with tempfile.TemporaryDirectory() as temporary:
    folder = pathlib.Path(temporary)
    release = large_release.write_coco35l(
      folder / "release",
      5 * pictures,
      pictures="folder",
      photographs=large_release.Photographs(distinct=min(pictures, 64)),
    )
    corpus = coco35l.Coco35l(
      train_captions=release / "coco_mt_train.jsonl.bz2",
      dev_captions=release / "coco_mt_dev.jsonl.bz2",
      karpathy=release / "dataset_coco.json",
      train_images=release / "train2014",
      val_images=release / "val2014",
    )
    build.build(corpus, folder / "built", Options())
    built = sum(path.stat().st_size for path in (folder / "built").glob("coco_35l-train*"))
    images = sum(path.stat().st_size for path in (release / "train2014").iterdir())
    count = sum(1 for _ in (release / "train2014").iterdir())
    captions = compressed_captions(folder / "built")
    by_language = 0
    for language in TRAINED:
      # One at a time, so that this needs no disk for 35 copies.
      out = folder / "split"
      record_writer.write_split(
        out,
        f"train_{language}",
        [language],
        functools.partial(of_language, folder / "built"),
        dataset="coco_35l",
        processes=1,
      )
      for path in out.iterdir():
        by_language += path.stat().st_size
        path.unlink()
    print(f"training split, {count:,} pictures, {175 * count:,} captions in {len(TRAINED)} languages")
    print(f"  pictures                        {images / 1e6:10.2f} MB")
    print(f"  captions compressed             {captions / 1e6:10.2f} MB")
    print(f"  built, one record an image      {built / 1e6:10.2f} MB")
    print(f"  one split a language            {by_language / 1e6:10.2f} MB")
    print(f"built / (pictures + captions compressed): {built / (images + captions):.3f}")
    print(f"one split a language / built: {by_language / built:.1f}")
    report.write(
      "disk",
      "Disk space of COCO-35L",
      [
        ("pictures, MB", f"{images / 1e6:.1f}"),
        ("captions compressed, MB", f"{captions / 1e6:.1f}"),
        ("built, one record per image, MB", f"{built / 1e6:.1f}"),
        ("one split per language, MB", f"{by_language / 1e6:.1f}"),
        ("built corpus / (pictures + compressed captions)", f"{built / (images + captions):.2f}"),
        ("one split per language / built corpus", f"{by_language / built:.1f}"),
      ],
      notes=[f"{count:,} generated pictures of {images / count / 1e3:.0f} kB, 175 captions each."],
    )


if __name__ == "__main__":
  main()
