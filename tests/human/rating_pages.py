"""Rating pages with captions that are hard to show, and none of whose systems may be told; and what raters do there."""

from tests import browser
from tests.make import files
from xmcap.human import rating_items, rating_page, rating_protocols

HOSTILE = "He said \"hi\" </script><script>alert(1)</script> & 'bye' <!-- <b>x</b> \u2028 \u202eend"
ARABIC = "سيارة قديمة في معرض"
THAI = "รถเปิดประทุนหลายสีจอดเรียงกัน"
SYSTEMS = {
  "system-secret-1": {
    "k1": {"en": HOSTILE, "ar": ARABIC, "th": ""},
    "k2": {"en": "a", "ar": "b", "th": "c"},
  },
  "system-secret-2": {
    "k1": {"en": "A car.", "ar": "سيارة", "th": THAI},
    "k2": {"en": "a", "ar": "d", "th": "e"},
  },
}
REFERENCES = {"k1": {"en": ["A row of cars."], "ar": ["سيارات"]}}


def write(path, protocol="sxs", systems=SYSTEMS, seed=0, rater="", languages=None, **options):
  """Writes the page of a protocol."""
  protocol = rating_protocols.get(protocol)
  items = rating_items.draw_items(protocol, systems, languages, seed=seed, rater=rater)
  rating_page.write_rating_page(path, protocol, items, rater=rater, **options)


def press(page, keys):
  for key in keys.split():
    page.keyboard.press(key)


def save(page, folder, name="saved.jsonl"):
  """Saves the ratings by the key; returns the lines of the file."""
  with page.expect_download() as download:
    page.keyboard.press("s")
  download.value.save_as(folder / name)
  return files.rows(folder / name)


def reload(page):
  browser.reload(page)
  # On a busy machine `reload` may come back before the page's script has run.
  page.locator("#rated:not(:empty)").wait_for()
