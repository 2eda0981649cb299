import html.parser
import json
import re
import shutil
import subprocess

import pytest
from PIL import Image

from xmcap.scoring import Table, report, score_images, table_of
from xmcap.scoring.report import chart, gallery, pictures

_HOSTILE = '</script><script>alert("x")</script><!-- & \' "'
_REFERENCES = {
  "k1": {"ar": ["كلب يجري", "كلب"], "en": ["a dog runs", "a running dog"]},
  "k2": {"en": [_HOSTILE]},
  '"><img src=x>': {"ar": ["قط"], "en": ["a cat"]},
}
_PREDICTIONS = {
  "k1": {"ar": "كلب يجري", "en": "a dog"},
  "k2": {"en": _HOSTILE + " more"},
  '"><img src=x>': {"ar": "", "en": "a cat"},
}


def _write(path, title="t", **options):
  scores = score_images(_REFERENCES, _PREDICTIONS)
  table = table_of(scores, _REFERENCES, title)
  report.write_report(path, table, scores, _REFERENCES, _PREDICTIONS, **options)
  return path.read_text(encoding="utf-8")


class _Parser(html.parser.HTMLParser):
  _VOID = {"meta", "img", "input", "wbr"}

  def __init__(self, text):
    super().__init__()
    self.tags, self.open, self.scripts = [], [], []
    self.feed(text)
    self.close()

  def handle_starttag(self, tag, attrs):
    self.tags.append((tag, dict(attrs)))
    if tag not in self._VOID:
      self.open.append(tag)
    if tag == "script":
      self.scripts.append("")

  def handle_startendtag(self, tag, attrs):
    self.tags.append((tag, dict(attrs)))

  def handle_endtag(self, tag):
    assert self.open.pop() == tag

  def handle_data(self, data):
    if self.open and self.open[-1] == "script":
      self.scripts[-1] += data


def test_everything_that_is_read_is_escaped(tmp_path):
  table = Table.of_rows("<s>", {"en": {"images": 3, "cider": 1.0, "cider_d": 1.0, "exact": 0.0}})
  page = _Parser(_write(tmp_path / "r.html", title=_HOSTILE, baselines={_HOSTILE: table}))
  assert page.open == []
  assert len(page.scripts) == 2  # the gallery's data and the report's own
  assert not [tag for tag, _ in page.tags if tag == "img"]
  data = json.loads(page.scripts[0])
  assert data["pictures"]["k2"]["en"]["references"] == [_HOSTILE]


def test_nothing_is_loaded_from_elsewhere(tmp_path):
  page = _Parser(_write(tmp_path / "r.html"))
  policies = [attrs["content"] for _, attrs in page.tags if "http-equiv" in attrs]
  assert policies == [
    "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
  ]
  assert not [attrs for _, attrs in page.tags if "src" in attrs or attrs.get("href", "#")[0] != "#"]
  assert not [tag for tag, _ in page.tags if tag in ("link", "iframe", "object")]


def test_right_to_left_languages_are_marked(tmp_path, monkeypatch):
  monkeypatch.setitem(_REFERENCES, "k2", {"ar": ["بيت"]})
  references = {key: {"ar": captions["ar"]} for key, captions in _REFERENCES.items()}
  predictions = {key: {"ar": "كلب"} for key in references}
  scores = score_images(references, predictions)
  report.write_report(tmp_path / "r.html", table_of(scores, references), scores, references, predictions)
  page = _Parser((tmp_path / "r.html").read_text(encoding="utf-8"))
  shown = [attrs for tag, attrs in page.tags if attrs.get("class") in ("prediction", "references")]
  assert len(shown) == 6 and all(attrs["dir"] == "rtl" and attrs["lang"] == "ar" for attrs in shown)


def test_pictures_are_embedded_and_missing_ones_counted(tmp_path):
  images = tmp_path / "images"
  images.mkdir()
  Image.new("RGB", (8, 8), "red").save(images / "k1.png")
  (images / "k2.jpg").write_bytes(b"no picture")
  text = _write(tmp_path / "r.html", images_dir=images)
  assert text.count('<img src="data:image/png;base64,') == 1
  assert "No readable picture in the folder for 2 of them: k2, " in text


def test_large_pictures_are_scaled_down(tmp_path):
  path = tmp_path / "k.png"
  Image.effect_noise((1200, 800), 90).convert("RGB").save(path)
  uri = pictures.data_uri(path)
  assert uri.startswith("data:image/jpeg;base64,") and len(uri) < 150_000 < path.stat().st_size


@pytest.mark.parametrize("mode", ["RGBA", "P", "L", "I;16", "CMYK"])
def test_every_kind_of_picture_is_scaled_down(tmp_path, monkeypatch, mode):
  monkeypatch.setattr(pictures, "_MAX_BYTES_AS_RELEASED", 0)
  Image.new(mode, (500, 10)).save(tmp_path / "k.png" if mode != "CMYK" else tmp_path / "k.jpg")
  assert pictures.data_uri(pictures.find(tmp_path, "k")).startswith("data:image/jpeg;base64,")


def test_pictures_that_cannot_be_read_are_none(tmp_path, monkeypatch):
  path = tmp_path / "k.png"
  Image.new("RGB", (40, 40), "red").save(path)
  monkeypatch.setattr(pictures, "_MAX_PIXELS", 1599)
  assert pictures.data_uri(path) is None
  monkeypatch.undo()
  assert pictures.data_uri(path) is not None
  path.write_bytes(path.read_bytes()[:60])
  assert pictures.data_uri(path) is None


@pytest.mark.parametrize("key", ["../k", "/k", "a/../../k", ".k", "", "k\x00", "k\n", "..", "é"])
def test_keys_that_are_no_plain_names_are_never_paths(tmp_path, key):
  (tmp_path / "images").mkdir()
  Image.new("RGB", (8, 8)).save(tmp_path / "k.png")
  assert pictures.find(tmp_path / "images", key) is None


def test_at_most_sixty_pictures_spread_over_the_file():
  keys = gallery._spread([str(i) for i in range(3600)])
  assert len(keys) == len(set(keys)) == gallery.MAX_PICTURES and keys[0] == "0" and int(keys[-1]) >= 3500
  assert gallery._spread(["a", "b"]) == ["a", "b"]


@pytest.mark.parametrize(
  "highest, ticks",
  [
    (9.3, [0, 2, 4, 6, 8, 10]),
    (1.0, [0, 0.2, 0.4, 0.6, 0.8, 1.0]),
    (0.031, [0, 0.01, 0.02, 0.03, 0.04]),
    (0.0, [0, 1]),
  ],
)
def test_ticks_are_round_and_reach_the_highest(highest, ticks):
  assert chart._ticks(highest) == pytest.approx(ticks)


def test_chart_has_a_column_a_language_and_a_mark_a_baseline(tmp_path):
  rows = {
    code: {"images": 1, "cider": score, "cider_d": score, "exact": 0.5}
    for code, score in (("ar", 1.0), ("en", 3.0), ("te", 2.0))
  }
  table = Table.of_rows("s", rows)
  svg = chart.chart("cider", table, {"b": Table.of_rows("s", {"en": rows["ar"]})})
  assert svg.count('class="column"') == 3 and svg.count("mark mark-0") == 1
  places = {
    by: [float(x) for x in re.findall(f'data-by-{by}="([0-9.]+)"', svg)] for by in ("code", "score", "group")
  }
  assert places["code"] == sorted(places["code"])
  assert sorted(range(3), key=places["score"].__getitem__) == [1, 2, 0]  # en, te, ar
  assert sorted(range(3), key=places["group"].__getitem__) == [1, 0, 2]  # English, web, low-resource


def test_baselines_under_another_signature_are_pointed_out(tmp_path):
  table = Table.of_rows("other", {"en": {"images": 3, "cider": 1.0, "cider_d": 1.0, "exact": 0.0}})
  text = _write(tmp_path / "r.html", baselines={"most frequent": table})
  assert "not strictly comparable: most frequent." in text
  assert "not strictly comparable" not in _write(tmp_path / "r.html")


_CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.mark.slow
@pytest.mark.skipif(_CHROMIUM is None, reason="no chromium is installed")
def test_a_browser_fills_the_gallery_in_the_chosen_language(tmp_path):
  path = tmp_path / "r.html"
  page = _write(path)
  choices = (('"en" selected', '"en"'), ('"ar">', '"ar" selected>'), ('id="wrong"', 'id="wrong" checked'))
  for before, after in choices:
    page = page.replace(before, after)
  path.write_text(page, encoding="utf-8")
  result = subprocess.run(
    [
      _CHROMIUM,
      "--headless",
      "--no-sandbox",
      "--disable-gpu",
      f"--user-data-dir={tmp_path / 'profile'}",
      "--dump-dom",
      path.as_uri(),
    ],
    capture_output=True,
    text=True,
    check=True,
    timeout=120,
  )
  dom = result.stdout
  assert "1 of 3 captions in Arabic are not exact." in dom
  cards = dom[dom.index('id="cards"') : dom.index('id="gallery-data"')]
  assert cards.count('lang="ar" dir="rtl"') >= 4
  assert "Uncaught" not in result.stderr
