"""What `xmcap translate` reads and writes: captions of a corpus, references, predictions and prompts."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from xmcap.endpoint.translating import Text, Translation
from xmcap.errors import UsageError
from xmcap.ranked import openai_english, prompts
from xmcap.reading import predictions, references
from xmcap.reading.inputs import Input
from xmcap.terminal import shown

CORPORA = ("coco35l", "cc3m35l", "folder")
_TRAIN = ("train", "restval")  # Karpathy's, of which COCO-35L's train is made


class Unit(NamedTuple):
  """Texts that are written together, such as the references of an image; `row` is what else their line has."""

  key: str
  texts: Sequence[Text]
  row: Mapping[str, Any] = {}


Translated = Iterable[tuple[Unit, Sequence[Mapping[str, Translation]]]]
"""Units, with the translations of each of their texts by language."""


class Job(NamedTuple):
  """Texts to translate, in their order, how many there are, and how they are written."""

  units: Iterable[Unit]
  count: int
  lines: Callable[[Translated], Iterator[str]]


def captions(path: str, language: str, corpus: str, split: str = "") -> Job:
  """Returns the captions of a corpus.

  Args:
    path: for `cc3m35l` Conceptual Captions' TSV, of which a line at a time is read; else references of any layout.
    language: code of the captions.
    corpus: of CORPORA: for which build they are written.
    split: of files with splits, such as Karpathy's; `train` has his restval too.

  Raises:
    UsageError: the file is another, or has no such captions.
  """
  if corpus == "cc3m35l":
    count = sum(1 for _ in _of_tsv(path, language))
    return Job(_of_tsv(path, language), count, _translation_lines)
  units = []
  read = references.read_references(path, language=language)
  wanted = _TRAIN if split == "train" else (split,)
  for key, of_image in read.items():
    texts = of_image.get(language, ())
    if split and read.splits.get(key) not in wanted:
      continue
    if corpus == "coco35l" and not (key.isascii() and key.isdigit()):
      raise UsageError(
        f"{path}: '{shown(key)}' is no id of COCO: give --corpus=folder for a corpus of your own"
      )
    for number, text in enumerate(texts, 1):
      name = f"{int(key)}_{number}" if corpus == "coco35l" else read.names.get(key, key)
      if text.strip():
        units.append(Unit(name, [Text(name, text, language)], {"image_id": name}))
  if not units:
    here = f"of split '{split}' " if split else ""
    raise UsageError(f"{path}: no captions {here}in '{language}': name their language with --from")
  return Job(units, len(units), _row_lines if corpus == "folder" else _translation_lines)


def of_references(path: str, language: str) -> Job:
  """Returns the references of a language, for references in all languages in the layout of XM3600."""
  read = references.read_references(path, languages=[language], language=language)
  units = [
    Unit(
      key, texts, {"image/key": key, **({"image/locale": read.locales[key]} if key in read.locales else {})}
    )
    for key, of_image in read.items()
    if (texts := [Text(key, text, language) for text in of_image.get(language, ()) if text.strip()])
  ]
  return _job(units, path, "references", language, _reference_lines)


def of_predictions(path: str, language: str) -> Job:
  """Returns the predictions in a language, for predictions in all languages."""
  try:
    read = predictions.read_predictions(path)
  except UsageError:  # such as COCO's results, which do not say their language
    read = predictions.read_predictions(path, language)
  if read.failed:
    raise UsageError(f"{path}: has requests that failed, and no captions: ask for them again")
  units = [
    Unit(key, [Text(key, of_image[language], language)])
    for key, of_image in read.items()
    if of_image.get(language, "").strip()
  ]
  return _job(units, path, "predictions", language, _prediction_lines)


def of_prompts(path: str, language: str) -> Job:
  """Returns the templates of a language, of a file of prompts or of the authors' `babel_imagenet.py`."""
  if path.endswith(".py"):
    templates: Sequence[str] = openai_english.read(path).templates
  else:
    templates = prompts.read_prompts(path).get(language, ())
  units = [
    Unit(f"prompt {number}", [Text(f"prompt {number}", text, language)])
    for number, text in enumerate(templates, 1)
  ]
  return _job(units, path, "prompts", language, _prompt_lines)


def left_out(unit: Unit, translations: Sequence[Mapping[str, Translation]]) -> Iterator[str]:
  """Yields a line of JSON for each translation that a unit lacks: what was asked, why, and the answer."""
  for text, of_text in zip(unit.texts, translations, strict=True):
    for language, translation in of_text.items():
      if not translation.text:
        row = {"key": text.key, "language": language, "reason": translation.reason, "text": text.text}
        yield _line({**row, "answer": translation.answer})


def _job(units: Sequence[Unit], path: str, noun: str, language: str, lines) -> Job:
  if not units:
    raise UsageError(f"{path}: no {noun} in '{language}': name their language with --from")
  return Job(units, sum(len(unit.texts) for unit in units), lines)


def _of_tsv(path: str, language: str) -> Iterator[Unit]:
  """Yields the captions of `caption<TAB>URL`, by the numbers of their lines; empty ones keep their number."""
  with Input(path) as source:
    for number, line in source.lines():
      caption, tab, url = line.rpartition("\t")
      if not tab or "://" not in url:
        raise UsageError(f"{path}, line {number:,}: not `caption<TAB>URL`: give Conceptual Captions' TSV")
      if caption.strip():
        yield Unit(str(number), [Text(str(number), caption.strip(), language)], {"rec_num": number})


def _translation_lines(results: Translated) -> Iterator[str]:
  """Lines of CC3M-35L and COCO-35L, without translations back."""
  for unit, (by_language,) in results:
    (text,) = unit.texts
    for language, translation in by_language.items():
      if translation.text:
        yield _line({
          **unit.row, "src_lang": text.language, "trg_lang": language, "caption_tokenized": text.text,
          "translation_tokenized": translation.text, "backtranslation_tokenized": "",
        })  # fmt: skip


def _row_lines(results: Translated) -> Iterator[str]:
  """Rows for `data build folder`: each caption, and its translations, with who wrote them."""
  for unit, (by_language,) in results:
    (text,) = unit.texts
    yield _line({**unit.row, "language": text.language, "caption": text.text, "source": "human"})
    for language, translation in by_language.items():
      if translation.text:
        yield _line({**unit.row, "language": language, "caption": translation.text, "source": "mt"})


def _reference_lines(results: Translated) -> Iterator[str]:
  for unit, translations in results:
    own = {unit.texts[0].language: {"caption": [text.text for text in unit.texts]}}
    others = {
      language: {"caption": texts}
      for language in translations[0]
      if (texts := [of_text[language].text for of_text in translations if of_text[language].text])
    }
    yield _line({**unit.row, **own, **others})


def _prediction_lines(results: Translated) -> Iterator[str]:
  return predictions.as_lines(
    (unit.key, {text.language: text.text, **{code: of.text for code, of in by_language.items() if of.text}})
    for unit, (by_language,) in results
    for text in unit.texts
  )


def _prompt_lines(results: Translated) -> Iterator[str]:
  """One object of all languages, in capitals as the authors' file has them."""
  of_languages: dict[str, list[str]] = {}
  for unit, (by_language,) in results:
    (text,) = unit.texts
    of_languages.setdefault(text.language, []).append(text.text)
    for language, translation in by_language.items():
      if translation.text:
        of_languages.setdefault(language, []).append(translation.text)
  yield (
    json.dumps({code.upper(): texts for code, texts in of_languages.items()}, ensure_ascii=False, indent=2)
    + "\n"
  )


def _line(row: Mapping[str, Any]) -> str:
  return json.dumps(row, ensure_ascii=False) + "\n"
