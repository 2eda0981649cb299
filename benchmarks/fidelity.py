"""Language fidelity on captions of people: references that it calls wrong, and captions in another language found.

False alarms: references of a language, each judged by the others, called wrong; counted apart are those on which it
abstains. Detection: captions of a language given for another one that shares a script, with the references of other
pictures. Both with the references of all languages of the set, and with those of the one language alone.

It reads what it finds and says what it skips: ../shared/multi30k, ../shared/coco_cn, ../shared/xm3600_sample, the names
of emoji in CLDR (from a Debian or npm package, as emoji36), the messages of this machine's programs (gettext), and any
further sets in the folder that the variable FIDELITY_TEXTS names: SET/CODE.txt with a caption a line.

usage: python benchmarks/fidelity.py
"""

import gettext
import json
import os
import pathlib
import random
import re
import statistics
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import report

from xmcap import languages
from xmcap.corpora.emoji import sources
from xmcap.errors import XmcapError
from xmcap.scoring.health import Vocabularies, fidelity, vocabularies

_SHARED = pathlib.Path(__file__).parents[2] / "shared"
_JUDGED = 200  # captions per pair of languages
_REFERENCES = 1000
_FEW = 60  # a set with fewer captions in a language has them only as examples
_CATALOGUES = {
  "no": ("nb", "no"),
  "fil": ("fil", "tl"),
  "zh": ("zh_CN",),
  "quz": ("quz", "qu"),
  "pt": ("pt", "pt_BR"),
}
_MARKUP = re.compile(r"[%\\<>{}|@=/\n#\[\]$~^*\d]|--")

Texts = dict[str, list[str]]


def _multi30k() -> Texts:
  files = {path.suffix[1:]: path for path in sorted((_SHARED / "multi30k").glob("task1_test_2016_flickr.*"))}
  return {code: path.read_text(encoding="utf-8").splitlines() for code, path in files.items()}


def _coco_cn() -> Texts:
  held = json.loads((_SHARED / "coco_cn" / "merged_captions_coco-cn_test.json").read_text(encoding="utf-8"))
  return {"zh": [row["caption"].replace(" ", "") for row in held["annotations"] if row["source"] == "cn"]}


def _xm3600() -> Texts:
  row = json.loads((_SHARED / "xm3600_sample" / "captions.jsonl").read_text(encoding="utf-8").splitlines()[0])
  return {code: row[code]["caption"] for code in languages.LANGUAGES}


def _emoji36() -> Texts:
  cldr = sources.find().cldr
  rng = random.Random(0)
  known = [
    emoji
    for emoji in cldr.names["en"]
    if all(emoji in cldr.names[code] for code in languages.TRAINED if code != "mi")
  ]
  scenes = [rng.sample(known, rng.choice([1, 2, 2, 3, 3])) for _ in range(2 * _REFERENCES)]
  return {
    code: [
      cldr.standard[code].join([names[emoji] for emoji in scene])
      for scene in scenes
      if set(scene) <= names.keys()
    ]
    for code, names in cldr.names.items()
  }


def _gettext() -> Texts:
  found = {}
  for code in languages.LANGUAGES:
    texts: dict[str, None] = {}
    for name in _CATALOGUES.get(code, (code,)):
      for path in sorted(pathlib.Path("/usr/share/locale", name, "LC_MESSAGES").glob("*.mo")):
        if not path.stem.startswith("iso_"):  # names of countries and languages
          texts |= dict.fromkeys(_messages(path))
    found[code] = list(texts)[:: max(1, len(texts) // (2 * _REFERENCES))]
  return {code: texts for code, texts in found.items() if len(texts) >= _FEW}


def _messages(path: pathlib.Path) -> list[str]:
  with path.open("rb") as file:
    try:
      catalogue = gettext.GNUTranslations(file)._catalog  # pyright: ignore[reportAttributeAccessIssue]
    except (OSError, UnicodeDecodeError):
      return []
  texts = [
    text.replace("_", "").replace("&", "").strip() for key, text in catalogue.items() if key and text != key
  ]
  return [text for text in texts if not _MARKUP.search(text) and 6 <= len(text) <= 80]


def _further() -> dict[str, Texts]:
  folder = os.environ.get("FIDELITY_TEXTS")
  return {
    path.name: {
      file.stem: [line for line in file.read_text(encoding="utf-8").splitlines() if line]
      for file in sorted(path.glob("*.txt"))
    }
    for path in (sorted(pathlib.Path(folder).iterdir()) if folder else [])
    if path.is_dir()
  }


_SETS: dict[str, Callable[[], Texts]] = {
  "multi30k, sentences": _multi30k,
  "COCO-CN, sentences": _coco_cn,
  "XM3600's sample: one picture": _xm3600,
  "emoji36, names of 1 to 3 emoji": _emoji36,
  "messages of programs, 6 to 80 characters": _gettext,
}


def _measure(texts: Texts, alone: bool) -> tuple[str, ...]:
  """Returns the figures of a row."""
  few = min(map(len, texts.values())) < _FEW
  judged = {code: captions if few else captions[1::2][:_JUDGED] for code, captions in texts.items()}
  given = {code: captions[:_REFERENCES] for code, captions in texts.items()}
  held = {code: captions if few else captions[::2][:_REFERENCES] for code, captions in texts.items()}
  all_given, all_held = Vocabularies.of(given), Vocabularies.of(held)
  wrong, undecided, found = {}, {}, {}
  for code in texts:
    verdicts = fidelity.judge(
      code, given[code], Vocabularies.of({code: given[code]}) if alone else all_given, True
    )
    wrong[code], undecided[code] = (
      _share(verdicts, fidelity.Verdict.WRONG),
      _share(verdicts, fidelity.Verdict.UNDECIDED),
    )
    known = Vocabularies.of({code: held[code]}) if alone else all_held
    for other in set(vocabularies.neighbours(code, texts)) & texts.keys():
      verdicts = fidelity.judge(code, judged[other], known)
      found[f"{other} for {code}"] = _share(verdicts, fidelity.Verdict.WRONG)
  english = {pair: share for pair, share in found.items() if pair.startswith("en ")}
  low = sum(share < 0.95 for share in found.values())
  return (
    _worst(wrong, reverse=True),
    _worst(undecided, reverse=True),
    _worst(found),
    _worst(english),
    f"{low} of {len(found)}",
  )


def _share(verdicts: np.ndarray, verdict: int) -> float:
  with_letters = verdicts[verdicts != fidelity.Verdict.NO_LETTERS]
  return float((with_letters == verdict).mean()) if len(with_letters) else 0.0


def _worst(shares: Mapping[str, float], reverse: bool = False) -> str:
  """Returns the mean and the three worst."""
  if not shares:
    return "-"
  worst = sorted(shares, key=lambda name: shares[name], reverse=reverse)[:3]
  return (
    f"{statistics.mean(shares.values()):.1%} ({', '.join(f'{name} {shares[name]:.1%}' for name in worst)})"
  )


def _sets() -> tuple[dict[str, Texts], list[str]]:
  found, skipped = {}, []
  for name, read in _SETS.items():
    try:
      texts = read()
    except (OSError, XmcapError) as error:
      texts = {}
      print(f"skipped: {name}: {error}")
    if texts:
      found[name] = texts
    else:
      skipped.append(name)
  return {**found, **_further()}, skipped


def _described(texts: Texts) -> str:
  codes: Sequence[str] = list(texts)
  return " ".join(codes) if len(codes) < 12 else f"{len(codes)}"


def main() -> None:
  """Prints and keeps two rows per set."""
  sets, skipped = _sets()
  rows = []
  for name, texts in sets.items():
    for alone in (False, True):
      row = (name, _described(texts), "its own" if alone else "all", *_measure(texts, alone))
      rows.append(row)
      print(" | ".join(row), flush=True)
  columns = (
    "captions", "languages", "references of", "references called wrong (worst)", "undecided (worst)",
    "other languages found (worst)", "English found (worst)", "pairs below 95%",
  )  # fmt: skip
  notes = [
    f"Up to {_REFERENCES:,} references of a language, each judged by the others; up to {_JUDGED} captions of another "
    "language that shares a script, given for this one, with the references of other pictures. `wit`, `xflickrco` and "
    "`marvl`, where they are there: captions of Wikipedia (names, and other languages among them), of xFlickrCO and of "
    "MaRVL, from the repository of IGLUE; `nllb`: machine-translated captions of COCO, from multicaptioneval.",
    "Margin and weight of the identifier were chosen on multi30k, emoji36, gettext, `xflickrco` and `wit`; the other "
    "sets were not in that choice. `wit`, `xflickrco`, `marvl` and `nllb` need the variable FIDELITY_TEXTS. Of 22 "
    "references of `wit` called wrong in each language, read by eye, nearly all in ar, el, ja, ko, tr and vi are names "
    "or titles in another language; about half in da and most in en are not.",
    *([f"Skipped here: {', '.join(skipped)}."] if skipped else []),
  ]
  title = "Language fidelity: false alarms on references, and captions in another language found"
  report.write("fidelity", title, rows, columns, notes)


if __name__ == "__main__":
  main()
