"""Removes residue from captions by kind, and counts what it removed."""

import collections
import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from xmcap import wording
from xmcap.errors import UsageError
from xmcap.scoring.residue import affixes, characters
from xmcap.scoring.residue.forms import FORMS, Joined

BROKEN = ("subwords", "escapes", "entities", "mojibake", "invisible")
"""Kinds of residue that are broken characters."""

KINDS = (
  *BROKEN, "think", "tokens", "json", "loc", "html", "latex", "markdown", "prefix", "lines", "suffix",
)  # fmt: skip
"""Kinds of residue, in the order in which they are removed. `prefix` and `suffix` are found by counting."""

_RULES = 3  # raise it with each change that could remove something else
_ROUNDS = 3  # "Sure! Here it is:" may be followed by "Caption:"


@dataclasses.dataclass(frozen=True)
class Cleaned:
  """Captions of one language without residue.

  Attributes:
    captions: the captions in their order.
    rows: kind -> rows of the captions that had it; only kinds that were found.
    examples: kind -> what was removed from one of them; for `prefix` and `suffix` all, the most frequent first.
    emptied: number of captions that became empty.
    lost: rows of captions that still have U+FFFD, or another sign of characters that nothing restores.
  """

  captions: list[str]
  rows: dict[str, list[int]]
  examples: dict[str, tuple[str, ...]]
  emptied: int
  lost: list[int]


def parse(kinds: str | Sequence[str]) -> tuple[str, ...]:
  """Returns the named kinds in the order of `KINDS`; `all` names all of them, "" none.

  Raises:
    UsageError: a kind is unknown.
  """
  names = [name.strip() for name in kinds.split(",")] if isinstance(kinds, str) and kinds else list(kinds)
  for name in names:
    if name != "all" and name not in KINDS:
      raise UsageError(f"--clean={name}: unknown kind; there are {', '.join(KINDS)}, or all")
  return KINDS if "all" in names else tuple(kind for kind in KINDS if kind in names)


def signature(kinds: Sequence[str]) -> str:
  """Returns the part of a signature for the kinds that are removed, as `parse` returns them, and by which rules."""
  return f"{'all' if tuple(kinds) == KINDS else ','.join(kinds)}-{_RULES}"


def clean(captions: Sequence[str], references: Sequence[str], kinds: Iterable[str] = KINDS) -> Cleaned:
  """Does the same as `clean_languages` for a single language."""
  return clean_languages({"": captions}, {"": references}, kinds)[""]


def clean_languages(
  captions: affixes.Texts, references: affixes.Texts, kinds: Iterable[str] = KINDS
) -> dict[str, Cleaned]:
  """Removes the kinds of residue from the captions of each language.

  A caption without residue keeps its bytes. `references` say what `prefix` and `suffix` are not; without references
  these are not looked for.
  """
  kinds = set(kinds)
  by_language = {language: list(texts) for language, texts in captions.items()}
  joined = {language: Joined(texts) for language, texts in by_language.items()}
  rows: dict[str, dict[str, list[int]]] = {language: {} for language in by_language}
  examples: dict[str, dict[str, tuple[str, ...]]] = {language: {} for language in by_language}
  for kind in filter(kinds.__contains__, KINDS):
    if kind in FORMS:
      removed = {
        language: _remove_form(kind, texts, joined[language]) for language, texts in by_language.items()
      }
    else:
      removed = _remove_affixes(kind, by_language, references)
    for language, (changed, example) in removed.items():
      if changed:
        rows[language][kind], examples[language][kind] = changed, example
        joined[language] = Joined(by_language[language])
  return {
    language: Cleaned(
      texts,
      rows[language],
      examples[language],
      sum(not texts[row].strip() for row in set().union(*rows[language].values())),
      joined[language].rows(characters.lost(joined[language].characters)),
    )
    for language, texts in by_language.items()
  }


def _remove_form(kind: str, captions: list[str], joined: Joined) -> tuple[list[int], tuple[str, ...]]:
  """Removes a form from the captions in place; returns the rows that changed, and an example."""
  form = FORMS[kind]
  changed, example = [], ""
  for row in joined.rows(form.marks, form.encodings):
    cleaned = form.remove(captions[row])
    if cleaned != captions[row]:
      example = example or form.example(captions[row])
      captions[row] = cleaned
      changed.append(row)
  return changed, (example,)


def _remove_affixes(
  kind: str, captions: Mapping[str, list[str]], references: affixes.Texts
) -> dict[str, tuple[list[int], tuple[str, ...]]]:
  """Does the same as `_remove_form` for shared beginnings or ends, language by language."""
  reverse = kind == "suffix"
  find, remove = (affixes.ends, _without_end) if reverse else (affixes.beginnings, _without_beginning)
  changed: dict[str, set[int]] = {language: set() for language in captions}
  examples: dict[str, collections.Counter[str]] = {language: collections.Counter() for language in captions}
  earlier: dict[str, None] = {}
  for _ in range(_ROUNDS):
    stripped = {language: list(map(str.strip, texts)) for language, texts in captions.items()}
    by_language = find(stripped, references, earlier)
    if not any(by_language.values()):
      break
    earlier |= dict.fromkeys(affix for of_language in by_language.values() for affix in of_language)
    for language, of_language in by_language.items():
      for row, text in enumerate(stripped[language] if of_language else ()):
        affix = next((affix for affix in of_language if affixes.is_whole(text, affix, reverse)), None)
        if affix is not None:
          captions[language][row] = remove(text, affix)
          changed[language].add(row)
          examples[language][affix.strip()] += 1
  return {
    language: (sorted(changed[language]), tuple(affix for affix, _ in examples[language].most_common()))
    for language in captions
  }


def _without_beginning(text: str, affix: str) -> str:
  rest = text[len(affix) :]
  # The closing quotation mark of one that the beginning opened.
  for opening, closing in zip(
    '"\u201c\u201e\u00ab\u300c\u300e', '"\u201d\u201c\u00bb\u300d\u300f', strict=True
  ):
    if (
      affix.count(opening) % 2
      and affix.rstrip().endswith(opening)
      and rest.rstrip(" .\u3002").endswith(closing)
    ):
      place = rest.rindex(closing)
      rest = rest[:place] + rest[place + 1 :]
  return rest.strip()


def _without_end(text: str, affix: str) -> str:
  return text[: len(text) - len(affix)].strip()


def clean_all(
  references: Mapping[str, Mapping[str, Sequence[str]]],
  predictions: Mapping[str, Mapping[str, str]],
  languages: Iterable[str],
  kinds: Sequence[str],
) -> tuple[dict[str, dict[str, str]], list[str]]:
  """Removes kinds of residue from the predictions that have references, in the named languages.

  Returns:
    All predictions in a new dictionary, and notes: how many captions had each kind, by language.
  """
  cleaned = {key: dict(captions) for key, captions in predictions.items()}
  keys = {
    language: [key for key in sorted(references) if references[key].get(language)] for language in languages
  }
  of_languages = clean_languages(
    {language: [predictions[key][language] for key in scored] for language, scored in keys.items()},
    {
      language: [text for key in scored for text in references[key][language]]
      for language, scored in keys.items()
    },
    kinds,
  )
  for language, scored in keys.items():
    for key, caption in zip(scored, of_languages[language].captions, strict=True):
      cleaned[key][language] = caption
  by_kind = {
    kind: {
      language: of_language for language, of_language in of_languages.items() if kind in of_language.rows
    }
    for kind in kinds
  }
  emptied = {
    language: of_language.emptied for language, of_language in of_languages.items() if of_language.emptied
  }
  notes = [_removed(kind, having) for kind, having in by_kind.items() if having]
  if absent := [kind for kind, having in by_kind.items() if not having]:
    notes.append(f"--clean found no {', '.join(absent)}")
  if emptied:
    notes.append(
      f"{wording.count(sum(emptied.values()), 'caption')} empty after --clean, and scored so: {_counts(emptied)}"
    )
  return cleaned, notes


def _removed(kind: str, by_language: Mapping[str, Cleaned]) -> str:
  counts = {language: len(of_language.rows[kind]) for language, of_language in by_language.items()}
  which = ""
  if kind in ("prefix", "suffix"):
    texts = dict.fromkeys(text for of_language in by_language.values() for text in of_language.examples[kind])
    which = f" '{wording.first_few(list(texts))}'"
  return (
    f"--clean={kind} removed{which} from {wording.count(sum(counts.values()), 'caption')}: {_counts(counts)}"
  )


def _counts(counts: Mapping[str, int]) -> str:
  return ", ".join(f"{language} {count:,}" for language, count in counts.items())
