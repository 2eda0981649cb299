"""Rating pages and their pictures."""

import pytest
from PIL import Image

from tests.human import rating_pages


@pytest.fixture
def images(tmp_path):
  folder = tmp_path / "images of cars"
  folder.mkdir()
  for key, color in (("k1", "red"), ("k2", "blue")):
    Image.new("RGB", (60, 40), color).save(folder / f"{key}.png")
  return folder


@pytest.fixture
def write(tmp_path):
  """Writes a page; returns its path."""

  def run(protocol="sxs", systems=rating_pages.SYSTEMS, **options):
    path = tmp_path / "page.html"
    rating_pages.write(path, protocol, systems, **options)
    return path

  return run
