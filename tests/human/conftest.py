"""Rating pages and their pictures."""

import json

import pytest

from tests.human import rating_pages
from tests.make import images as image_files


@pytest.fixture
def images(tmp_path):
  for key, color in (("k1", "red"), ("k2", "blue")):
    folder = image_files.files(tmp_path / "images of cars", f"{key}.png", color=color, size=(60, 40))
  return folder


@pytest.fixture
def write(tmp_path):
  """Writes a page; returns its path."""

  def run(protocol="sxs", systems=rating_pages.SYSTEMS, **options):
    path = tmp_path / "page.html"
    rating_pages.write(path, protocol, systems, **options)
    return path

  return run


@pytest.fixture
def rate(page, write):
  """Opens a page as a rater; returns (page, its items, which the script also has)."""

  def run(*options, rater="anna", **named):
    path = write(*options, **named)
    page.goto(path.as_uri())
    if rater:
      page.keyboard.type(rater)
      page.keyboard.press("Enter")
      # On a busy machine the next line of a test may come before the page has stored who rates.
      page.locator("#rated:not(:empty)").wait_for()
    return page, json.loads(page.locator("#data").text_content())["items"]

  return run
