"""Command-line options of launchers, declared as dataclass fields with help text and a rule for the value."""

import dataclasses
import re
from collections.abc import Sequence
from typing import Any

from xmcap.errors import UsageError

_LARGEST = 10**6

# Rule -> (pattern of the whole value, description). The provider checks names of projects or images itself; here a
# value only has to be a plain word that no shell, script or option list can misread.
_RULES = {
  "name": (
    r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?",
    "at most 63 of a-z, 0-9 and -, beginning with a letter and not ending with -",
  ),
  "word": (r"[A-Za-z0-9/%][A-Za-z0-9._/:@%+=&|*,-]*", "a word of letters, digits and ._/:@%+=&|*,-"),
  "slice": (
    r"(v|tpu)[0-9]{1,3}[a-z]{0,20}-[1-9][0-9]{0,5}",
    "a TPU slice such as v4-128, v5p-256, v6e-64 or tpu7x-128",
  ),
  "disk": (
    r"(projects/[a-z0-9.:-]+/zones/[a-z0-9-]+/disks/)?[a-z]([-a-z0-9]{0,61}[a-z0-9])?",
    "the name of a disk in the zone, or projects/PROJECT/zones/ZONE/disks/NAME",
  ),
  "files": (
    r"gs://[a-z0-9][a-z0-9._-]{1,220}[a-z0-9](/[^\x00-\x1f\x7f*?\[\]#]*)?",
    "a folder of a bucket, such as gs://my-bucket/inputs, without * ? [ ] #",
  ),
  "option": (
    r"--[a-z][a-z0-9-]*(=[^\x00-\x1f\x7f-\x9f]*)?",
    "an option of that program, --NAME or --NAME=VALUE",
  ),
  "number": (r"[0-9]{1,6}", "a number"),
  "env": (r"(?s)[A-Za-z_][A-Za-z0-9_]*=.*", "NAME=VALUE"),
}


def option(
  help: str,
  default: Any = dataclasses.MISSING,
  *,
  rule: str = "word",
  least: int = 0,
  metavar: str | None = None,
  choices: Sequence[str] | None = None,
  const: str | None = None,
) -> Any:
  """Declares a dataclass field that is also a command-line option; without a default it is required.

  `rule` is the rule for a text: a key of the table above, or `any`. `least` is the smallest value of a number. `const`
  is the value of the option alone. An option whose default is () may be repeated.
  """
  metadata = {"help": help, "rule": rule, "least": least, "metavar": metavar, "choices": choices}
  metadata["const"] = const
  return dataclasses.field(default=default, metadata=metadata)


def passed_on(program: str, example: str) -> Any:
  """Declares an option for another program's options, which are passed on as they are."""
  return option(
    f"an option for {program}, such as {example} (repeatable)", (), rule="option", metavar="--OPTION[=VALUE]"
  )


def check_fields(options: Any) -> None:
  """Checks every option of a dataclass that has a value; UsageError names the first wrong one."""
  for field in dataclasses.fields(options):
    value = getattr(options, field.name)
    rule = field.metadata["rule"]
    if rule == "option":
      for word in value:
        check_text(rule, word, field.name)
    elif isinstance(value, str) and value and rule != "any":
      check_text(rule, value, field.name)
    elif type(value) is int and not field.metadata["least"] <= value <= _LARGEST:
      raise UsageError(
        f"--{field.name}={str(value)[:20]}: give a number from {field.metadata['least']} to {_LARGEST:,}"
      )


def check_text(rule: str, value: str, name: str) -> str:
  """Returns the value of the option `name`; UsageError if it does not match the rule."""
  pattern, meaning = _RULES[rule]
  if not re.fullmatch(pattern, value):
    raise UsageError(f"--{name}={ascii(value[:80])[1:-1]}: must be {meaning}")
  return value


def add_to(command: Any, kind: type) -> None:
  """Adds the options of a dataclass to an argparse parser."""
  for field in dataclasses.fields(kind):
    metadata = field.metadata
    if field.default is False:
      command.add_argument(f"--{field.name}", action="store_true", help=metadata["help"])
    elif field.default == ():
      command.add_argument(
        f"--{field.name}", action="append", default=[], metavar=metadata["metavar"], help=metadata["help"]
      )
    else:
      required = field.default is dataclasses.MISSING
      alone = {} if metadata["const"] is None else {"nargs": "?", "const": metadata["const"]}
      command.add_argument(
        f"--{field.name}",
        required=required,
        default=None if required else field.default,
        type=str if required else type(field.default),
        metavar=metadata["metavar"],
        choices=metadata["choices"],
        help=metadata["help"],
        **alone,
      )


def parsed(arguments: Any, kind: type) -> Any:
  """Makes a dataclass from its options on the command line."""
  values = {field.name: getattr(arguments, field.name) for field in dataclasses.fields(kind)}
  return kind(**{name: tuple(value) if isinstance(value, list) else value for name, value in values.items()})
