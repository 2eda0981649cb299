"""The rating and annotation pages at the widths of phones and of a screen, by touch and by keyboard."""

import pytest
from playwright.sync_api import expect

from tests import browser
from tests.human import rating_pages
from tests.human.rating_pages import press, save
from tests.make import files, images
from xmcap import languages
from xmcap.human import annotation_page, annotations, page_texts
from xmcap.human.annotation_procedures import PROCEDURES
from xmcap.human.rating_protocols import PROTOCOLS

_LONG = "A man in a red jacket stands beside an old convertible car with its roof down at an exhibition, and "
_CAPTIONS = {
  "en": ("A man in a red jacket stands beside an old convertible car at an exhibition.", "car"),
  "ar": ("رجل يرتدي سترة حمراء يقف بجانب سيارة قديمة مكشوفة في معرض للسيارات.", "سيارة"),
  "bn": ("লাল জ্যাকেট পরা একজন লোক একটি পুরোনো গাড়ির পাশে দাঁড়িয়ে আছে।", "গাড়ি"),
  "es": ("Un hombre con chaqueta roja está junto a un descapotable antiguo.", "coche"),
  "fa": ("مردی با ژاکت قرمز کنار یک ماشین قدیمی ایستاده است.", "ماشین"),
  "fr": ("Un homme en veste rouge se tient près d'une vieille voiture décapotable.", "voiture"),
  "hi": ("लाल जैकेट पहने एक आदमी एक पुरानी कार के पास खड़ा है।", "कार"),
  "id": ("Seorang pria berjaket merah berdiri di samping mobil tua.", "mobil"),
  "pt": ("Um homem de jaqueta vermelha está ao lado de um carro antigo.", "carro"),
  "ru": ("Мужчина в красной куртке стоит рядом со старым кабриолетом на выставке.", "машина"),
  "zh": ("一名穿红色夹克的男子站在展览会上一辆老式敞篷车旁。", "汽车"),
}
_SIZES = ((360, 800), (400, 800), (1300, 900))

# What of some elements is outside of the part of the viewport between the bars, or covered there.
_OUTSIDE = """(parts) => {
  const boxOf = (one) => one.getBoundingClientRect();
  const shown = (id) => !document.querySelector(id).hidden;
  const top = boxOf(document.querySelector(".bar")).bottom;
  const bottom = shown("#nav") ? boxOf(document.querySelector("#nav")).top : innerHeight;
  return parts.filter((part) => {
    const { left, right, top: from, bottom: to } = boxOf(part);
    const covers = document.elementFromPoint((left + right) / 2, (from + to) / 2);
    return left < 0 || right > document.documentElement.clientWidth || from < top - 1 || to > bottom + 1 ||
      !(part === covers || part.contains(covers));
  }).map((part) => part.outerHTML.slice(0, 120));
}"""
_TOO_WIDE = """(all) => all.filter((one) => one.scrollWidth > one.clientWidth + 1)
  .map((one) => one.outerHTML.slice(0, 120))"""


@pytest.fixture
def phone(chromium):
  """A playwright `Page` that is touched; the test fails on any error."""
  context = chromium.new_context(
    offline=True, viewport={"width": 400, "height": 800}, has_touch=True, is_mobile=True
  )
  phone, errors = context.new_page(), []
  phone.on("pageerror", lambda error: errors.append(str(error)))
  yield phone
  context.close()
  assert not errors


def _systems(protocol, language):
  caption, tag = _CAPTIONS[language]
  if protocol == "coco_cn_tags":
    return {"A": {"k1": {language: [f"{tag} {number}" for number in range(5)]}}}
  return {name: {"k1": {language: text}} for name, text in (("A", caption), ("B", f"{caption} {tag}"))}


def _write_rating(tmp_path, protocol, systems):
  folder = images.files(tmp_path / "images", "k1.png", color="red", size=(600, 600))
  path = tmp_path / "page.html"
  rating_pages.write(path, protocol, systems, images_dir=folder)
  return path.as_uri()


def _write_annotation(tmp_path, procedure, language, count=3, rated=_CAPTIONS["en"][0]):
  picture = images.plain("red", (600, 600), "JPEG")
  caption, tag = _CAPTIONS[language]
  rated = rated if procedure.ratings else ""
  items = [
    annotation_page.AnnotationItem(f"k{i}", f"k{i}.jpg", lambda: picture, [caption], [tag], rated)
    for i in range(count)
  ]
  annotation_page.write_annotation_page(tmp_path, language, items, procedure)
  return (tmp_path / "annotate.html").as_uri()


def _start(page, uri):
  page.goto(uri)
  if page.locator("#start").is_visible():
    page.locator(".name input").first.fill("anna")
    page.locator("#start-form .primary").click()
  expect(page.locator("#start")).to_be_hidden()


def _resize(page, width, height):
  page.set_viewport_size({"width": width, "height": height})
  page.evaluate("() => { dispatchEvent(new Event('resize')); scrollTo(0, 0); }")


def _check(page, *selectors):
  for selector in selectors:
    parts = page.locator(selector)
    assert parts.count() and parts.evaluate_all(_OUTSIDE) == [], selector
  assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0
  assert page.locator("button:visible").evaluate_all(_TOO_WIDE) == []


def _levels(protocol):
  """What of a page must be in view together: the picture, and a caption with all its levels, or all tags."""
  card = ".card" if PROTOCOLS[protocol].shows == "tags" else ".card:first-child"
  return "#picture", f"{card} .caption p", f"{card} .choice"


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_rating_page_shows_all_levels_with_the_caption_in_each_language(phone, tmp_path, protocol):
  for language in _CAPTIONS:
    _start(phone, _write_rating(tmp_path, protocol, _systems(protocol, language)))
    for size in _SIZES[:2]:
      _resize(phone, *size)
      _check(phone, *_levels(protocol))


@pytest.mark.parametrize("language", ["en", "ar"])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_rating_page_shows_all_levels_in_any_font(page, tmp_path, protocol, language):
  _start(page, _write_rating(tmp_path, protocol, _systems(protocol, language)))
  for family in browser.FAMILIES:
    browser.set_font(page, family)
    for size in _SIZES:
      _resize(page, *size)
      _check(page, *_levels(protocol))


# Words that do not stand on one line.
_BROKEN = """(parts) => parts.flatMap((part) => [...part.textContent.matchAll(/\\S+/g)].filter(({ 0: word, index }) => {
  const range = document.createRange();
  range.setStart(part.firstChild, index);
  range.setEnd(part.firstChild, index + word.length);
  return range.getClientRects().length > 1;
}).map(([word]) => word))"""


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_rating_page_breaks_no_word_of_a_level(page, tmp_path, protocol):
  page.set_viewport_size({"width": 1300, "height": 900})
  for language in ("ar", "en", "es", "fr", "id", "pt", "ru"):
    _start(page, _write_rating(tmp_path, protocol, _systems(protocol, language)))
    shown = page.locator("legend:visible, .choice .meaning:visible")
    assert shown.evaluate_all(_BROKEN) == [], language


def test_rating_page_shows_all_levels_with_a_long_caption(phone, tmp_path):
  systems = {name: {"k1": {"en": _LONG * 4 + name}} for name in "AB"}
  for protocol in ("sxs", "xm3600_quality", "coco_cn_captions"):
    _start(phone, _write_rating(tmp_path, protocol, systems))
    _check(phone, *_levels(protocol))


@pytest.mark.parametrize("language", ["en", "ar"])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_rating_page_levels_fit_their_buttons_on_a_small_phone(phone, tmp_path, protocol, language):
  _start(phone, _write_rating(tmp_path, protocol, _systems(protocol, language)))
  _resize(phone, 320, 568)
  for zoom in (100, 130):
    phone.evaluate("zoom => { document.documentElement.style.fontSize = `${zoom}%`; }", zoom)
    _check(phone, "#picture")


def test_annotation_page_shows_levels_with_a_long_caption(page, tmp_path):
  _start(page, _write_annotation(tmp_path, PROCEDURES["xm3600"], "en", rated=_LONG * 3))
  for family in browser.FAMILIES:
    browser.set_font(page, family)
    for size in _SIZES:
      _resize(page, *size)
      _check(page, *(f"#cards .card:first-child {part}" for part in ("img", ".rated", ".choice")))


@pytest.mark.parametrize("language", ["ar", "en", "fa", "ru"])
@pytest.mark.parametrize("name", PROCEDURES)
def test_annotation_page_shows_picture_and_levels_or_sentence(page, tmp_path, name, language):
  _start(page, _write_annotation(tmp_path, PROCEDURES[name], language))
  for family in browser.FAMILIES:
    browser.set_font(page, family)
    for size in _SIZES:
      _resize(page, *size)
      if PROCEDURES[name].ratings:
        first = "#cards .card:first-child"
        _check(page, f"{first} img", f"{first} .rated", f"{first} .choice")
      else:
        _check(page, "#picture", "#sentence")


def test_annotation_page_screens_with_guidelines_have_no_overflow(page, tmp_path):
  _start(page, _write_annotation(tmp_path, PROCEDURES["xm3600"], "ar", count=1))
  for key in ("1", "Enter"):
    page.locator("summary").click()
    for size in _SIZES:
      _resize(page, *size)
      _check(page, "#place")
    page.keyboard.press(key)


@pytest.mark.parametrize("protocol", ["thumb", "coco_cn_captions"])
def test_rating_page_next_leads_to_another_caption_with_all_its_levels(phone, tmp_path, protocol):
  _start(phone, _write_rating(tmp_path, protocol, _systems(protocol, "ar")))
  first = phone.locator(".card").nth(0)
  for number in range(2):
    first.locator(".criterion").nth(number).locator(".choice").nth(2).tap()
  phone.locator("#next").tap()
  _check(phone, "#picture", ".card:nth-child(2) .caption p", ".card:nth-child(2) .choice")


# A rating by touch and one by keyboard


def _touch_and_save(phone, tmp_path):
  with phone.expect_download() as download:
    phone.locator("#save").tap()
  download.value.save_as(tmp_path / "saved.jsonl")
  return files.rows(tmp_path / "saved.jsonl")


@pytest.mark.parametrize("language", ["en", "ar"])
def test_rating_page_rating_by_touch(phone, tmp_path, language):
  _start(phone, _write_rating(tmp_path, "sxs", _systems("sxs", language)))
  words = phone.locator(".words")
  levels = [word for _, word in PROTOCOLS["sxs"].criteria[0].choices]
  if language == "en":
    expect(words).to_have_text(f"1 {levels[0]} … 7 {levels[-1]}")
  phone.locator(".choice").nth(5).tap()
  assert words.is_visible() and "chosen" in words.get_attribute("class")
  if language == "en":
    expect(words).to_have_text(f"6 {levels[5]}")
  phone.locator("#next").tap()
  button = page_texts.catalogue(language)["common"]["save"]
  message = phone.locator("#message").inner_text()
  assert button in message and phone.locator("#save").inner_text().strip() == button
  assert [line["rating"] for line in _touch_and_save(phone, tmp_path)] == [2]


def test_rating_page_names_no_key_where_there_is_no_keyboard(phone, tmp_path):
  _start(phone, _write_rating(tmp_path, "thumb", _systems("thumb", "en")))
  phone.locator("#help").tap()
  assert [one for one in phone.locator("kbd").all() if one.is_visible()] == []
  _start(phone, _write_annotation(tmp_path, PROCEDURES["coco-cn"], "en"))
  for size in (_SIZES[-1], _SIZES[0]):  # a tablet has none either
    _resize(phone, *size)
    assert [one for one in phone.locator("kbd").all() if one.is_visible()] == []
  phone.locator("#help").tap()
  assert [one for one in phone.locator("kbd").all() if one.is_visible()] == []


@pytest.mark.parametrize("language", ["en", "ar"])
def test_rating_page_rating_by_keyboard(page, tmp_path, language):
  page.set_viewport_size({"width": 1300, "height": 900})
  _start(page, _write_rating(tmp_path, "sxs", _systems("sxs", language)))
  assert page.locator("#save kbd").is_visible()
  press(page, "6 Enter")
  assert [line["rating"] for line in save(page, tmp_path)] == [2]


def test_annotation_page_rating_and_sentence_by_touch(phone, tmp_path):
  _start(phone, _write_annotation(tmp_path, PROCEDURES["xm3600"], "ar", count=2))
  for number in range(2):
    card = phone.locator(".card").nth(number)
    card.locator(".choice").nth(number + 1).tap()
    assert card.locator(".words").is_visible()
  for text in ("سيارة", "رجل"):
    phone.locator("#next").tap()
    phone.locator("#sentence").fill(text)
  phone.locator("#next").tap()
  assert page_texts.catalogue("ar")["common"]["save"] in phone.locator("#message").inner_text()
  _touch_and_save(phone, tmp_path)
  saved = annotations.read([tmp_path / "saved.jsonl"])[0]
  assert [one.rated and one.rated.rating for one in saved] == ["MEDIUM", "GOOD"]
  assert [one.caption for one in saved] == ["سيارة", "رجل"]


@pytest.mark.parametrize("language", ["ar", "fa"])
def test_pages_levels_stand_from_left_to_right_the_lowest_first(phone, tmp_path, language):
  lefts = "all => all.map((one) => one.getBoundingClientRect().left)"
  _start(phone, _write_rating(tmp_path, "xm3600_quality", _systems("xm3600_quality", language)))
  choices = phone.locator(".card").first.locator(".choice")
  assert choices.locator(".value").all_inner_texts() == list("12345")
  assert choices.evaluate_all(lefts) == sorted(choices.evaluate_all(lefts))
  # As the captions of a pair, of which the first is the left one in all languages.
  _start(phone, _write_rating(tmp_path, "sxs", _systems("sxs", language)))
  for parts in (phone.locator(".choice"), phone.locator(".caption")):
    assert parts.evaluate_all(lefts) == sorted(parts.evaluate_all(lefts))
  _start(phone, _write_annotation(tmp_path, PROCEDURES["xm3600"], language))
  choices = phone.locator(".card").first.locator(".choice")
  assert choices.evaluate_all(lefts) == sorted(choices.evaluate_all(lefts))
  # The caption that is rated is English, whatever the language of the page.
  rated = phone.locator(".rated").first
  assert (rated.get_attribute("lang"), rated.get_attribute("dir")) == ("en", "ltr")
  spoken = language if language in page_texts.LANGUAGES else "en"
  words = phone.locator(".card .words").first.evaluate("one => getComputedStyle(one).direction")
  assert words == languages.get(spoken).direction
