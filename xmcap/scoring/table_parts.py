"""What each measure adds to a table: notes for its readers, and parts of its signature."""

from collections.abc import Mapping, Sequence

from xmcap import languages as languages_lib
from xmcap.digests import digest
from xmcap.digests import of_images as digest_of_images
from xmcap.errors import UsageError
from xmcap.scoring import health as health_lib
from xmcap.scoring import tokenizers
from xmcap.scoring.language import MOST_LETTERS, MOST_OTHER_WORDS, Scored
from xmcap.scoring.options import ScoringOptions, Settled
from xmcap.scoring.tables import language_fidelity
from xmcap.scoring.tables.score_table import TablePart


def of_languages(scored: Sequence[str]) -> TablePart:
  """Notes on the languages that are not among the 36, and on those of them without spaces."""
  notes = []
  scored = [language for language in scored if language not in languages_lib.LANGUAGES]
  for spaces, words in (
    (True, "words are split at white space"),
    (False, "written without spaces, so --tokenizer=default takes each character for a word"),
  ):
    further = [languages_lib.get(code) for code in scored if languages_lib.get(code).spaces is spaces]
    if further:
      named = ", ".join(f"{language.code} ({language.english_name})" for language in further)
      notes.append(f"{named} {'is' if len(further) == 1 else 'are'} not among the 36 languages: {words}")
  return TablePart(notes)


def of_protocol(settled: Settled) -> TablePart:
  """What the readers of a table must know about its protocol."""
  return TablePart(settled.notes)


def of_options(options: ScoringOptions, subset: str) -> TablePart:
  """The options in the signature; `subset` is that of the images, or "all"."""
  return TablePart(signature={"subset": subset, **options.signature})


def of_words(of_language: Mapping[str, Scored], options: ScoringOptions) -> TablePart:
  """The tokeniser and the document frequencies, with notes on words, see `_notes_on_words`."""
  tokenizer = options.settled.tokenizer
  versions: dict[str, list[str]] = {}
  for language, outcome in of_language.items():
    versions.setdefault(outcome.tokenizer, []).append(language)
  words = ",".join(
    f"{version}[{'all' if len(versions) == 1 else ' '.join(languages)}]"
    for version, languages in sorted(versions.items(), key=lambda item: (-len(item[1]), item[0]))
  )
  hashes = "".join(
    f"{language}:{outcome.document_frequency_hash}\n" for language, outcome in of_language.items()
  )
  signature = {
    "document_frequency": f"{'file' if options.document_frequencies else 'corpus'}#{digest(hashes)}",
    "tokenizer": f"{tokenizer}-{words}",
    "normalization": tokenizers.get(tokenizer, next(iter(of_language)), options.normalize).normalization,
  }
  return TablePart(_notes_on_words(of_language, "" if options.settled.protocol else tokenizer), signature)


def _notes_on_words(of_language: Mapping[str, Scored], tokenizer: str) -> list[str]:
  """Returns notes on the words of references, on captions that were hardly split, and on letters with two spellings.

  `tokenizer` is its name, "" if the words are those of a protocol. Raises UsageError if the release splits more than
  `MOST_OTHER_WORDS` of a language's references in another way.
  """
  other = {language: outcome.other_words for language, outcome in of_language.items() if outcome.other_words}
  if refused := [language for language, share in other.items() if share > MOST_OTHER_WORDS]:
    shares = ", ".join(f"{language} {other[language]:.0%}" for language in refused)
    rest = ",".join(language for language in of_language if language not in refused)
    raise UsageError(
      f"--tokenizer=given: the release splits these references in another way than predictions can be split: {shares}; "
      f"use --tokenizer=default or char{f', or score only --languages={rest}' if rest else ''}"
    )
  notes = []
  if other:
    shares = ", ".join(f"{language} {share:.1%}" for language, share in other.items())
    notes.append(f"references whose words in the release differ from those of --tokenizer=default: {shares}")
  whole = {
    language: outcome.letters for language, outcome in of_language.items() if outcome.letters > MOST_LETTERS
  }
  if whole and tokenizer:
    letters = ", ".join(f"{language} {count:.0f}" for language, count in whole.items())
    notes.append(
      f"{health_lib.named(list(whole))}: captions have no spaces, so --tokenizer={tokenizer} leaves nearly each as "
      f"one word (letters a word: {letters}); use --tokenizer=default or char"
    )
  variants = "; ".join(
    f"{language}: {outcome.variants}" for language, outcome in of_language.items() if outcome.variants
  )
  if variants:
    notes.append(f"letters with two spellings: {variants}; --normalize=orthography unifies them")
  return notes


def of_images(of_language: Mapping[str, Scored], options: ScoringOptions) -> TablePart:
  """The images and their references, with a note where CIDEr is of a single image."""
  keys = {key for outcome in of_language.values() for key in outcome.statistics.keys}
  num_references = sum(outcome.statistics.num_counted for outcome in of_language.values())
  references = "".join(f"{language}:{outcome.references_hash}\n" for language, outcome in of_language.items())
  order = "".join(
    f"{language}:{outcome.order_hash}\n" for language, outcome in of_language.items() if outcome.order_hash
  )
  signature = {
    "languages": " ".join(of_language),
    "images": digest_of_images(keys),
    "references": f"{num_references}#{digest(references)}",
    **({"order": digest(order)} if order else {}),
  }
  return TablePart(_notes_on_single_images(of_language, options), signature)


def _notes_on_single_images(of_language: Mapping[str, Scored], options: ScoringOptions) -> list[str]:
  single = [language for language, outcome in of_language.items() if len(outcome.statistics.keys) == 1]
  if options.document_frequencies or not single or not {"cider", "cider_d"} & set(options.settled.metrics):
    return []
  return [
    f"CIDEr on a single image is 0 by definition, as each n-gram occurs in every image: {', '.join(single)}; give "
    "document frequencies of more images with --df"
  ]


def of_emptied(of_language: Mapping[str, Scored], vocabularies: health_lib.Vocabularies) -> TablePart:
  """The captions in another language that were scored as empty ones, and by which words they were told."""
  counts = {language: outcome.num_emptied for language, outcome in of_language.items()}
  signature = {"wrong_language": language_fidelity.signature(vocabularies)}
  return TablePart(language_fidelity.notes_on_emptied(counts), signature)
