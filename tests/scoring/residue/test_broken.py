"""Broken characters: exact repair, notes of what cannot be repaired, and health."""

import pytest

from xmcap.scoring import residue, score

_BROKEN = {
  "entities": {
    "a dog &amp; a cat&#39;s": "a dog & a cat's",
    "the &quot;big&quot; dog &lt;3 &#x27;s": 'the "big" dog <3 \'s',
    "a dog &amp;amp; a cat &amp;#39;": "a dog & a cat '",
    "un v&eacute;lo": "un vélo",
    "a &quot ; big & quot ; dog& # 39; s": 'a " big " dog\' s',  # as Google Translate writes them
    "it&#39s a dog": "it's a dog",
    "a dog &#55357;&#56374;": "a dog 🐶",  # UTF-16 of JavaScript
  },
  "escapes": {
    r"\u72ac\u304c\u6d5c\u8fba": "犬が浜辺",
    r"\\u72ac\\u304c": "犬が",
    r"a dog \ud83d\udc36 \U0001f436 \u{1f436}": "a dog 🐶 🐶 🐶",
    r"un v\xe9lo, un v\xc3\xa9lo, \x{e9}t\x{e9}": "un vélo, un vélo, été",
    r"un v\303\251lo": "un vélo",
    "un vu00e9lo dans lu2019herbe": "un vélo dans l’herbe",  # stripslashes() of PHP
    "u72acu304cu6d5c": "犬が浜",
    "un v<U+00E9>lo": "un vélo",  # R
    "un v<c3><a9>lo": "un vélo",
    "un v_x00E9_lo": "un vélo",  # Excel
    "Un%20v%C3%A9lo%20rouge": "Un vélo rouge",
    "Un+v%C3%A9lo+rouge": "Un vélo rouge",
    "un v=C3=A9lo": "un vélo",
    r"b'un v\xc3\xa9lo'": "un vélo",  # str(bytes) of Python
    r"a \"big\" dog\'s": 'a "big" dog\'s',
    r"a dog\nA cat": "a dog\nA cat",
  },
  "subwords": {
    "\u2581a\u2581dog\u2581runs": "a dog runs",
    "\u2581a \u2581do g \u2581run s": "a dog runs",
    "a dog walk ##ing ##s": "a dog walkings",
    "a do@@ g wal@@ k@@ ing": "a dog walking",
    "a do\uffedg walk \uffeding": "a dog walking",
    "well @-@ known 3 @,@ 000": "well-known 3,000",
    "a</w>dog</w>runs</w>": "a dog runs",
    "a</w> do g</w> run s</w>": "a dog runs",
    "aĠdogĠruns": "a dog runs",
    "Ġa Ġdo g Ġruns": "a dog runs",
    # By bytes_to_unicode of transformers 5.
    "unĠvÃ©loĠÃłĠcÃ´tÃ©Ġd'uneĠÃ©cole": "un vélo à côté d'une école",
    "çĬ¬ãģĮæµľè¾ºãĤĴèµ°ãģ£ãģ¦ãģĦãĤĭ": "犬が浜辺を走っている",
    "à¸£à¸ĸà¸ªà¸µà¹ģà¸Ķà¸ĩ": "รถสีแดง",
  },
  "invisible": {
    "\ufeffa dog": "a dog",
    "a d\u200bog \u200eruns": "a dog runs",
    "a\xad dog\x08": "a dog",
    "\x1b[32ma dog\x1b[0m": "a dog",
  },
  "mojibake": {
    "vÃ©lo Ã cÃ´tÃ©": "vélo à côté",  # the no-break space of à became a space
    "un chien Ã la plage": "un chien à la plage",
  },
}


@pytest.mark.parametrize(
  ("kind", "broken", "whole"), [(kind, *pair) for kind, pairs in _BROKEN.items() for pair in pairs.items()]
)
def test_broken_characters_are_classified_and_repaired(kind, broken, whole):
  found = residue.clean([broken], [], residue.BROKEN)
  assert (found.captions, list(found.rows)) == ([whole], [kind])
  assert not residue.clean([whole], [], residue.BROKEN).rows


@pytest.mark.parametrize(
  ("encoding", "text"),
  [
    ("latin-1", "Un homme fait du vélo dans l'herbe"),
    ("latin-1", "犬が浜辺を走っている"),
    ("cp1252", "l’été"),
    ("cp1252", "20 °C"),
    ("cp1252", "một con chó chạy"),
    ("cp1252", "T恤上的狗 🐶"),
    ("cp1250", "Tři psi běží po trávě"),
    ("cp1251", "собака бежит по траве"),
    ("cp1251", "fährt"),
    ("cp1253", "ένας σκύλος"),
    ("cp1254", "bir köpek çimlerde"),
    ("cp1256", "كلب يجري على الشاطئ"),
    ("cp874", "สุนัขวิ่งบนชายหาด"),
    ("koi8-r", "собака бежит"),
    ("mac-roman", "Köpfe über Wasser"),
    ("cp437", "Köpfe über Wasser"),
  ],
)
def test_mojibake_is_read_in_its_encoding_again(encoding, text):
  # Where an encoding lacks a byte, programs write the control character of that number.
  def read(text):
    return "".join(bytes([byte]).decode(encoding, "ignore") or chr(byte) for byte in text.encode())

  assert residue.clean([read(text)], [], ["mojibake"]).captions == [text]
  if encoding in ("latin-1", "cp1252"):
    assert residue.clean([read(read(text))], [], ["mojibake"]).captions == [text]


# ftfy 6.3.1 changes none of them either.
@pytest.mark.parametrize(
  "caption",
  [
    "CAFÉ”", "C'È…", "“PÅ…”", "CAFÉ’S MENU", "Îşi bea cafeaua", "Çıplak adam", "biely plášť", "lluna en l’últim quart",
    "SZKÓŁ", "MANHÃ…", "MANHÃ", "voilà…”", "là\xa0»", "Spaß“", "2 ×\xa04", "Àà bẹ̀", "سگ", "รถ", "เพชรฆาต", "рак", "Ні",
    "A&M", "R&D; x", "a &regular; cat", "fish & chips;", "100%", "50%25", "a=b", "\\o/", "¯\\_(ツ)_/¯", "\\nabla",
    "#Peru2019", "sku0012", "succedea",
    "#1", "nice ##Dog", "## 2", "a@@b", "mappa tal-Ġappun", "Ġnien sabiħ", "İstanbul", "Ģirts",
    "می\u200cشود", "👩\u200d🚀", "ক্\u200d", "\u200fא", "ឆ្កែ\u200bមួយ", "ＡＢ，", "ā ē Ō",
  ],
)  # fmt: skip
def test_cleaning_broken_characters_keeps_intact_captions(caption):
  found = residue.clean([caption], [], residue.BROKEN)
  assert found.captions == [caption] and not found.rows and not found.lost


def test_escapes_and_entities_are_decoded_before_json():
  caption = '{"caption": "a \\"dog\\" &quot;&amp;&quot; \\\\u72ac\\nb"}'
  assert residue.clean([caption], [], ("escapes", "entities", "json")).captions == ['a "dog" "&" 犬\nb']


_NOUNS = ("chien", "chat", "homme", "bateau", "train", "cheval", "oiseau", "garçon")
_REFERENCES = {f"k{i}": {"fr": [f"un {noun} à côté d'une école"]} for i, noun in enumerate(_NOUNS)}
_CAPTIONS = {key: {"fr": held["fr"][0].replace("école", "forêt")} for key, held in _REFERENCES.items()}


@pytest.mark.parametrize(
  ("make", "note"),
  [
    (
      lambda text: text.encode().decode("cp1252"),
      "UTF-8 read in another encoding (mojibake), such as 'Ã', which no reference has; --clean=mojibake removes it",
    ),
    (lambda text: text.replace("'", "&#39;"), "entities of HTML, such as '&#39;', which no reference has"),
    (
      lambda text: f"{text} \ufffd",
      "U+FFFD in the place of lost characters, which no reference has; nothing",
    ),
    (lambda text: f"{text} \ue000", "U+E000 in the place of lost characters"),
  ],
)
def test_broken_captions_count_as_wrong_language(make, note):
  broken = {key: {"fr": make(held["fr"])} for key, held in _CAPTIONS.items()}
  result = score(_REFERENCES, broken, health=True)
  assert any(f"fr: 8 of 8 captions have {note}" in text for text in result.table.notes), result.table.notes
  assert result.table.shares["fidelity"]["fr"] == 0.0
  assert not any("in another language" in text for text in result.table.notes)
  assert score(_REFERENCES, _CAPTIONS, health=True).table.shares["fidelity"]["fr"] == 1.0
  # References that have them as often are no less broken, but captions match them.
  references = {key: {"fr": [make(text) for text in held["fr"]]} for key, held in _REFERENCES.items()}
  notes = score(references, broken, health=True).table.notes
  assert not any(" have " in text or "another language" in text for text in notes), notes
  notes = score(references, _CAPTIONS, health=True).table.notes
  assert any("fr: 8 of 8 references have" in text and "cannot match them" in text for text in notes), notes
