"""Which gin file a name means, and what a gin file may include and import.

A name such as `runs/train.gin` is looked for in xmcap's folder, in the search paths and in the working folder. If two
of them have it, it is refused: otherwise a file in a downloaded folder could take the place of xmcap's own. A path
(absolute, or with `.` or `..`) is that file only.

Includes are read by the same rules, with the folder of the including file in place of the working folder. xmcap's own
files include from xmcap's folder only.
"""

import dataclasses
import io
import pathlib
import re
import tokenize
from collections.abc import Iterator, Mapping, Sequence

from gin import config_parser

from xmcap import wording
from xmcap.errors import UsageError
from xmcap.terminal import shown

_LONGEST = 1 << 20  # characters of a file; the resolved configuration of a run has some 10,000
_MOST_FILES = 100  # that one file includes, also indirectly
_DEEPEST = 20  # brackets inside each other
_OWN_IMPORT = re.compile(r"^import xmcap\.[\w.]+", re.MULTILINE)
_LONGEST_QUOTE = 200  # characters of a line in a message

Statement = (
  config_parser.BindingStatement
  | config_parser.BlockDeclaration
  | config_parser.ImportStatement
  | config_parser.IncludeStatement
)


def gin_folder() -> pathlib.Path:
  """The folder of xmcap's gin files, installed or in a checkout."""
  package = pathlib.Path(__file__).parent
  installed = package / "gin"
  return installed if installed.is_dir() else package.parent / "gin"


@dataclasses.dataclass(frozen=True)
class GinFile:
  """A gin file that was read: its text, its statements, and the files of its includes by the names that it gives."""

  path: pathlib.Path
  text: str
  statements: Sequence[Statement]
  includes: Mapping[str, "GinFile"]

  def opened(self, own_imports: bool = True) -> io.StringIO:
    """The text as gin parses it, with the path for messages; perhaps without the imports of xmcap's modules."""
    stream = io.StringIO(self.text if own_imports else _OWN_IMPORT.sub("", self.text))
    stream.name = str(self.path)  # pyright: ignore[reportAttributeAccessIssue]
    return stream

  def with_includes(self) -> Iterator["GinFile"]:
    """The file, and all that it includes."""
    yield self
    for file in self.includes.values():
      yield from file.with_includes()


@dataclasses.dataclass(frozen=True)
class Search:
  """Where gin files are looked for, and which of them may import any module.

  Attributes:
    paths: the user's folders; their files may import.
    allow_import: whether all files may.
    folder: the working folder; "": that of this process.
  """

  paths: Sequence[str] = ()
  allow_import: bool = False
  folder: str = ""

  def find(self, name: str) -> pathlib.Path:
    """The file of `--gin_file=NAME`; UsageError if there is none, or more than one."""
    return self._find(name, pathlib.Path(self.folder), f"--gin_file={name}", "the working folder")

  def read(self, name: str) -> GinFile:
    """Reads the file of `--gin_file=NAME` and what it includes, and runs nothing.

    Raises:
      UsageError: a file is missing, is not gin, includes itself, imports what it may not, or is beyond a limit.
    """
    return self._read(self.find(name), (), [])

  def _read(self, path: pathlib.Path, parents: tuple[pathlib.Path, ...], read: list[pathlib.Path]) -> GinFile:
    file = path.resolve()
    if file in parents:
      raise UsageError(f"{path} includes itself: {' -> '.join(map(str, [*parents, file]))}")
    read.append(file)
    if len(read) > _MOST_FILES:
      raise UsageError(f"{read[0]} includes more than {_MOST_FILES} files: write them into fewer")
    text = _text(path)
    parsed = statements(text, str(path))
    is_own = file.is_relative_to(gin_folder().resolve())
    if not (is_own or self._may_import(file)):
      _check_imports(path, parsed)
    includes = {}
    for statement in parsed:
      if isinstance(statement, config_parser.IncludeStatement):
        name = statement.filename
        origin = f"{path}, line {statement.location.line_num}: include '{name}'"
        included = self._find(name, path.parent, origin, f"the folder {path.parent}", is_own)
        includes[name] = self._read(included, (*parents, file), read)
    return GinFile(path, text, parsed, includes)

  def _may_import(self, file: pathlib.Path) -> bool:
    return self.allow_import or any(
      file.is_relative_to(pathlib.Path(self.folder, path).resolve()) for path in self.paths
    )

  def _find(
    self, name: str, folder: pathlib.Path, origin: str, of_folder: str, only_own: bool = False
  ) -> pathlib.Path:
    """The file of a name; paths are relative to `folder`, which messages call `of_folder`."""
    installed = ("xmcap's folder", gin_folder() / name)
    near = (of_folder, folder / name)
    searched = [(f"--gin_search_paths={path}", pathlib.Path(self.folder, path, name)) for path in self.paths]
    is_path = pathlib.Path(name).is_absolute() or not {".", ".."}.isdisjoint(name.split("/"))
    places = [installed] if only_own else [near] if is_path else [installed, *searched, near]
    files = {path.resolve(): (place, path) for place, path in reversed(places) if path.is_file()}
    if not files:
      if "://" in name:
        raise UsageError(f"{origin}: a gin file must be on a disk: copy it here")
      names = [path.relative_to(gin_folder()).as_posix() for path in gin_folder().rglob("*.gin")]
      looked = "" if pathlib.Path(name).is_absolute() else f" in {', '.join(place for place, _ in places)}"
      raise UsageError(f"{origin}: no such file{looked}{wording.did_you_mean(name, names)}")
    if len(files) > 1:
      both = " and ".join(place for place, _ in files.values())
      paths = [f"./{name}" if path is near[1] else str(path.absolute()) for _, path in files.values()]
      raise UsageError(f"{origin}: {both} have such a file: write {' or '.join(paths)}")
    ((_, path),) = files.values()
    return path


HERE = Search()
"""Looks in xmcap's folder and in the working folder."""


def _text(path: pathlib.Path) -> str:
  try:
    with path.open(encoding="utf-8-sig") as stream:
      text = stream.read(_LONGEST + 1)
  except UnicodeDecodeError:
    raise UsageError(f"{path} is no gin file: it is not UTF-8") from None
  if len(text) > _LONGEST:
    raise UsageError(f"{path} is no gin file: it is longer than {_LONGEST:,} characters")
  return text


def _check_imports(path: pathlib.Path, parsed: Sequence[Statement]) -> None:
  """UsageError for an import other than of xmcap's modules.

  Dynamic registration makes every attribute of a module callable, and modules of xmcap have `os` among theirs.
  """
  for statement in parsed:
    if isinstance(statement, config_parser.ImportStatement) and not imports_own(statement):
      raise UsageError(
        f"{path}, line {statement.location.line_num}: imports {statement.module}, which can run any code: if you trust"
        " this file, add --allow_import, or name its folder by --gin_search_paths"
      )


def imports_own(statement: config_parser.ImportStatement) -> bool:
  """Whether it imports a module of xmcap."""
  return statement.module.split(".")[0] == "xmcap"


class _Unresolved(config_parser.ParserDelegate):
  """Leaves references as text."""

  def configurable_reference(self, scoped_configurable_name: str, evaluate: bool) -> str:
    return f"@{scoped_configurable_name}"

  def macro(self, macro_name: str) -> str:
    return f"%{macro_name}"


def statements(text: str, origin: str) -> list[Statement]:
  """The statements of a gin text, as gin's own parser reads them, without effect; UsageError if it cannot."""
  try:
    _check_depth(text)
    return list(config_parser.ConfigParser(text, _Unresolved()))
  except tokenize.TokenError as error:
    message, (line, _) = error.args
    raise UsageError(f"{origin}, line {line}: gin cannot read this: {message}") from None
  except SyntaxError as error:
    quote = shown((error.text or error.msg).strip(), _LONGEST_QUOTE)
    raise UsageError(f"{origin}, line {error.lineno}: gin cannot read this: {quote}") from None
  except (ValueError, TypeError) as error:  # such as a list as the key of a dictionary
    raise UsageError(f"{origin}: gin cannot read this: {shown(str(error), _LONGEST_QUOTE)}") from None


def is_expression(value: str) -> bool:
  """Whether a text begins with a value that gin can read."""
  try:
    _check_depth(value)
    config_parser.ConfigParser(value, _Unresolved()).parse_value()
  except (SyntaxError, tokenize.TokenError, ValueError, TypeError):
    return False
  return True


def _check_depth(text: str) -> None:
  """ValueError for brackets that are too deep inside each other for recursive functions."""
  depth = 0
  for token in tokenize.generate_tokens(io.StringIO(text).readline):
    if token.type == tokenize.OP:
      depth += (token.string in "([{") - (token.string in ")]}")
      if depth > _DEEPEST:
        raise SyntaxError(f"more than {_DEEPEST} brackets inside each other", (None, *token.start, None))
