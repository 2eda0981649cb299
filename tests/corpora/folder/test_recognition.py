"""Recognition of image, caption and language columns by their names and values."""

import hashlib
import json
import random

import hypothesis
import pytest
from hypothesis import strategies as st
from langcodes import registry_parser

from xmcap import languages
from xmcap.corpora.folder import kinds, table
from xmcap.corpora.folder.recognition import recognise
from xmcap.corpora.folder.table import ColumnNames, Placed
from xmcap.errors import UsageError

ALL_CODES = sorted(
  entry["Subtag"]
  for entry in registry_parser.parse_registry()
  if entry["Type"] == "language" and ".." not in entry["Subtag"]
)
"""The 8,212 codes of ISO 639 in IANA's registry, which langcodes 3.5 has."""

WORDS = [
  "ball",
  "house",
  "river",
  "small",
  "under",
  "near",
  "paka",
  "nyumba",
  "mlima",
  "gato",
  "agua",
  "fleur",
]


def recognised(columns, asked=None, rows=12):
  """Recognises the columns {name: function of the row's number or value}."""
  made = [
    Placed(f"x, line {row}", {name: of(row) if callable(of) else of for name, of in columns.items()})
    for row in range(rows)
  ]
  found = recognise(made, asked or ColumnNames(), "x")[0]
  if lacks := found.lacks():
    raise UsageError(lacks)
  return found


def phrase(row, seed=0):
  drawn = random.Random(100 * row + seed)
  return " ".join(drawn.choices(WORDS, k=drawn.randint(3, 7)))


def roles(found):
  return {column.name: (column.role, column.language) for column in found.columns.values()}


NOT_CAPTIONS = {
  "addresses": lambda row: f"https://example.com/a/{row}.jpg?x={row}",
  "hosts": lambda row: f"example.com/picture/{row}",
  "mails": lambda row: f"someone{row}@example.org",
  "numbers": lambda row: str(row * 37),
  "decimals": lambda row: f"{row / 7:.6f}",
  "floats": lambda row: row / 7,
  "dates": lambda row: f"2024-05-{row + 10} 10:22:11 UTC",
  "md5": lambda row: hashlib.md5(str(row).encode()).hexdigest(),
  "sha256": lambda row: "sha256:" + hashlib.sha256(str(row).encode()).hexdigest(),
  "uuid": lambda row: f"6ba7b810-9dad-11d1-80b4-00c04fd43{row:03d}",
  "splits": lambda row: ("train", "val", "test", "Dev")[row % 4],
  "files": lambda row: f"photos/IMG_{row:04d}.png",
  "other files": lambda row: f"text_{row}.txt",
  "windows": lambda row: f"C:\\Users\\Noor\\My photos\\IMG_{row}.tif",
  "identifiers": lambda row: f"img_{row}",
  "flags": lambda row: ("true", "false")[row % 2],
  "codes": lambda row: ("en", "th", "fa")[row % 3],
  "objects": lambda row: json.dumps({"a b c": row}),
  "nothing": lambda row: "",
}  # fmt: skip


@hypothesis.settings(max_examples=200, derandomize=True)
@hypothesis.given(
  st.lists(st.sampled_from(["words", *NOT_CAPTIONS]), min_size=1, max_size=8),
  # Most codes are of languages that no column's name means unasked.
  st.lists(
    st.sampled_from(ALL_CODES) | st.sampled_from([*languages.LANGUAGES, *languages.WIDE]),
    min_size=8,
    max_size=8,
    unique_by=str.lower,
  ),
  st.sampled_from(["", "caption_", "TEXT_"]),
  st.integers(0, 8),
)
def test_language_code_columns_with_words_are_captions(contents, codes, prefix, place):
  named = [(prefix + code, content) for code, content in zip(codes, contents, strict=False)]
  named.insert(place % (len(named) + 1), ("image", "files"))
  columns = {name: phrase if content == "words" else NOT_CAPTIONS[content] for name, content in named}
  contents_of = dict(named)
  wanted = {
    name
    for name, content in named
    if content == "words" and languages.named(name.removeprefix(prefix) if name != "image" else name)
  }
  try:
    found = recognised(columns)
  except UsageError as error:
    assert not wanted and "no column with captions" in str(error) and "--caption_columns" in str(error)
    return
  assert {column.name for column in found.captions} == wanted
  assert {contents_of[column.name] for column in found.missed} <= {"words"}
  assert found.image == "image"
  # Words under the code of a language that is not known unasked are said to be missed.
  assert {name for name, content in named if content == "words"} == wanted | {c.name for c in found.missed}


@pytest.mark.parametrize("name", ["caption", "text", "description", "en", "Persian", "caption_th"])
@pytest.mark.parametrize("content", NOT_CAPTIONS)
def test_caption_column_with_other_values_is_no_caption(name, content):
  columns = {"image": NOT_CAPTIONS["files"], name: NOT_CAPTIONS[content], "sw": phrase}
  assert roles(recognised(columns))["sw"] == ("caption", "sw")
  assert [column.name for column in recognised(columns).captions if column.name == name] == (
    [name] if content == "nothing" and name in ("caption", "text", "description") else []
  )


@pytest.mark.parametrize(
  ("name", "code"),
  [("qu", "quz"), ("iw", "he"), ("tl", "fil"), ("jp", "ja"), ("nb", "no"), ("zh-CN", "zh"), ("ZH_cn", "zh")]
  + [("Quechua", "quz"), ("فارسی", "fa"), ("Persian", "fa"), ("français", "fr"), ("Francais", "fr"), ("TH", "th")]
  + [("Runasimi (quz)", "quz"), ("Persian (fa)", "fa"), ("Persian [fa]", "fa"), ("Runasimi quz", "quz")]
  + [("Persian / فارسی", "fa"), ("sw | Kiswahili", "sw"), ("Persian – fa", "fa"), ("English/en", "en")]
  + [("Quechua (Cusco)", "quz"), ("Chinese (Traditional)", "zh-Hant"), ("Portuguese (pt-BR)", "pt-BR")]
  + [("Català", "ca"), ("Catalan", "ca"), ("pt_br", "pt-BR"), ("caption_qu", "quz"), ("Swahili caption", "sw")],
)  # fmt: skip
def test_language_name_columns_are_captions(name, code):
  assert roles(recognised({"image": "a.jpg", name: phrase}))[name] == ("caption", code)


@pytest.mark.parametrize(
  "name", ["raw", "len", "is", "as", "so", "to", "am", "be", "ca", "text_raw", "caption_len", "Male"]
)
def test_ambiguous_language_code_columns_are_missed(name):
  found = recognised({"image": "a.jpg", "en": phrase, name: phrase})
  assert [column.name for column in found.captions] == ["en"]
  assert [column.name for column in found.missed] == [name]
  assert found.lines()[-1] == f"to read all captions: --caption_columns=en=en,LANGUAGE={name}"
  asked = recognised({"image": "a.jpg", name: phrase}, ColumnNames(captions=(f"quz={name.upper()}",)))
  assert roles(asked)[name] == ("caption", "quz") and not asked.missed


@pytest.mark.parametrize("name", ["raw", "alt", "txt", "as", "ca"])
def test_asked_caption_column_is_not_taken_for_a_language(name):
  asked = ColumnNames(captions=(name,), default_language="en")
  assert roles(recognised({"image": "a.jpg", name: phrase}, asked))[name] == ("caption", "")


def test_caption_columns_of_flickr30k_and_vatex():
  of_flickr = {
    "raw": lambda row: json.dumps([phrase(row), phrase(row, 1)]),
    "sentids": "[0, 1]",
    "filename": "a.jpg",
  }
  assert roles(recognised(of_flickr))["raw"] == ("caption", "")
  of_vatex = {"videoID": "a_0", "enCap": lambda row: [phrase(row)], "chCap": ["一个球"]}
  of_columns = roles(recognised(of_vatex))
  assert of_columns["enCap"] == ("caption", "en") and of_columns["chCap"] == ("caption", "zh")


@pytest.mark.parametrize("name", ["Persian (ar)", "photo no", "caption of fa", "my (own) words"])
def test_contradictory_language_column_names_are_ignored(name):
  assert roles(recognised({"image": "a.jpg", "en": phrase, name: phrase}))[name][0] == "ignored"


def test_suggested_caption_columns_option_is_quoted():
  found = recognised({"image": "a.jpg", "Persian": phrase, "my notes": phrase})
  assert found.lines()[-1] == "to read all captions: --caption_columns='fa=Persian,LANGUAGE=my notes'"
  again = recognised(
    {"image": "a.jpg", "Persian": phrase, "my notes": phrase},
    ColumnNames(captions=("fa=Persian", "quz=my notes")),
  )
  assert [column.language for column in again.captions] == ["fa", "quz"] and not again.missed


def test_id_column_is_indonesian_by_its_values():
  words = lambda row: WORDS[row]  # noqa: E731
  assert roles(recognised({"image": "a.jpg", "id": phrase}))["id"] == ("caption", "id")
  assert roles(recognised({"image": "a.jpg", "en": words, "id": words}))["id"] == ("caption", "id")
  with pytest.raises(UsageError, match="no column with captions"):
    recognised({"image": "a.jpg", "id": words})


@pytest.mark.parametrize(
  ("columns", "picture"),
  [
    ({"depth": b"\xff\xd8\xff", "Image": b"\xff\xd8\xff"}, "Image"),
    ({"url": "http://x/a.jpg", "file_name": "a.jpg"}, "file_name"),
    ({"mask": "m.png", "Photo": "a.jpg"}, "Photo"),
    ({"file_name": "a.jpg", "image_path": "photos/a.jpg"}, "image_path"),
    ({"where": "a.jpg"}, "where"),
    ({"id": "17"}, "id"),
  ],
)
def test_image_column_is_recognized(columns, picture):
  assert recognised({**columns, "en": phrase}).image == picture


@pytest.mark.parametrize(
  "columns",
  [
    {"left": b"\xff\xd8\xff", "right": b"\xff\xd8\xff"},
    {"file_name": "a.jpg", "image_path": "b.jpg"},
    {"l": "a.jpg", "r": "b.jpg"},
  ],
)
def test_several_image_columns_are_refused(columns):
  with pytest.raises(UsageError, match="several columns .*--image_column="):
    recognised({**columns, "en": phrase})
  assert recognised({**columns, "en": phrase}, ColumnNames(image=list(columns)[1])).image == list(columns)[1]


def test_unrecognized_columns_error_names_the_option():
  with pytest.raises(UsageError, match=r"'Bild' .*, 'Notiz' .*: wanted is .*image.*--image_column=NAME"):
    recognised({"Bild": "zwei Bälle", "Notiz": phrase})
  with pytest.raises(
    UsageError,
    match=r"'notes' \(looks like captions\): wanted is caption.*: give --caption_columns=LANGUAGE=notes",
  ):
    recognised({"image": "a.jpg", "notes": phrase})


def test_caption_field_only_in_later_rows():
  found = recognised({"image": "a.jpg", "en": phrase})
  late = {"th": "ลูกบอล", "fa": "https://example.com/a", "raw": "two small balls"}
  assert [column.name for column in found.captions_of(late)] == ["th"]
  assert [column.name for column in found.missed] == ["raw"]


def test_caption_column_with_empty_first_rows():
  found = recognised({"image": "a.jpg", "th": "", "fa": None, "text_raw": "", "sw": ""})
  assert not found.captions
  assert [column.name for column in found.captions_of({"th": "ลูกบอล", "sw": "", "fa": "17"})] == ["th"]
  assert [column.name for column in found.captions_of({"th": "17", "sw": "paka", "fa": "گل"})] == ["th", "sw"]
  assert not list(found.captions_of({"text_raw": "two small balls"})) and len(found.missed) == 1


def test_recognition_table_fits_100_columns():
  found = recognised({"image": "a.jpg", "en": phrase, "a" * 200: "x y", "url": "http://x/" + "y" * 300})
  lines = found.lines()
  assert max(map(len, lines)) <= 100 and len(lines) == 5
  assert lines[1].split()[:2] == ["image", "picture"] and lines[2].split()[:3] == ["en", "caption", "en"]


def test_recognition_sample_is_bounded():
  taken = []

  def rows():
    for row in range(1_000):
      taken.append(row)
      yield Placed(str(row), {"image": "a.jpg", "en": "x y" * 100_000})

  found, again = recognise(rows(), ColumnNames(), "x")
  assert len(taken) < 40 and found.image == "image"
  assert sum(1 for _ in again) == 1_000


@pytest.mark.parametrize(
  ("text", "kind"),
  [("a dog", kinds.WORDS), ("2 dogs", kinds.WORDS), ("paka", kinds.WORDS), ("ua", kinds.WORDS), ("猫", kinds.WORDS)]
  + [("and/or", "names of files"), ("???? ??", kinds.LOST), ("12 34", "numbers"), ("to be", kinds.WORDS)]
  + [("WhatsApp Image 2024-05-01 at 10.22.11.jpeg", kinds.PICTURE_FILES), ("NaN", ""), ("1e-5", "numbers")],
)  # fmt: skip
def test_kind_of_a_cell(text, kind):
  assert kinds.kind_of(text) == kind


def test_image_column_order_begins_with_image():
  assert table.PICTURES[0] == "image" and table.PICTURES.index("url") == len(table.PICTURES) - 1
