"""`xmcap human rate`: makes a page, joins what was saved on it, and words what is wrong in one line."""

import json

import pytest

from tests.make import files, images
from tests.make.command import xmcap

_CAPTIONS = {"base": ("a dog", "ein Hund"), "large": ("a dog", "der Hund")}


@pytest.fixture
def rate(tmp_path, monkeypatch):
  """Runs the command in a folder with the predictions of two systems, base.jsonl and large.jsonl."""
  monkeypatch.chdir(tmp_path)
  for name, (english, german) in _CAPTIONS.items():
    files.captions(f"{name}.jsonl", dict.fromkeys(("k1", "k2"), {"en": english, "de": german}))
  files.release("references.jsonl", {"k1": {"en": ["A dog."]}}, locale="")
  files.lines("tags.txt", "k1 猫 狗", "k2 船 海")
  return lambda *arguments: xmcap("human", "rate", *arguments)


_SYSTEMS = ("--predictions=base=base.jsonl", "--predictions=large=large.jsonl")


def test_human_rate_sxs_page_and_summary(rate, tmp_path):
  made = rate("--protocol=sxs", *_SYSTEMS, "--out=page.html", "--references=references.jsonl")
  assert made.succeeded().out.splitlines() == [
    "page.html: 4 comparisons, 2 systems, 2 pictures, 2 languages, seed 0",
    "comparisons of equal captions: 2; kept, because ties count",
    "3 of 4 items have no reference in references.jsonl",
    "page.key.jsonl: which system wrote which caption; do not show it to the raters",
    "after the rating: xmcap human rate --join=page.key.jsonl RATINGS.jsonl --out=joined.jsonl",
  ]
  assert (tmp_path / "page.html").exists() and (tmp_path / "page.key.jsonl").exists()


def test_human_rate_thumb_page_of_systems_in_a_single_option(rate):
  systems = ("--predictions", "base=base.jsonl", "large=large.jsonl")
  made = rate(*systems, "--protocol", "thumb", "--out", "page.html", "--limit=1", "--languages=en,de")
  assert made.succeeded().out.splitlines()[:2] == [
    "page.html: 3 captions, 2 systems, 1 picture, 2 languages, seed 0",
    "captions equal to another system's, and rated together with it: 1",
  ]


def test_human_rate_joins_saved_ratings(rate, tmp_path):
  rate("--protocol=sxs", *_SYSTEMS, "--out=page.html", "--languages=de")
  items = [json.loads(line)["item"] for line in (tmp_path / "page.key.jsonl").read_text().splitlines()]
  for rater, rated in (("anna", items), ("bo", items[:1])):
    files.jsonl(f"{rater}.jsonl", *({"item": item, "rater": rater, "rating": -2} for item in rated))
  joined = rate("--join=page.key.jsonl", "anna.jsonl", "bo.jsonl", "--out=joined.jsonl")
  assert joined.succeeded().out.splitlines() == [
    "anna: 2 of 2 items rated",
    "bo: 1 of 2 items rated",
    "joined.jsonl: 3 ratings; next: xmcap human sxs --ratings=joined.jsonl",
  ]
  rows = files.rows(tmp_path / "joined.jsonl")
  assert [row["rater"] for row in rows] == ["anna", "anna", "bo"]
  xmcap("human", "sxs", "--ratings=joined.jsonl", "--resamples=0").succeeded()


def test_human_rate_leaves_out_what_a_system_lacks(rate):
  files.captions("large.jsonl", {"k1": {"en": "a cat"}, "k2": {"de": "der Hund", "fr": "un chat"}})
  page = ("--protocol=sxs", *_SYSTEMS, "--out=page.html")
  rate(*page).refused("system 'base' lacks 1 of 5 captions")
  said = (
    rate(*page, "--missing=skip")
    .succeeded("page.html: 2 comparisons, 2 systems, 2 pictures, 2 languages")
    .out
  )
  assert "note: left out, as a system has no caption there: de 1, en 1, fr 1\n" in said
  files.captions("large.jsonl", {"k3": {"en": "a cat"}})
  rate(*page, "--missing=skip").refused("no picture has a caption by every system")


def _write_captions(path, captions):
  files.captions(path, {key: {"en": text} for key, text in captions.items()})


def test_human_rate_equal_captions_are_automatic_ties(rate, tmp_path):
  texts = {"a": ("un caf\u00e9", "un chien", "un chat"), "b": ("un cafe\u0301 ", "une vache", "un cheval")}
  for name, french in texts.items():
    captions = {f"k{place}": {"fr": text} for place, text in enumerate(french)}
    captions["k0"]["en"] = "a dog"
    files.captions(f"{name}.jsonl", captions)
  systems = ("--predictions", "a=a.jsonl", "b=b.jsonl")
  made = rate("--protocol=sxs", *systems, "--equal=tie", "--out=page.html")
  made.succeeded("comparisons of equal captions: 2; ties that nobody is asked about")
  key = files.rows(tmp_path / "page.key.jsonl")
  page = (tmp_path / "page.html").read_text(encoding="utf-8")
  asked = [row["item"] for row in key if "equal_captions" not in row]
  assert len(asked) == 2 and [row["item"] for row in key if row["item"] in page] == asked
  for count, said in ((1, "1; too many, as long as other items are rated by nobody"), (2, "1")):
    files.jsonl("anna.jsonl", *({"item": item, "rater": "anna", "rating": 3} for item in asked[:count]))
    joined = rate("--join=page.key.jsonl", "anna.jsonl", "--out=joined.jsonl").succeeded()
    assert f"ties of equal captions, which nobody was asked about: {said}" in joined.out.splitlines()
  rows = files.rows(tmp_path / "joined.jsonl")
  # None in English, which nobody rated.
  assert [(row["language"], row["rater"], row["rating"], row.get("equal_captions")) for row in rows] == [
    ("fr", "anna", 3, None), ("fr", "anna", 3, None), ("fr", "", 0, True),
  ]  # fmt: skip
  sxs = xmcap("human", "sxs", "--ratings=joined.jsonl", "--resamples=0", "--raters=1")
  sxs.succeeded("no agreement counts: 1")


@pytest.mark.parametrize("written", ["{}.jpg", "COCO_val2014_{:0>12}", "val2014/{:0>12}.png", "{:0>6}"])
def test_human_rate_matches_keys_of_systems_and_images(rate, tmp_path, written):
  captions = {str(number): f"a dog and {number} cats" for number in range(100, 105)}
  _write_captions(tmp_path / "a.jsonl", captions)
  _write_captions(tmp_path / "b.jsonl", {written.format(key): f"{text}!" for key, text in captions.items()})
  images.files("photos", *(f"COCO_val2014_{number:012}.jpg" for number in range(100, 105)))
  systems = ("--predictions", "a=a.jsonl", "b=b.jsonl", "--images=photos")
  made = rate("--protocol=sxs", *systems, "--out=page.html")
  made.succeeded(f"note: system 'b': 5 keys written another way, '{written.format('100')}' for '100'")
  key = files.rows(tmp_path / "page.key.jsonl")
  assert {row["image/key"] for row in key} == set(captions)
  _write_captions(tmp_path / "a.jsonl", {written.format(key): text for key, text in captions.items()})
  rate("--protocol=sxs", *systems, "--out=page.html").succeeded()


_NOUNS = ["dog", "cat", "horse", "cow", "sheep", "goat", "bird", "duck", "swan", "bear", "lion", "wolf"]
_REFERENCES = [f"A {noun} in front of a house." for noun in _NOUNS]


@pytest.mark.parametrize(
  "written, with_references, said",
  [
    ("{}</s>", False, "of 12 captions, 12 have special tokens, such as '</s>'; raters will see it: xmcap score"),
    ("{}</s>", True, "xmcap score --clean=tokens writes predictions.jsonl without it"),
    ("Sure! Here is a caption: {}", True, "12 have a beginning that many share, such as 'Sure! Here is a caption:'"),
    ('{{"caption": "{}"}}', False, "12 have JSON around them"),
    ("<p>{}</p>", False, "12 have HTML"),
    ("{}", False, None),
    ("{}", True, None),
  ],
)  # fmt: skip
def test_human_rate_warns_of_markup_residue_in_captions(rate, tmp_path, written, with_references, said):
  texts = {f"k{place:02}": text.lower() for place, text in enumerate(_REFERENCES)}
  _write_captions(tmp_path / "a.jsonl", {key: f"{text} {key}" for key, text in texts.items()})
  _write_captions(tmp_path / "b.jsonl", {key: written.format(text) for key, text in texts.items()})
  _write_captions(tmp_path / "r.jsonl", dict(zip(texts, _REFERENCES, strict=True)))
  more = ["--references=r.jsonl"] if with_references else []
  made = rate("--protocol=sxs", "--predictions", "a=a.jsonl", "b=b.jsonl", *more, "--out=page.html")
  notes = [line for line in made.succeeded().out.splitlines() if line.startswith("note: ")]
  assert len(notes) == bool(said) and all(note.startswith("note: system 'b': ") for note in notes)
  assert not said or said in notes[0]


def test_human_rate_coco_cn_tags_page_to_report(rate, tmp_path):
  files.lines("more.txt", "k1 猫 鸟", "k2 树 海")
  tags = ("--predictions", "a=tags.txt", "b=more.txt", "--protocol=coco_cn_tags", "--language=zh", "--top=2")
  assert rate(*tags, "--out=page.html").succeeded().out.splitlines()[:3] == [
    "page.html: 6 tags, 2 systems, 2 pictures, 1 language, seed 0",
    "tags equal to another system's, and rated together with it: 2",
    "page.key.jsonl: which system wrote which tag; do not show it to the raters",
  ]
  key = files.rows(tmp_path / "page.key.jsonl")
  for rater, irrelevant in (("anna", "鸟"), ("bo", "狗鸟")):
    relevance = {row["item"]: -1 if row["tag"] in irrelevant else 1 for row in key}
    rows = ({"item": item, "rater": rater, "relevance": value} for item, value in relevance.items())
    files.jsonl(f"{rater}.jsonl", *rows)
  joined = rate("--join=page.key.jsonl", "anna.jsonl", "bo.jsonl", "--out=joined.jsonl")
  joined.succeeded("joined.jsonl: 16 ratings; next: xmcap human rubric --ratings=joined.jsonl")
  report = xmcap("human", "rubric", "--ratings=joined.jsonl", "--out=report").succeeded()
  rows = [line.split() for line in report.out.splitlines()]
  # By all, k1 has 猫, k2 all three: a has 1 of 2 and 2 of 2 right, and 1 of 1 and 2 of 3 of what is right.
  assert ["zh", "a", "all", "2", "0", "0.750", "0.833", "0.733"] in rows
  assert ["zh", "a", "any", "2", "0", "1.000", "0.833", "0.900"] in rows
  assert (tmp_path / "report/rubric_tags.csv").exists()


@pytest.mark.parametrize(
  "arguments, message",
  [
    ("--out=p.html", "needs --protocol=NAME, such as sxs or thumb, and --predictions=NAME=FILE"),
    ("--protocol=sxs --out=p.html", "needs --protocol"),
    ("--protocol=stars BOTH --out=p.html", "protocol 'stars': there are sxs, sxs5, thumb, coco_cn_captions,"),
    ("--protocol=thumb BOTH --top=3 --out=p.html", "--top is for a protocol of tags"),
    (
      "--protocol=coco_cn_tags --predictions=a=tags.txt -l=zh --out=p.html",
      "has 2 tags of 'k1' in 'zh'",
    ),
    ("--protocol=thumb BOTH --equal=tie --out=p.html", "--equal is for captions side by side"),
    (
      "--protocol=sxs BOTH --languages=en --equal=tie --out=p.html",
      "equal in all comparisons: there is nothing to rate",
    ),
    ("--protocol=sxs BOTH", "required: --out"),
    ("--protocol=sxs --predictions=base=base.jsonl --out=p.html", "needs two or more systems"),
    ("--protocol=sxs --predictions=base.jsonl --out=p.html", "write it as --predictions=NAME=PATH"),
    ("--protocol=sxs BOTH --predictions=base=base.jsonl --out=p.html", "'base' is named twice"),
    ("--protocol=sxs BOTH x.jsonl --out=p.html", "'x.jsonl': ratings need --join"),
    ("--protocol=sxs BOTH --pictures=link --out=p.html", "give the folder of the pictures"),
    ("--protocol=sxs BOTH --images=nowhere --out=p.html", "2 of 2 pictures are missing"),
    ("--protocol=sxs BOTH --languages=th --out=p.html", "no prediction in th"),
    ("--protocol=sxs --predictions=a=no.jsonl --out=p.html", "no.jsonl"),
    ("--join=no.jsonl --out=j.jsonl", "name the files that raters saved"),
    ("--join=no.jsonl x.jsonl --out=j.jsonl", "no.jsonl"),
    ("--join=no.jsonl x.jsonl --out=x.jsonl", "would overwrite the input"),
    ("--join=no.jsonl x.jsonl BOTH --out=j.jsonl", "leave out --predictions, --protocol, --language"),
  ],
)
def test_human_rate_usage_errors_are_one_line(rate, tmp_path, arguments, message):
  rate(*arguments.replace("BOTH", " ".join(_SYSTEMS)).split()).refused(message)
  assert not list(tmp_path.glob("p.*"))
