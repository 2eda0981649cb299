import io

import pytest
from PIL import Image

from tests.make import files, images
from tests.make.refusals import refusal
from xmcap.endpoint import inputs, pictures
from xmcap.errors import XmcapError

_JPEG = images.noise((40, 30), 0, "JPEG")


@pytest.fixture
def corpus(tmp_path):
  """Four pictures with captions in two languages, in XM3600's layout."""
  keys = {f"k{number}": {"en": [f"caption {number}"], "de": [f"Satz {number}"]} for number in range(4)}
  files.release(tmp_path / "captions.jsonl", keys)
  (tmp_path / "images").mkdir()
  for number, key in enumerate(keys):
    (tmp_path / "images" / f"{key}.jpg").write_bytes(images.noise((40, 30), number, "JPEG"))
  return tmp_path


@pytest.mark.parametrize(
  ("url", "expected"),
  [
    ("http://localhost:8000", "http://localhost:8000/v1"),
    ("http://localhost:8000/v1/", "http://localhost:8000/v1"),
    ("https://host/api/v1/chat/completions", "https://host/api/v1"),
  ],
)
def test_url(url, expected):
  assert inputs.endpoint(url, "m", "", "").url == expected


def test_key_is_read_from_the_environment(monkeypatch):
  monkeypatch.setenv("MY_KEY", "secret")
  assert inputs.endpoint("http://a", "m", "MY_KEY", "").key == "secret"


@pytest.mark.parametrize(
  ("arguments", "message"),
  [
    (("localhost:8000", "m", "", ""), "--endpoint=localhost:8000: not an address"),
    (
      ("http://a", "m", "NO_SUCH_KEY", ""),
      "--key_variable=NO_SUCH_KEY: there is no such environment variable",
    ),
    (("http://a", "m", "", "{"), "--extra_body: not JSON"),
    (("http://a", "m", "", "[1]"), "--extra_body: give an object"),
    (("http://a", "m", "", '{"model": "x"}'), "--extra_body: give an object"),
    (("http://a", "m", "", '{"stream": true}'), "--extra_body: give an object"),
  ],
)
def test_wrong_endpoints(arguments, message):
  assert message in refusal(inputs.endpoint, *arguments)


def test_a_key_that_no_header_can_have(monkeypatch):
  monkeypatch.setenv("OPENAI_API_KEY", "ключ\n")
  message = refusal(inputs.endpoint, "http://a", "m", "", "")
  assert message == "OPENAI_API_KEY: the key has a space or a character that no header can have"


@pytest.mark.parametrize("name", ["", "captions.jsonl"])
def test_a_release_by_its_folder_or_its_file(corpus, name):
  found = inputs.of_corpus(str(corpus / name))
  assert list(found.keys) == ["k0", "k1", "k2", "k3"]
  assert found.read("k2") == (corpus / "images" / "k2.jpg").read_bytes()
  assert found.captions["k1"] == {"en": ["caption 1"], "de": ["Satz 1"]}


def test_a_subset(corpus):
  (corpus / "keys.txt").write_text("k3\nk1\n", encoding="utf-8")
  assert list(inputs.of_corpus(str(corpus), subset=str(corpus / "keys.txt")).keys) == ["k1", "k3"]


def test_a_picture_that_is_missing(corpus):
  (corpus / "images" / "k1.jpg").unlink()
  assert refusal(inputs.of_corpus, str(corpus)).startswith(f"{corpus}/images: no picture of 'k1'")


def test_shots_are_drawn_by_the_seed_and_never_of_what_is_asked(corpus):
  drawn = inputs.shots(2, str(corpus), 7, ("de", "en"), {"k0", "k1"})
  assert {shot.picture.key for shot in drawn} == {"k2", "k3"}
  assert drawn == inputs.shots(2, str(corpus), 7, ("de", "en"), {"k0", "k1"})
  assert drawn[0].captions["de"].startswith("Satz")
  message = refusal(inputs.shots, 3, str(corpus), 7, ("de", "en"), {"k0", "k1"})
  assert message.startswith("--shots=3")
  assert "has 2 pictures" in message


@pytest.mark.parametrize(("text", "expected"), [("2.50", (2.5,)), ("0.1,0.4,0.05", (0.1, 0.4, 0.05))])
def test_numbers(text, expected):
  assert inputs.numbers("--price", text) == expected


@pytest.mark.parametrize("text", ["", "-1", "1;2", "1,2,3,4", "1e3", "nan"])
def test_wrong_numbers(text):
  assert refusal(inputs.numbers, "--price", text).startswith(f"--price={text}: give numbers")


def test_a_small_jpeg_is_sent_as_it_is():
  picture = pictures.encode(_JPEG, "k")
  assert (picture.data, picture.own) == (_JPEG, True)


@pytest.mark.parametrize(
  "data",
  [
    images.noise((40, 30), 0, "PNG"),
    images.noise((40, 30), 0, "WEBP"),
    images.noise((1_600, 20), 0, "JPEG"),
    images.plain(
      0, (40, 30), "JPEG", exif=b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0"
    ),
    images.encode(Image.new("L", (40, 30)), "JPEG"),
  ],
  ids=["png", "webp", "large", "turned", "grey"],
)
def test_others_become_upright_jpegs(data):
  picture = pictures.encode(data, "k")
  assert not picture.own
  with Image.open(io.BytesIO(picture.data)) as image:
    assert (image.format, image.mode) == ("JPEG", "RGB")
    assert max(image.size) <= pictures.LONGEST_SIDE
  assert picture.id == pictures.encode(data, "other").id


def test_half_a_picture_is_not_sent():
  with pytest.raises(XmcapError, match="picture 'k'"):
    pictures.encode(_JPEG[:400], "k")
