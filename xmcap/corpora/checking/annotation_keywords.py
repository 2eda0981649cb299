"""The figures of COCO-CN's section III-C that need parts of speech, beside the printed ones.

Li et al., "COCO-CN for Cross-Lingual Image Tagging, Captioning and Retrieval" (2019). Parts of speech are those of the
release, by BosonNLP; sentences without any are split and tagged by `jieba.posseg`, another tagger. A keyword is a noun,
verb or adjective, a word whose part begins with n, v or a.
"""

import collections
import statistics
from collections.abc import Iterable, Sequence

from xmcap.corpora.building import tag_labels
from xmcap.corpora.building.annotations import Annotated, Sentence
from xmcap.grid import Grid
from xmcap.reading import label_words

LANGUAGE = "zh"
KINDS = {"nouns": "n", "verbs": "v", "adjectives": "a"}
"""Kind of keyword -> how its parts of speech begin."""

PAPER = {
  "characters of a sentence, mean": "16.8",
  "nouns of the vocabulary": "59.5%",
  "verbs of the vocabulary": "22.6%",
  "adjectives of the vocabulary": "5.1%",
  "distinct tags outside the vocabulary": "1,918",
  "a picture's tags outside its sentences": "45%",
  "novel keywords of a sentence": "45.3%",
  "novel nouns": "39.9%",
  "novel verbs": "51.9%",
  "novel adjectives": "69.5%",
  "vocabulary of the machine": "14,219",
  "sentences with words outside jieba's dictionary": "942",
}
"""Quantity -> as printed in Table III and in the text of section III-C."""

Tagged = list[tuple[str, str]]
"""The words of a sentence, without punctuation, with their parts of speech."""


def table(images: Iterable[Annotated]) -> str:
  """The quantities of sentences by people and of tags, beside the paper's."""
  counted = quantities(images)
  rows = [(name, counted.get(name, "-"), printed) for name, printed in PAPER.items()]
  return f"keywords and tags against the paper\n\n{Grid(('', 'found', 'paper'), tuple(rows)).text()}"


def quantities(images: Iterable[Annotated]) -> dict[str, str]:
  """Quantity of `PAPER` -> its value; without those of which there is nothing.

  A word of the vocabulary has the part of speech that it has most often. A picture's share of tags is averaged over
  pictures with tags and sentences, a sentence's share of novel keywords, those that no machine translation of the
  picture's captions has, over sentences with such keywords in pictures with translations.
  """
  characters, outside, unknown, machine = [], [], 0, set()
  parts: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
  tags: set[str] = set()
  novel: dict[str, list[float]] = collections.defaultdict(list)
  dictionary = tag_labels.dictionary()
  for image in images:
    human, translated = (_tagged_of(image.sentences, source) for source in ("human", "mt"))
    characters += [len(sentence.text) for sentence in image.sentences if _is_of(sentence, "human")]
    for word, part in (pair for sentence in human for pair in sentence):
      parts[word][part[:1]] += 1
    unknown += sum(any(word not in dictionary for word, _ in sentence) for sentence in human)
    of_image = set(label_words.words(image.tags.get(LANGUAGE, ())))
    tags |= of_image
    if of_image and human:
      spoken = {label_words.word(word) for sentence in human for word, _ in sentence}
      outside.append(len(of_image - spoken) / len(of_image))
    machine |= {word for sentence in translated for word, _ in sentence}
    if translated:
      _add_novel(novel, human, translated)
  values = {}
  if tags:
    values["distinct tags outside the vocabulary"] = f"{len(tags - set(map(label_words.word, parts))):,}"
  if machine:
    values["vocabulary of the machine"] = f"{len(machine):,}"
  if characters:
    values["characters of a sentence, mean"] = f"{statistics.fmean(characters):.1f}"
    values["sentences with words outside jieba's dictionary"] = f"{unknown:,}"
  begins = collections.Counter(counts.most_common(1)[0][0] for counts in parts.values())
  if parts:
    values |= {
      f"{kind} of the vocabulary": f"{begins[part] / len(parts):.1%}" for kind, part in KINDS.items()
    }
  shares = {"a picture's tags outside its sentences": outside, **novel}
  return values | {name: f"{statistics.fmean(share):.1%}" for name, share in shares.items() if share}


def _add_novel(novel: dict[str, list[float]], human: Sequence[Tagged], translated: Sequence[Tagged]) -> None:
  """Adds the shares of novel keywords of an image's sentences, of all kinds and of each."""
  kinds = {"novel keywords of a sentence": tuple(KINDS.values())}
  kinds |= {f"novel {kind}": (part,) for kind, part in KINDS.items()}
  everything = {
    word for sentence in translated for word, part in sentence if part.startswith(tuple(KINDS.values()))
  }
  for sentence in human:
    for name, begins in kinds.items():
      if keywords := {word for word, part in sentence if part.startswith(begins)}:
        novel[name].append(len(keywords - everything) / len(keywords))


def _is_of(sentence: Sentence, source: str) -> bool:
  return (sentence.language, sentence.source) == (LANGUAGE, source)


def _tagged_of(sentences: Iterable[Sentence], source: str) -> list[Tagged]:
  return [tagged(sentence) for sentence in sentences if _is_of(sentence, source)]


def tagged(sentence: Sentence) -> Tagged:
  """The words of a sentence, which are no punctuation, with parts of speech: the release's, else jieba's."""
  pairs = (
    zip(sentence.words, sentence.parts, strict=True)
    if sentence.words
    else tag_labels.tag_words(sentence.text)
  )
  return [(word, part) for word, part in pairs if any(character.isalnum() for character in word)]
