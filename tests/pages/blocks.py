"""The blocks of code in a page, and the commands that bash reads in them."""

import dataclasses
import pathlib
import re
import subprocess

_FENCE = re.compile(
  r"^(?P<indent> *)```(?P<language>[\w+-]*)[^\n]*\n(?P<text>.*?)^(?P=indent)```\s*$", re.MULTILINE | re.DOTALL
)
_WAY = re.compile(r"<!-- test: (?P<way>[\w ]+?)(?:, because (?P<reason>[^>]+?))? -->\s*$")

_RECORD = """
set -u
shopt -s nullglob
command_not_found_handle() {
  # A redirected input is named instead of read.
  for file in *; do
    if [[ -f $file && /dev/stdin -ef $file ]]; then set -- "${@//\\/dev\\/stdin/$file}"; fi
  done
  printf '%s\\0' "$#" "$@" >>"$CALLS"
}
"""


@dataclasses.dataclass(frozen=True)
class Block:
  """A fenced block: `language` is what stands behind its fence, `way` and `reason` the comment above it, or ""."""

  page: str
  line: int
  language: str
  text: str
  way: str = ""
  reason: str = ""

  @property
  def where(self) -> str:
    return f"{self.page}:{self.line}"


def of_page(path: pathlib.Path) -> list[Block]:
  """The blocks of a page, in order."""
  page, found = path.read_text(encoding="utf-8"), []
  for match in _FENCE.finditer(page):
    above = _WAY.search(page[: match.start()])
    text = re.sub(rf"^{match['indent']}", "", match["text"], flags=re.MULTILINE)
    way, reason = (above["way"], above["reason"] or "") if above else ("", "")
    line = page.count("\n", 0, match.start()) + 1
    found.append(Block(path.name, line, match["language"], text, way, reason))
  return found


def commands_of(block: Block) -> str:
  """The commands of a block; those of a `console` block stand behind `$ `, its other lines are output."""
  if block.language != "console":
    return block.text
  return "".join(line[2:] + "\n" for line in block.text.splitlines() if line.startswith("$ "))


def output_of(block: Block) -> list[str]:
  """The lines that a `console` block says its commands print."""
  return [line.rstrip() for line in block.text.splitlines() if line.strip() and not line.startswith("$ ")]


def check_syntax(block: Block) -> None:
  """AssertionError if bash, or Python, cannot read a block."""
  if block.language == "python":
    compile(block.text, block.where, "exec")
    return
  done = subprocess.run(["bash", "-n"], input=commands_of(block), capture_output=True, text=True)
  assert not done.returncode, f"{block.where}: {done.stderr}"


def calls(blocks: list[Block], folder: pathlib.Path) -> list[list[list[str]]]:
  """The words of every command of each block, as one bash reads the blocks, one after the other, in `folder`.

  No program is found there, so bash expands and redirects, and hands the words of each command on.
  """
  records = [folder / f".calls-{number}" for number in range(len(blocks))]
  for record in records:
    record.write_text("")
  script = _RECORD
  for block, record in zip(blocks, records, strict=True):
    script += f"CALLS={record}\n{commands_of(block).replace('.venv/bin/', '')}\n"
  environment = {"PATH": "/nowhere", "HOME": str(folder)}
  done = subprocess.run(
    ["/bin/bash", "-c", script], cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True
  )  # fmt: skip
  assert not (done.returncode or done.stderr), f"{blocks[0].page if blocks else ''}: {done.stderr}"
  return [_read(record) for record in records]


def _read(record: pathlib.Path) -> list[list[str]]:
  words = record.read_text(encoding="utf-8").split("\0")[:-1]
  found = []
  while words:
    count = int(words[0])
    found.append(words[1 : count + 1])
    words = words[count + 1 :]
  return found
