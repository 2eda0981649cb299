"""Removes residue from captions by kind, and counts what it removed."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from xmcap.errors import UsageError
from xmcap.scoring import files
from xmcap.scoring.residue import affixes
from xmcap.scoring.residue.forms import FORMS, Joined

KINDS = ("think", "tokens", "json", "loc", "html", "latex", "markdown", "prefix", "lines", "suffix")
"""Kinds of residue, in the order in which they are removed. `prefix` and `suffix` are found by counting."""

_ROUNDS = 3  # "Sure! Here it is:" may be followed by "Caption:"


@dataclasses.dataclass(frozen=True)
class Cleaned:
  """Captions of one language without residue.

  Attributes:
    captions: the captions in their order.
    rows: kind -> rows of the captions that had it; only kinds that were found.
    examples: kind -> what was removed from one of them; for `prefix` and `suffix` all, the most frequent first.
    emptied: number of captions that became empty.
  """

  captions: list[str]
  rows: dict[str, list[int]]
  examples: dict[str, tuple[str, ...]]
  emptied: int


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


def clean(captions: Sequence[str], references: Sequence[str], kinds: Iterable[str] = KINDS) -> Cleaned:
  """Removes the kinds of residue from the captions of a language.

  A caption without residue keeps its bytes. `references` are those of the language, which say what `prefix` and
  `suffix` are not; without references these are not looked for.
  """
  kinds = set(kinds)
  found, rows, examples = list(captions), {}, {}
  joined = Joined(found)
  for kind in KINDS:
    if kind not in kinds:
      continue
    if kind in FORMS:
      changed, example = _remove_form(kind, found, joined)
    else:
      changed, example = _remove_affix(kind, found, references)
    if changed:
      rows[kind], examples[kind] = changed, example
      joined = Joined(found)
  emptied = sum(not found[row].strip() for row in set().union(*rows.values()))
  return Cleaned(found, rows, examples, emptied)


def _remove_form(kind: str, captions: list[str], joined: Joined) -> tuple[list[int], tuple[str, ...]]:
  """Removes a form from the captions in place; returns the rows that changed, and an example."""
  form = FORMS[kind]
  changed, example = [], ""
  for row in joined.rows(form.marks):
    cleaned = form.remove(captions[row])
    if cleaned != captions[row]:
      example = example or form.example(captions[row])
      captions[row] = cleaned
      changed.append(row)
  return changed, (example,)


def _remove_affix(
  kind: str, captions: list[str], references: Sequence[str]
) -> tuple[list[int], tuple[str, ...]]:
  """Does the same as `_remove_form` for shared beginnings or ends."""
  changed: dict[int, None] = {}
  examples: dict[str, int] = {}
  for _ in range(_ROUNDS):
    texts = list(map(str.strip, captions))
    found = (affixes.beginnings if kind == "prefix" else affixes.ends)(texts, references)
    if not found:
      break
    remove = _without_beginning if kind == "prefix" else _without_end
    for row, text in enumerate(texts):
      affix = next(filter(text.startswith if kind == "prefix" else text.endswith, found), None)
      if affix is not None:
        captions[row] = remove(text, affix)
        changed[row] = None
        examples[affix.strip()] = examples.get(affix.strip(), 0) + 1
  return sorted(changed), tuple(sorted(examples, key=lambda affix: -examples[affix]))


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
  found: dict[str, dict[str, Cleaned]] = {kind: {} for kind in kinds}
  emptied = {}
  for code in languages:
    keys = sorted(key for key, captions in references.items() if captions.get(code))
    of_language = clean(
      [predictions[key][code] for key in keys],
      [text for key in keys for text in references[key][code]],
      kinds,
    )
    for key, caption in zip(keys, of_language.captions, strict=True):
      cleaned[key][code] = caption
    for kind in of_language.rows:
      found[kind][code] = of_language
    if of_language.emptied:
      emptied[code] = of_language.emptied
  notes = [_removed(kind, of_languages) for kind, of_languages in found.items() if of_languages]
  if absent := [kind for kind, of_languages in found.items() if not of_languages]:
    notes.append(f"--clean found no {', '.join(absent)}")
  if emptied:
    notes.append(
      f"{files.count(sum(emptied.values()), 'caption')} empty after --clean, and scored so: {_counts(emptied)}"
    )
  return cleaned, notes


def _removed(kind: str, found: Mapping[str, Cleaned]) -> str:
  counts = {code: len(held.rows[kind]) for code, held in found.items()}
  which = ""
  if kind in ("prefix", "suffix"):
    texts = dict.fromkeys(text for held in found.values() for text in held.examples[kind])
    which = f" '{files.first_few(list(texts))}'"
  return (
    f"--clean={kind} removed{which} from {files.count(sum(counts.values()), 'caption')}: {_counts(counts)}"
  )


def _counts(counts: Mapping[str, int]) -> str:
  return ", ".join(f"{code} {count:,}" for code, count in counts.items())
