"""Each section, table, figure, footnote, equation and algorithm that a file cites is one of the paper it names.

`citations.toml` holds the papers and what is in them: every heading and caption of those whose text lies
beside the project. A citation's paper is the one that follows it ("Table 6 of the
XM3600 paper"), else the nearest one named before it in its paragraph, after it there, or in its function or under its
heading (there also by its key, as in `xm3600.recompute()`). A file about one paper need not name it again:
its path or its first lines do.
"""

import bisect
import functools
import itertools
import pathlib
import re
import tomllib
from collections.abc import Iterator
from typing import NamedTuple

import pytest

ROOT = pathlib.Path(__file__).parents[1]
TABLE = pathlib.Path(__file__).with_name("citations.toml")

FOLDERS = ("xmcap", "tests", "docs", "gin", "benchmarks", "examples", "tasks", "launch")
SUFFIXES = {".csv", ".css", ".gin", ".html", ".ipynb", ".js", ".md", ".py", ".sh", ".toml", ".yml"}

MADE_UP = {
  "tests/scoring/tables/test_tables.py": ("Table 1",),
  "tests/published/test_findings.py": ("Table 9",),
}
"""Citations of papers that do not exist, in tests of tables."""

KEYS = ("xm3600", "xm3600-draft", "babel-imagenet", "coco-cn", "thumb")
"""Papers that code and commands name by their keys in the table, as in `xmcap published xm3600`."""

_KINDS = {
  "s": "sections", "t": "tables", "fi": "figures", "fo": "footnotes", "e": "equations", "al": "algorithms",
}  # fmt: skip
_NUMBER = r"\(?(?:\d+(?:\.\d+)*|[IVX]+(?:-[A-Z]\d?)?|[A-H](?:\.\d+)*)\)?(?!\w|-[A-Za-z])"
_CITATION = re.compile(
  r"(?<![\w./-])(?P<kind>[Ss]ections?|[Ss]ec\.|[Tt]ables?|[Ff]igures?|[Ff]igs?\.?|[Ee]quations?|[Ee]qs?\.?|"
  rf"[Aa]ppendix|[Aa]ppendices|[Aa]lgorithms?|[Ff]ootnotes?|§) ?(?P<first>{_NUMBER})"
  rf"(?P<others>(?:(?: \([^()]{{1,20}}\))?(?:,? and |,? or | to |, |–|-){_NUMBER})*)"
)
_MAYBE = re.compile(
  r"(?i)(?:section|sec\.|table|figure|fig|equation|eq|appendi\w+|algorithm|footnote)\w*\.?[\W_]{1,24}[\dIVXA-H]|§"
)
_AFTER = re.compile(r"(?:[^.;:]{0,60}?) (?:of|in|by) (?:the |its )?$")
_UNKNOWN = re.compile(
  r"[A-ZÀ-Þ][\w'’-]+(?: et al\b\.?|,? (?:and|&) [A-Z][\w-]+[, ]+\(?(?:[\w-]+ ){0,2}\d{4})|arXiv[: ]?\d{4}\.\d{4,5}"
)
_MARKS = re.compile(r'^[\s#*/>|-]*(?:"{3})?')


class Paper(NamedTuple):
  """A paper of the table: its name there, a pattern of how files name it, and kind -> number -> subject."""

  name: str
  pattern: re.Pattern[str]
  parts: dict[str, dict[str, str]]


class Block(NamedTuple):
  """Text without line ends, and where each of its lines begins in it."""

  text: str
  starts: list[int]
  first_line: int

  def line(self, position: int) -> int:
    return self.first_line + bisect.bisect_right(self.starts, position) - 1


@functools.cache
def papers() -> list[Paper]:
  with TABLE.open("rb") as f:
    held = tomllib.load(f)
  kinds = set(_KINDS.values())
  return [
    Paper(name, re.compile("|".join(paper["names"])), {kind: paper.get(kind, {}) for kind in kinds})
    for name, paper in held.items()
  ]


def _arabic(number: str) -> str:
  """`9` of `IX`."""
  values = [{"I": 1, "V": 5, "X": 10}[letter] for letter in number]
  return str(sum(-a if a < b else a for a, b in itertools.pairwise([*values, 0])))


def _joined(lines: list[str], first: int, last: int) -> Block:
  """Lines from `first` to before `last` as one text, without the marks of comments."""
  stripped = [_MARKS.sub("", line).rstrip() for line in lines[first:last]]
  starts = list(itertools.accumulate((len(line) + 1 for line in stripped), initial=0))[:-1]
  return Block(" ".join(stripped), starts, first + 1)


def _edges(lines: list[str], is_edge) -> list[int]:
  inner = [index for index, line in enumerate(lines) if is_edge(index, line)]
  return sorted({0, *inner, len(lines)})


def _spans(edges: list[int]) -> list[tuple[int, int]]:
  return [pair for pair in itertools.pairwise(edges) if pair[0] < pair[1]]


def _paragraphs(lines: list[str], suffix: str) -> list[tuple[int, int]]:
  def is_edge(index: int, line: str) -> bool:
    before = lines[index - 1] if index else ""
    row = suffix == ".csv" or line.startswith("|") or before.startswith("|")
    item = suffix == ".md" and bool(re.match(r"(?:[-*]|\d+\.) ", line))
    return row or item or not line.strip(" #*/") or not before.strip(" #*/")

  return _spans(_edges(lines, is_edge))


def _blocks(lines: list[str], suffix: str) -> list[tuple[int, int]]:
  """Functions and classes with the comments above them, or what stands under a heading."""
  if suffix == ".md":
    return _spans(_edges(lines, lambda _, line: line.startswith("#")))
  if suffix != ".py":
    return []

  def is_edge(index: int, line: str) -> bool:
    before = lines[index - 1] if index else ""
    return bool(re.match(r"(?:def|class|async|@|#|[A-Z_]\w*\b.*=)", line)) and not re.match("[@#]", before)

  return _spans(_edges(lines, is_edge))


def _named(text: str) -> list[tuple[int, int, Paper | str]]:
  """The papers that a text names and those that the table lacks: begin, end and which, in order."""
  found: list[tuple[int, int, Paper | str]] = [
    (m.start(), m.end(), paper) for paper in papers() for m in paper.pattern.finditer(text)
  ]
  known = list(found)
  for m in _UNKNOWN.finditer(text):
    if not any(begin < m.end() and m.start() < end for begin, end, _ in known):
      found.append((m.start(), m.end(), m.group()))
  return sorted(found, key=lambda each: each[:2])


def _nearest(text: str, begin: int, end: int) -> Paper | str | None:
  named = _named(text)
  after = [each for each in named if each[0] >= end]
  if after and _AFTER.fullmatch(text[end : after[0][0]]):
    return after[0][2]
  before = [each for each in named if each[1] <= begin]
  return before[-1][2] if before else after[0][2] if after else None


PAGES = {"crossmodal_3600": "xm3600", "plugs": "xm3600-draft"}
"""Pages of docs, and their tables of items, that are about a paper of another name."""


def _about(path: str, lines: list[str]) -> Paper | None:
  """The paper in the path of a file, or the one paper that its first lines name."""
  place = PAGES.get(pathlib.PurePath(path).stem, path.lower().replace("_", "-"))
  if in_path := [paper for paper in papers() if paper.name in place]:
    return max(in_path, key=lambda paper: len(paper.name))
  head = {each[2].name: each[2] for each in _named(_joined(lines, 0, 15).text) if isinstance(each[2], Paper)}
  return next(iter(head.values())) if len(head) == 1 else None


def _by_key(text: str) -> Paper | None:
  """The one paper whose key is a word of a text."""
  code = text.lower().replace("_", "-")
  found = [key for key in KEYS if re.search(rf"(?<![\w-]){key}(?![\w-])", code)]
  return next(paper for paper in papers() if paper.name == found[0]) if len(found) == 1 else None


def _numbers(m: re.Match[str]) -> list[str]:
  numbers = [m["first"].strip("()")]
  if m["kind"].lower().endswith(("s", ".", "§")):
    others = re.findall(rf"(,? and |,? or | to |, |–|-)({_NUMBER})", m["others"])
    while others and others[-1][0] == ", " and _kind(m["kind"]) != "sections":
      others.pop()  # as in "Tables 5 and 7, 65 rows"
    for joint, number in others:
      number = number.strip("()")
      stem, _, last = number.rpartition(".")
      first = numbers[-1].rpartition(".")[2]
      if joint in (" to ", "–", "-") and first.isdigit() and last.isdigit():
        numbers += [f"{stem}.{i}".lstrip(".") for i in range(int(first) + 1, int(last))]
      numbers.append(number)
  return numbers


def _kind(word: str) -> str:
  word = word.lower()
  if word.startswith(("§", "app")):
    return "sections"
  return next(kind for start, kind in _KINDS.items() if word.startswith(start))


def _fault(paper: Paper | str | None, kind: str, number: str, around: str | None) -> str:
  """What is wrong with a citation, or nothing; a word of the subject is looked for in `around`, if given."""
  one = kind[:-1]
  if paper is None:
    return f"whose {one} {number}? Name the paper on the line or in its paragraph"
  if isinstance(paper, str):
    return f"{paper!r} is not in tests/citations.toml: check {one} {number} in the paper and add both"
  if number not in paper.parts[kind]:
    held = ", ".join(paper.parts[kind]) or "none"
    return (
      f"{paper.name} has no {one} {number} in tests/citations.toml (it holds {held}): cite the right one, or check it "
      "in the paper and add it"
    )
  subject = paper.parts[kind][number]
  words = [word[:5] for word in re.findall(r"\w{3,}", subject.lower())]
  if around is not None and not any(word in around for word in words):
    return (
      f"{one} {number} of {paper.name} is about {subject!r}, of which the lines around say nothing: cite the right "
      "one, or add their word to tests/citations.toml"
    )
  return ""


def faults(path: str, text: str) -> Iterator[str]:
  """Yields `path:line: citation: what is wanted` for each wrong citation of a file."""
  if not _MAYBE.search(text):
    return
  lines = text.splitlines()
  suffix = pathlib.PurePath(path).suffix
  blocks = [_joined(lines, *span) for span in _blocks(lines, suffix)]
  for span in _paragraphs(lines, suffix):
    paragraph = _joined(lines, *span)
    for m in _CITATION.finditer(paragraph.text):
      if m.group() in MADE_UP.get(path, ()) or paragraph.text[: m.start()].endswith("such as `"):
        continue
      line = paragraph.line(m.start())
      paper = _nearest(paragraph.text, m.start(), m.end()) or _by_key(paragraph.text)
      around = f"{path} {paragraph.text[: m.start()]} {paragraph.text[m.end() :]}"
      for block in blocks:
        if block.first_line <= line < block.first_line + len(block.starts):
          around += f" {block.text}"
          if paper is None:
            at = block.starts[line - block.first_line]
            paper = _nearest(block.text, at, at) or _by_key(block.text)
      paper = paper or _about(path, lines)
      numbers = _numbers(m)
      # A citation in quotes or in a row is a label, which says nothing of its subject.
      prose = (
        len(numbers) == 1
        and suffix != ".csv"
        and not lines[span[0]].startswith("|")
        and paragraph.text[m.start() - 1 : m.start()] not in tuple("\"'")
      )
      for number in numbers:
        number = (
          _arabic(number) if _kind(m["kind"]) != "sections" and re.fullmatch("[IVX]+", number) else number
        )
        if fault := _fault(paper, _kind(m["kind"]), number, around.lower() if prose else None):
          yield f"{path}:{line}: {m.group()!r}: {fault}"


def files(root: pathlib.Path) -> Iterator[pathlib.Path]:
  yield from sorted(path for path in root.glob("*") if path.suffix in SUFFIXES)
  for folder in FOLDERS:
    yield from sorted(path for path in (root / folder).rglob("*") if path.suffix in SUFFIXES)


def test_citations_are_in_the_papers_that_they_name():
  found = [
    fault
    for path in files(ROOT)
    if path not in (TABLE, pathlib.Path(__file__))
    for fault in faults(path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8"))
  ]
  assert not found, "\n" + "\n".join(found)


def test_files_still_have_the_exempt_citations():
  for path, citations in MADE_UP.items():
    if (ROOT / path).exists():
      assert all(citation in (ROOT / path).read_text(encoding="utf-8") for citation in citations), path


def test_papers_are_named_said_to_be_seen_or_not_and_numbers_have_subjects():
  with TABLE.open("rb") as f:
    held = tomllib.load(f)
  for name, paper in held.items():
    kinds = set(paper) - {"names", "seen", "seed"}
    assert paper["names"] and paper["seen"] and kinds and kinds <= set(_KINDS.values()), name
    assert all(re.search(r"\w{3}", subject) for kind in kinds for subject in paper[kind].values()), name


_SECTION = re.compile(
  r"^(?:Appendix )?(\d(?:\.\d)*|[A-D](?:\.\d)?) \**[A-Z][\w:,’'& .-]{2,75}\**$|^[A-Z][a-z]+ [A-Z][a-z]+ (\d\.\d)$",
  re.MULTILINE,
)
_ROMAN_SECTION = re.compile(
  r"^(?:([IV]+)\. [A-Z -]+|([A-E])\. [A-Z][\w :-]+|(\d)\) [A-Z][\w ]+:.*)$", re.MULTILINE
)
_CAPTION = re.compile(
  r"^\**(Table|TABLE|Figure|Fig\.) (\d+|[IVX]+)\b(?:[:.]|$| [A-Z])|(Figure) (\d): A", re.MULTILINE
)


def _headings(text: str) -> dict[str, set[str]]:
  """Sections, tables and figures of a paper's text by their numbers."""
  sections, part, letter = {m[1] or m[2] for m in _SECTION.finditer(text)}, "", ""
  if "\nIII. " in text:
    sections = set()
    for m in _ROMAN_SECTION.finditer(text):
      part, letter = (m[1], "") if m[1] else (part, m[2] or letter)
      if m[1] or letter:  # numbered paragraphs of the introduction have none
        sections.add(part + (f"-{letter}" if letter else "") + (m[3] or ""))
  captions = {"T": set(), "F": set()}
  for m in _CAPTION.finditer(text):
    number = m[2] or m[4]
    captions[(m[1] or m[3])[0]].add(number if number.isdigit() else _arabic(number))
  return {"sections": sections, "tables": captions["T"], "figures": captions["F"]}


@pytest.mark.parametrize("name", KEYS)
def test_the_table_has_the_headings_and_captions_of_the_papers_text(name):
  seeds = ROOT.parent / "shared" / "seeds"
  if not seeds.is_dir():
    pytest.skip("the papers' texts lie in ../shared/seeds, which is not here")
  with TABLE.open("rb") as f:
    paper = tomllib.load(f)[name]
  (seed,) = seeds.glob(f"{paper['seed']}_*.txt")
  for kind, numbers in _headings(seed.read_text(encoding="utf-8")).items():
    assert numbers == set(paper[kind]), kind


def _of(text: str, path: str = "docs/page.md") -> list[str]:
  return list(faults(path, text))


@pytest.mark.parametrize(
  "text",
  [
    'Thapliyal et al., "Crossmodal-3600" (2022), section 3.2: the models.',
    "The models are in Table 3 and section 3.2 of Thapliyal et al. (2022).",
    "Tables 5 (group `CORE`) and 7 (`EXT`) of the XM3600 paper.",
    "CIDEr: Vedantam et al., eq. 1 to 3; Zhai et al. (2022), Table 2: the sizes of ViT-g.",
    "# Source: Thapliyal et al.\n# (2022), section\n# 3.3: side by side.",
    "As in Babel-ImageNet (Geigle et al.,\nsection 6): language adapters.",
    "Tables 5 and 7, 65 rows, of the XM3600 paper.",
    "| `xm3600` | a release for Table 1 |",
    "The XM3600 paper had models.\n\nThey are of Table 3.",
  ],
)
def test_valid_citations_have_no_fault(text):
  assert not _of(text)


@pytest.mark.parametrize(
  ("text", "line", "wanted"),
  [
    ("Of the models\nThapliyal et al. (2022), section 7: ViT.", 2, "xm3600 has no section 7"),
    (
      "Side by side: section 3.4 of Thapliyal et al.",
      1,
      "section 3.4 of xm3600 is about 'results: correlations",
    ),
    ("Geigle et al. (2024), section 9: adapters.", 1, "babel-imagenet has no section 9"),
    ("Tables 8 to 13 of the XM3600 paper", 1, "xm3600 has no table 12"),
    ("Tables 8-12 of the XM3600 paper", 1, "xm3600 has no table 12"),
    ("Sections 2.3 to 2.7 of Thapliyal et al.: annotation", 1, "xm3600 has no section 2.7"),
    ("Li et al., COCO-CN, section VI-A", 1, "coco-cn has no section VI-A"),
    ("A sum,\nas Table 2 has it.", 2, "whose table 2? Name the paper"),
    (
      "Raffel et al. (2020); Somebody et al. (2031), Figure 3.",
      1,
      "'Somebody et al.' is not in tests/cit",
    ),
    ('Raffel et al.; Some and Body, "A title" (2031), Figure 3.', 1, "t5 has no figure 3"),
    ("Some and Body, 2031, Figure 3", 1, "'Some and Body, 2031' is not in tests/citations.toml"),
    ("arXiv 2999.00001, Table 1", 1, "'arXiv 2999.00001' is not in tests/citations.toml"),
  ],
)
def test_wrong_citations_are_told_with_their_line(text, line, wanted):
  found = _of(text)
  assert found and found[0].startswith(f"docs/page.md:{line}: ") and wanted in found[0], found


def test_citations_in_a_file_about_a_paper_need_no_name():
  assert not _of("def check():\n  return 'Table 9: people'\n", "xmcap/published/coco_cn.py")
  assert not _of("def check():\n  return coco_cn.recompute(), 'Table 9: people'\n", "xmcap/a.py")
  assert "whose table 9?" in _of("def check():\n  return 'Table 9'\n", "xmcap/a.py")[0]
