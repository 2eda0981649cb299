"""Finds the files of captions: those that the user names, or those of a folder, and the language in each one's name."""

import dataclasses
import glob
import os
import pathlib
from collections.abc import Iterable, Mapping, Sequence

from xmcap import languages
from xmcap.corpora.folder import beside, by_line, columnar, text_files
from xmcap.corpora.folder.table import OFTEN_OTHER, ColumnNames, SourceFile
from xmcap.errors import UsageError
from xmcap.reading import hub_folders, ids, joining, rows
from xmcap.terminal import shown

TAR = ".tar"
# Files of Hugging Face's imagefolder, in the folder or in the folder of each split.
_METADATA = ("metadata.jsonl", "metadata.csv", "metadata.parquet")
_TABLES = ("captions.jsonl", "captions.csv", "captions.tsv")
_TEXT = "captions.txt"  # of Flickr8k; beside an image of that name it would be its caption
_KINDS = (*text_files.SUFFIXES, TAR, *columnar.SUFFIXES)
_PACKED = tuple(f"{suffix}{packed}" for suffix in text_files.SUFFIXES for packed in rows.PACKED)
_WORKBOOKS = (".xls", ".ods", ".numbers")


@dataclasses.dataclass(frozen=True)
class Sources:
  """The files of captions of a corpus, all of one kind.

  Attributes:
    name: their folder, or the file, for messages.
    files: the files, in the order in which they are read.
    foreign: (name, detail) of each file whose name says another language than --language.
  """

  name: str
  files: Sequence[SourceFile]
  foreign: Sequence[tuple[str, str]] = ()


def expanded(captions: joining.Paths) -> list[pathlib.Path]:
  """Returns the paths that the user named, with those that a pattern such as `captions_*.csv` matches, in order."""
  paths: dict[pathlib.Path, None] = {}
  for path in joining.listed(captions):
    matches = sorted(glob.glob(os.fspath(path), recursive=True)) if not os.path.exists(path) else []
    paths |= dict.fromkeys(map(pathlib.Path, matches or [path]))
  return list(paths)


def find(captions: joining.Paths, columns: ColumnNames) -> Sources:
  """Finds the files of captions.

  A folder stands for its `metadata.*`, .tar, .parquet or .arrow files, for its pictures with texts beside them, or for
  its only table, or its tables if the name of each says its language. So does the name of a folder: `de/test.jsonl`.

  Args:
    captions: a file, a folder, a pattern, or several.
    columns: what the user asked for; a language that it says for all captions counts, not the names'.

  Raises:
    UsageError: there are no such files, or they are of several kinds, or their names contradict --language.
  """
  named = expanded(captions)
  paths = [file for path in named for file in _files(path)]
  if len({_kind(path) for path in paths}) > 1:
    raise UsageError(f"{joining.named(named)}: of several kinds: give tables, .tar, or .parquet files alone")
  root = named[0]
  if len(named) > 1 or not root.is_dir():
    root = pathlib.Path(os.path.commonpath([os.path.abspath(path.parent) for path in paths]))
  elif len(paths) > 1 or paths[0].is_file():
    root = hub_folders.tables(root)
  names = {path: _below(path, root) for path in paths}
  lists = tuple(path for path in paths if _kind(path) == "text" and by_line.is_list(path))
  spoken = {
    path: "" if path.is_dir() else _language_of(name) for path, name in names.items() if path not in lists
  }
  if len(spoken) == 1 and set(spoken.values()) <= {*OFTEN_OTHER}:
    spoken = dict.fromkeys(spoken, "")
  spoken, foreign = _agreed(spoken, names, columns)
  files = [SourceFile(path, names[path], language, lists) for path, language in spoken.items()]
  return Sources(
    str(named[0] if len(named) == 1 else root), files or [SourceFile(lists[0], names[lists[0]])], foreign
  )


def _agreed(
  spoken: Mapping[pathlib.Path, str], names: Mapping[pathlib.Path, str], columns: ColumnNames
) -> tuple[dict[pathlib.Path, str], list[tuple[str, str]]]:
  """Returns the languages of the files' names, "" unless all have one, and the files that --language contradicts."""
  silent = dict.fromkeys(spoken, "")
  if columns.language or (columns.captions and all("=" in name for name in columns.captions)):
    return silent, []
  if not columns.default_language:
    ids.check_parts(path for path, language in spoken.items() if language)
    return (dict(spoken) if all(spoken.values()) else silent), []
  asked = columns.default_language
  others = {path: language for path, language in spoken.items() if language and not _agree(language, asked)}
  if len(set(filter(None, spoken.values()))) > 1 and others:
    path = next(iter(others))
    raise UsageError(
      f"--language={asked}, but the files are named by several languages, such as {shown(names[path])} by "
      f"{others[path]}: leave --language out, or give the files in {asked} alone"
    )
  return silent, [
    (names[path], f"is named by {language}, but read as --language={asked}")
    for path, language in others.items()
  ]


def _agree(language: str, asked: str) -> bool:
  return asked in (language, languages.variety_base(language)) or languages.variety_base(asked) == language


def _language_of(name: str) -> str:
  """Returns the language in the name of a file or of the nearest folder that is named by one; "" if there is none."""
  *folders, file = name.split("/")
  candidates = (ids.language_of_name(file), *map(ids.language_of_name, reversed(folders)))
  return next(filter(None, candidates), "")


def _below(path: pathlib.Path, root: pathlib.Path) -> str:
  return os.path.relpath(path, root).replace(os.sep, "/") if path != root else path.name


def _kind(path: pathlib.Path) -> str:
  suffix = path.suffix.lower()
  return "folder" if path.is_dir() else suffix if suffix in (TAR, *columnar.SUFFIXES) else "text"


def _is_text(path: pathlib.Path) -> bool:
  return path.name.lower().endswith((*text_files.SUFFIXES, *_PACKED)) or bool(rows.language_suffix(path))


def _files(path: pathlib.Path) -> list[pathlib.Path]:
  """Returns the files that a path stands for; UsageError if there are none, or if it is of another kind."""
  if path.is_file():
    if path.name.lower().endswith(_KINDS) or _is_text(path):
      return [path]
    if path.suffix.lower() in _WORKBOOKS:
      raise UsageError(
        f"{path}: a workbook: open it in its program, save it as `CSV UTF-8`, and give that file"
      )
    raise UsageError(
      f"{path}: unknown suffix: give {', '.join(_KINDS)}, or a folder of such files; "
      f"a text also with {', '.join(rows.PACKED)}"
    )
  if not path.is_dir():
    raise UsageError(f"{path} does not exist: give the captions")
  path = hub_folders.tables(path)
  sources = _inside(path, "metadata.*", _METADATA)
  if others := {file.name for file in sources} - {file.name for file in sources[:1]}:
    raise UsageError(f"{path}: contains {sources[0].name} and {min(others)}: keep one kind, or give the file")
  if sources:
    return sources
  for name in _TABLES:
    if (path / name).is_file():
      return [path / name]
  for suffix in (TAR, *columnar.SUFFIXES):
    if sources := _inside(path, f"*{suffix}"):
      return sources
  if beside.is_beside(path):
    return [path]
  if (text := path / _TEXT).is_file():
    return [text]
  return _tables(path)


def _tables(folder: pathlib.Path) -> list[pathlib.Path]:
  """Returns the tables of a folder that are named by their languages, or the only table."""
  texts = [path for path in _inside(folder, "*") if _is_text(path)]
  named = [path for path in texts if _language_of(_below(path, folder))]
  others = [path for path in texts if path not in named and rows.split_name(path)[1] != ".txt"]
  if not named and not others:
    kinds_of = f".tar, .parquet or .arrow file, no table, no {_METADATA[0]} and no .txt beside a picture"
    others_beside = shown(", ".join(beside.other_suffixes(folder)), 80)
    advice = (
      f"rename those with captions ({others_beside}) to .txt"
      if others_beside
      else "give the file of the captions"
    )
    raise UsageError(f"{folder}: contains no {kinds_of}: {advice}")
  if named and others or len(others) > 1:
    listed = shown(", ".join(_below(path, folder) for path in (*others, *named)), 200)
    raise UsageError(
      f"{folder}: contains several tables, not all named by a language ({listed}): give those to read, as in "
      "--captions FILE FILE"
    )
  return named or others


def _inside(path: pathlib.Path, pattern: str, names: Iterable[str] = ()) -> list[pathlib.Path]:
  """Returns the files of a folder at any depth, sorted by path, without hidden ones and caches of `datasets`."""
  return sorted(
    file
    for file in path.rglob(pattern)
    if (not names or file.name in names)
    and not any(part.startswith((".", "cache-")) for part in file.relative_to(path).parts)
    and file.is_file()
  )
