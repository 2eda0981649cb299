"""The source of a rating page: embedded data, system names, images and Content-Security-Policy."""

import json

import pytest

from tests import policies
from tests.human import rating_pages
from tests.make import files
from tests.pages.markup import Markup
from xmcap.errors import UsageError
from xmcap.human import rating_page


def test_rating_page_captions_do_not_end_the_script(write):
  page = Markup(write())
  assert len(page.scripts) == 2
  assert any(rating_pages.HOSTILE in item["captions"] for item in json.loads(page.scripts[0])["items"])


@pytest.mark.parametrize("protocol", ["sxs", "thumb"])
def test_rating_page_does_not_name_systems(write, images, protocol):
  text = write(protocol, images_dir=images, references=rating_pages.REFERENCES).read_text(encoding="utf-8")
  assert "secret" not in text


def test_rating_page_key_file_names_systems(write):
  key = rating_page.key_path(write("thumb"))
  rows = files.rows(key)
  assert key.name == "page.key.jsonl"
  assert {name for row in rows for name in row["systems"]} == set(rating_pages.SYSTEMS)


@pytest.mark.parametrize("link, policy", [(False, "img-src data:;"), (True, "img-src 'self' file:;")])
def test_rating_page_loads_nothing_from_other_origins(write, images, link, policy):
  path = write(images_dir=images, link=link)
  page = Markup(path)
  (content,) = [attrs["content"] for _, attrs in page.tags if "http-equiv" in attrs]
  assert content == f"default-src 'none'; {policy} {policies.by_hash(path.read_text(encoding='utf-8'))}"
  assert not [tag for tag, attrs in page.tags if "src" in attrs or "href" in attrs]


def test_rating_page_embeds_an_image_once(write, images):
  data = json.loads(Markup(write("thumb", images_dir=images)).scripts[0])
  assert len(data["pictures"]) == 2 and all(
    uri.startswith("data:image/jpeg;base64,") for uri in data["pictures"]
  )


def test_rating_page_links_images_relative_to_the_page(write, images):
  data = json.loads(Markup(write(images_dir=images, link=True)).scripts[0])
  assert sorted(data["pictures"]) == ["images%20of%20cars/k1.png", "images%20of%20cars/k2.png"]


@pytest.mark.parametrize("link", [False, True])
def test_rating_page_missing_image_is_refused(write, images, link):
  (images / "k2.png").unlink()
  with pytest.raises(
    UsageError, match=r"images of cars: 1 of 2 pictures are missing or cannot be \w.+ \(k2\)"
  ):
    write(images_dir=images, link=link)


@pytest.mark.parametrize("protocol", ["sxs", "thumb"])
def test_rating_page_bytes_are_reproducible(tmp_path, images, protocol):
  turned = {
    name: dict(reversed(rating_pages.SYSTEMS[name].items())) for name in reversed(rating_pages.SYSTEMS)
  }
  for folder, systems in (("one", rating_pages.SYSTEMS), ("two", turned)):
    rating_pages.write(tmp_path / folder / "p.html", protocol, systems, images_dir=images, seed=5)
  for name in ("p.html", "p.key.jsonl"):
    assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
