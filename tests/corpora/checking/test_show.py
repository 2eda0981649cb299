"""The contact sheet: examples as the model sees them."""

import gin
import numpy as np
import pytest

from tests import policies
from tests.make import tiny_corpus
from tests.make.images import encode
from xmcap.corpora.checking import show, show_page
from xmcap.data import images, record_writer, vocabulary
from xmcap.data.records import Caption, Record
from xmcap.data.stream import CaptionStream
from xmcap.errors import UsageError

EVIL = '<script>alert("x")</script>&amp;"\'\x07\u202e'


def show_tiny(directory, **options):
  return show.stream_of(directory, **{"count": 6, "captions_per_image": 2, "image_size": 16, **options})


def texts(pieces):
  return "".join(piece.text for piece in pieces).replace("▁", " ").strip()


def test_contact_sheet_examples_equal_the_stream(tiny_dir):
  made = show_tiny(tiny_dir)
  shown = show.examples(made, step=3)
  batch = made.batch(3)
  assert [picture.record.key for picture in shown] == batch["key"].tolist()
  assert all(np.array_equal(picture.pixels, row) for picture, row in zip(shown, batch["image"], strict=True))
  assert shown[0].size == (16, 16) and shown[0].record == tiny_corpus.tiny_record(
    int(shown[0].record.key, 16)
  )
  for picture, targets in zip(shown, batch["target_tokens"], strict=True):
    captions = {(c.language, c.text) for c in tiny_corpus.tiny_record(int(picture.record.key, 16)).captions}
    for caption, ids in zip(picture.captions, targets, strict=True):
      assert (caption.language, caption.text) in captions
      assert [piece.text for piece in caption.prompt] == [f"<{caption.language}>"]
      assert len(caption.pieces) == np.count_nonzero(ids) and not caption.lost
      assert caption.pieces[-1].kind == "end" and texts(caption.pieces[:-1]) == caption.text


def test_contact_sheet_shows_truncated_caption_text(tiny_dir):
  shown = show.examples(show_tiny(tiny_dir, target_length=2, languages="en"))
  cut = [caption for picture in shown for caption in picture.captions if caption.lost]
  assert cut
  for caption in cut:
    assert len(caption.pieces) == 2 and caption.lost[-1].kind == "end"
    assert texts([*caption.pieces, *caption.lost[:-1]]) == caption.text


def test_contact_sheet_shows_augmented_images(tiny, tiny_dir):
  made = CaptionStream(tiny.name, batch_size=4, image_size=8, augment=images.Augment(min_area=0.3))
  shown = show.examples(made, count=4)
  assert all(picture.pixels.shape == (8, 8, 3) for picture in shown)
  assert "min_area 0.3" in show.facts(made, 0)["Augmentation"]


def test_contact_sheet_image_without_a_caption_in_the_languages(tiny_dir):
  shown = show.examples(show_tiny(tiny_dir, languages="ar", count=24))
  without = [picture for picture in shown if not picture.captions]
  assert without and all(int(picture.record.key, 16) % 2 for picture in without)


def written(tmp_path, picture):
  directory = tiny_corpus.write_corpus(tmp_path, [picture, tiny_corpus.tiny_record(1)])
  return show.examples(show_tiny(directory, count=2))


def test_contact_sheet_escapes_html(tmp_path, page):
  picture = Record(
    "00a1",
    encode(tiny_corpus.colour(1)),
    [Caption("en", EVIL), Caption("ar", "كلب")],
    ["a<b>"],
    EVIL,
  )
  shown = written(tmp_path, picture)
  path = tmp_path / "sheet.html"
  show_page.write_sheet(path, shown, EVIL, {EVIL: EVIL}, 64)
  text = path.read_text(encoding="utf-8")
  assert "<script" not in text and "\x07" not in text
  assert f"content=\"default-src 'none'; img-src data:; {policies.by_hash(text)}\"" in text
  page.goto(path.as_uri())
  assert page.locator("script").count() == 0
  assert page.locator("article").count() == 2
  assert "a<b>" in page.locator(".tags").all_inner_texts()[0] + page.locator(".tags").all_inner_texts()[-1]
  assert page.locator("[dir=rtl]").count() >= 2


@pytest.mark.parametrize(("width", "scheme"), [(1440, "light"), (360, "dark")])
def test_contact_sheet_fits_the_page_width(tiny_dir, tmp_path, page, width, scheme):
  made = show_tiny(tiny_dir, target_length=3)
  show_page.write_sheet(tmp_path / "a.html", show.examples(made), "tiny", show.facts(made, 0), 3)
  page.emulate_media(color_scheme=scheme)
  page.set_viewport_size({"width": width, "height": 800})
  page.goto((tmp_path / "a.html").as_uri())
  assert page.evaluate("document.documentElement.scrollWidth") <= width
  assert page.evaluate("[...document.images].every(image => image.complete && image.naturalWidth > 0)")
  assert page.locator("img.seen").count() == 6
  assert page.locator(".captions .piece.cut").count() > 0
  assert page.locator(".captions .piece.lost").count() > 0


def test_contact_sheet_is_deterministic(tiny_dir, tmp_path):
  for name in "ab":
    made = show_tiny(tiny_dir)
    show_page.write_sheet(tmp_path / name, show.examples(made), "tiny", show.facts(made, 0), 64)
  assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_contact_sheet_marks_byte_and_unknown_pieces(tmp_path):
  text = tmp_path / "text.txt"
  text.write_text("a dog and a cat and an owl\n" * 20)
  made = vocabulary.train_vocabulary(str(text), str(tmp_path / "v.model"), size=340)
  kinds = {piece.kind for piece in show.pieces(made, made.encode("a ж"))}
  assert kinds == {"text", "byte"}
  special = show.pieces(made, [vocabulary.UNK_ID, vocabulary.EOS_ID])
  assert [piece.kind for piece in special] == ["unknown", "end"]


def test_contact_sheet_usage_errors(tiny_dir, tmp_path):
  with pytest.raises(UsageError, match="'fr' is not one of the available languages: ar de en"):
    show_tiny(tiny_dir, languages="fr")
  with pytest.raises(UsageError, match="has no split 'dev'"):
    show_tiny(tiny_dir, split="dev")
  with pytest.raises(UsageError, match="is not a corpus"):
    show_tiny(tmp_path)
  with pytest.raises(UsageError, match="give a number from 1 to 500"):
    show.examples(show_tiny(tiny_dir, count=501))
  with gin.unlock_config():
    gin.clear_config()
  with pytest.raises(UsageError, match="name no corpus"):
    show.configured_stream()


def test_contact_sheet_default_split_is_the_first(tmp_path):
  split = record_writer.write_split(
    tmp_path, "test", [[tiny_corpus.tiny_record(0)]], list, dataset="t", processes=1
  )
  record_writer.write_metadata(tmp_path, [split], dataset="t")
  (tmp_path / "text.txt").write_text("a small dog\n" * 50 + "ein kleiner Hund\n" * 50, encoding="utf-8")
  vocabulary.train_vocabulary(str(tmp_path / "text.txt"), str(tmp_path / "v.model"), size=360)
  with pytest.raises(UsageError, match="has no vocabulary.model: give one with --vocabulary"):
    show_tiny(tmp_path, count=1)
  made = show_tiny(tmp_path, count=1, vocabulary=str(tmp_path / "v.model"))
  assert made.source.split == "test" and len(show.examples(made)) == 1
