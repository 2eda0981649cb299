"""Fuzzing of 10,000 damaged images, records and lines: each is used, counted, or refused with a message."""

import bz2
import collections
import gzip
import json
import random

import numpy as np
import pytest
from PIL import Image

from tests.corpora import release_archives, release_lines, release_pictures
from tests.corpora import release_folders as releases
from tests.fuzz.byte_damage import mutate
from xmcap.corpora.building import build, image_check, image_search
from xmcap.corpora.building import options as options_lib
from xmcap.corpora.building.problems import KINDS, Problems
from xmcap.corpora.releases import coco35l, translations, xm3600
from xmcap.data import images, records
from xmcap.errors import UsageError, XmcapError
from xmcap.languages import LANGUAGES
from xmcap.reading import lines

# Pillow warns of damaged EXIF data; what counts here is that it neither fails nor lies.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

PICTURES = 3_000
RECORDS = 3_000
LINES = 3_000
XM3600_LINES = 1_000
ENGLISH_TOO = ("control_characters", "empty_caption", "long_caption")
"""Kinds that are counted for the English of a line too, once for all lines of a caption."""


def is_message(error: Exception, about: str = "") -> bool:
  """One line, not empty, that names what it is about."""
  text = str(error)
  return bool(text.strip()) and "\n" not in text and about in text


@pytest.fixture(scope="module")
def damaged_pictures() -> list[bytes]:
  spoilers = (
    *release_pictures.UNUSUAL.values(),
    *release_pictures.CONVERTED.values(),
    release_pictures.photo,
  )
  whole = [spoil(index) for index, spoil in enumerate(spoilers * 2)]
  rng = random.Random(1)
  return [mutate(whole[turn % len(whole)], whole, rng) for turn in range(PICTURES)]


def test_decoding_damaged_pictures(damaged_pictures):
  outcomes = collections.Counter()
  for data in damaged_pictures:
    try:
      pixels = images.decode(data, "the-key", at_least=8)
    except XmcapError as error:
      assert is_message(error, "'the-key'"), repr(error)
      outcomes["refused"] += 1
    else:
      assert pixels.dtype == np.uint8 and pixels.ndim == 3 and pixels.shape[2] == 3 and pixels.size
      outcomes["decoded"] += 1
  assert min(outcomes.values()) > PICTURES // 10, "the damage is too light or too heavy to tell anything"


def test_examining_damaged_pictures(damaged_pictures):
  outcomes = collections.Counter()
  for number, data in enumerate(damaged_pictures):
    picture = image_check.examine(data, "the-key", image_size=(None, 24)[number % 2])
    rule = KINDS[picture.kind].rule if picture.kind else "use"
    if picture.data:
      assert rule == "use"
      # What is stored, a record can hold and the stream can decode.
      records.check(records.Record("the-key", picture.data, [records.Caption("en", "a")]))
      images.decode(picture.data, "the-key")
      outcomes["used"] += 1
    else:
      assert rule == "skip" and picture.what.strip() and "\n" not in picture.what, picture
      outcomes[picture.kind] += 1
  assert sum(outcomes.values()) == PICTURES
  assert {"used", "truncated", "not_a_picture"} <= set(outcomes), outcomes


def test_parsing_damaged_records():
  rng = random.Random(2)
  whole = [
    records.serialize(
      records.Record(
        f"{index:012d}",
        release_pictures.photo(index)[:200],
        [records.Caption(code, f"text {index}", "tokens", "mt") for code in ("en", "th")[: index % 3]],
        ["tag"] * (index % 2),
        "de",
      )
    )
    for index in range(12)
  ]
  outcomes = collections.Counter()
  for turn in range(RECORDS):
    try:
      record = records.parse(mutate(whole[turn % len(whole)], whole, rng))
      records.check(record)
    except XmcapError as error:
      assert is_message(error, "record"), repr(error)
      outcomes["refused"] += 1
    except ValueError as error:
      assert str(error).startswith("not a record: ")
      outcomes["no record"] += 1
    else:
      assert records.parse(records.serialize(record)) == record
      outcomes["used"] += 1
  assert sum(outcomes.values()) == RECORDS
  assert len(outcomes) == 3


def _line(index: int) -> bytes:
  language = release_lines.TRANSLATED[index % 34]
  number = 1 + index % 5
  english = release_lines.english(index, number)
  translated = release_lines.translation(index, number, language)
  values = release_lines.line({"image_id": f"{1 + index % 7}_{number}"}, language, english, translated)
  return release_lines.dump(values, ascii=index % 2 == 0)


@pytest.fixture(scope="module")
def damaged_lines() -> list[bytes]:
  whole = [_line(index) for index in range(170)]
  rng = random.Random(3)
  damaged = [mutate(whole[turn % len(whole)], whole, rng) for turn in range(LINES)]
  # Lines without an end would run into the next: then the damage is to two of them, which is another test's.
  return [line.rstrip(b"\n") + b"\n" for line in damaged]


def _parse(batch: bytes) -> tuple[list[translations.CaptionRow], int, Problems]:
  problems = Problems()
  parser = translations.CocoParser("file", {number: number - 1 for number in range(1, 7)})
  captions, count = parser(batch, 2, problems)
  return captions, count, problems


def _translated(captions: list[translations.CaptionRow]) -> list[str]:
  return [caption.text for caption in captions if caption.source == translations.MT]


def _skipped(problems: Problems) -> int:
  return sum(count for kind, count in problems.counts.items() if KINDS[kind].rule == "skip")


def test_each_damaged_line_is_used_or_counted(damaged_lines):
  outcomes = collections.Counter()
  for line in damaged_lines:
    captions, count, problems = _parse(line)
    assert count == line.count(b"\n")
    pieces = [piece for piece in line.split(b"\n") if piece.strip(b" \t\r")]
    translated = len(_translated(captions))
    assert translated + _skipped(problems) >= len(pieces), line
    assert all(one.text.strip() and len(one.text.encode()) <= 10_000 for one in captions)
    assert not any(char < " " for one in captions for char in one.text)
    assert {one.picture for one in captions} <= set(range(6))
    outcomes["used"] += translated
    outcomes.update(problems.counts)
  assert {
    "used",
    "cut_line",
    "not_json",
    "bad_utf8",
    "missing_field",
    "unknown_language",
    "unknown_id",
  } <= set(outcomes)


def test_damaged_lines_parse_alike_together_and_alone(damaged_lines):
  together, count, problems = _parse(b"".join(damaged_lines))
  assert count == sum(line.count(b"\n") for line in damaged_lines)
  texts, counts = [], collections.Counter()
  for line in damaged_lines:
    alone, _, found = _parse(line)
    texts += _translated(alone)
    counts.update({kind: found.counts[kind] for kind in found.counts if kind not in ENGLISH_TOO})
  assert _translated(together) == texts
  assert {kind: n for kind, n in problems.counts.items() if kind not in ENGLISH_TOO} == counts


@pytest.mark.parametrize("packer, suffix", [(bz2, ".bz2"), (gzip, ".gz")])
def test_damaged_compressed_files_are_read_whole_or_refused(packer, suffix, tmp_path):
  text = b"".join(_line(index) for index in range(800))
  halves = text[:100_000], text[100_000:]
  whole = packer.compress(text, 1), b"".join(packer.compress(half, 1) for half in halves)
  rng = random.Random(4)
  refused = 0
  for turn in range(100):
    folder = tmp_path / str(turn)
    folder.mkdir()
    path = folder / f"x.jsonl{suffix}"
    path.write_bytes(mutate(whole[turn % 2], whole, rng))
    try:
      got = b"".join(piece for piece, _ in lines.chunks(path, 60_000))
    except XmcapError as error:
      assert is_message(error, str(path)), repr(error)
      refused += 1
    else:
      assert got == text
  assert refused > 50


def test_joined_lines_parse_alike_with_and_without_a_newline():
  two = _line(0)[:-1] + _line(1)
  alone, _, found = _parse(two)
  beside, _, found_beside = _parse(two + b"\n")
  assert alone == beside and found.counts == found_beside.counts


def test_parsing_damaged_lines_of_xm3600():
  keys = [f"{index:016x}" for index in range(6)]
  made = release_lines.xm3600_lines(keys, ["de"] * 6, (), usable=range(6), silent=(), rng=random.Random(0))
  rng = random.Random(5)
  outcomes = collections.Counter()
  for turn in range(XM3600_LINES):
    line = mutate(made.raw[turn % 6], made.raw, rng)
    for piece in filter(None, (piece.strip(b" \t\r") for piece in line.split(b"\n"))):
      problems = Problems()
      image = xm3600.parse_line(piece, "line 1", problems)
      outcomes.update(problems.counts)
      if image is None:
        assert _skipped(problems) == 1, piece
        continue
      outcomes["used"] += 1
      given = [
        texts.get("caption") for code, texts in json.loads(piece).items() if code in LANGUAGES and texts
      ]
      assert len(image.captions) + _skipped(problems) >= sum(len(texts or ["no list"]) for texts in given)
      records.check(records.Record(image.key, release_pictures.photo(0), image.captions))
      records.serialize(records.Record(image.key, b"", [], locale=image.locale))
  assert {"used", "cut_line", "not_json", "bad_utf8", "missing_field"} <= set(outcomes)


def test_damaged_zip_and_tar_archives_are_refused_or_counted(tmp_path):
  """A picture is found, or its archive is refused, or something is counted; a tar alone has no checksums."""
  files = {f"train2014/{index:03d}.jpg": release_pictures.photo(index)[:300] for index in range(8)}
  release_archives.write_zip(tmp_path / "train2014.zip", files, ())
  release_archives.write_tar(tmp_path / "images.tgz", files, (), "w:gz")
  archives = [(tmp_path / name).read_bytes() for name in ("train2014.zip", "images.tgz")]
  rng = random.Random(6)
  for turn in range(100):
    folder = tmp_path / str(turn)
    folder.mkdir()
    path = folder / ("train2014.zip", "images.tgz")[turn % 2]
    path.write_bytes(mutate(archives[turn % 2], archives[turn % 2 :][:1], rng))
    try:
      problems = Problems()
      found = image_search.ImageSearch.search(
        options_lib.BuildInProgress(folder / "work", problems=problems), [path]
      )
    except (XmcapError, UsageError) as error:
      assert is_message(error, str(path)), repr(error)
      continue
    for name, data in files.items():
      try:
        assert found.read(name) == data
      except KeyError:
        # Under a damaged name it is there still, and a build finds that it is missing.
        assert problems.counts or len(found) == len(files), f"{name} is gone without a word"
      except XmcapError as error:
        assert is_message(error), repr(error)


def test_tgz_with_a_flipped_bit_gives_no_wrong_image(tmp_path):
  """Pictures may not be given out as they never were: gzip's checksum covers all of a .tgz."""
  files = {f"{index:03d}.jpg": release_pictures.photo(index)[:300] for index in range(8)}
  release_archives.write_tar(tmp_path / "images.tgz", files, (), "w:gz")
  whole = (tmp_path / "images.tgz").read_bytes()
  for place in range(20, len(whole), len(whole) // 40):
    folder = tmp_path / str(place)
    folder.mkdir()
    (folder / "images.tgz").write_bytes(whole[:place] + bytes([whole[place] ^ 16]) + whole[place + 1 :])
    try:
      found = image_search.ImageSearch.search(
        options_lib.BuildInProgress(folder / "work"), [folder / "images.tgz"]
      )
    except XmcapError:
      continue
    assert all(found.read(name) == data for name, data in files.items())


@pytest.mark.parametrize("image_size", [None, 24])
def test_image_wider_than_jpeg_allows_is_used_or_skipped(image_size):
  data = release_pictures.encode(Image.new("L", (100_000, 30)), "PNG")
  picture = image_check.examine(data, "the-key", image_size=image_size)
  assert picture.data or KINDS[picture.kind].rule == "skip"


def test_build_uses_or_counts_every_damaged_line(tmp_path):
  """Every line is a caption of a record, or is counted, whatever became of it."""
  release = releases.write_coco35l(
    tmp_path / "release", images=8, captions=2, order="shuffled", compress=False
  )
  path = release.paths["train_captions"]
  whole = path.read_bytes().splitlines(keepends=True)
  rng = random.Random(7)
  damaged = b"".join(mutate(line, whole, rng) if rng.random() < 0.3 else line for line in whole)
  path.write_bytes(damaged)
  options = options_lib.Options(chunk_bytes=20_000, shard_pictures=3)
  corpus = coco35l.Coco35l(**release.paths)
  report = build.build(corpus, tmp_path / "out", options, processes=1)
  captions = [one for record in records.RecordSource(tmp_path / "out", "train") for one in record.captions]
  translated = sum(one.source == "mt" for one in captions)
  given = sum(bool(line.strip(b" \t\r")) for line in damaged.split(b"\n"))
  counts = report.problems.counts
  skipped = {kind: counts[kind] for kind in counts if KINDS[kind].rule == "skip"}
  assert report.splits["train"]["lines"] == damaged.count(b"\n") + (not damaged.endswith(b"\n"))
  assert translated + sum(skipped.values()) >= given
  # Of these the English of a line is counted too, beside the line.
  assert translated + sum(n for kind, n in skipped.items() if kind not in ENGLISH_TOO) <= given
  assert len({"cut_line", "not_json", "bad_utf8", "unknown_id", "duplicate_line"} & set(skipped)) >= 4
