"""The options of launchers: dataclass fields that carry their help text and the provider's rule for the value."""

import dataclasses
import re
from collections.abc import Sequence
from typing import Any

from xmcap.errors import UsageError

_LABEL = r"[a-z]([-a-z0-9]*[a-z0-9])?"
_ZONE = r"[a-z]+(-[a-z]+)+[0-9]+-[a-z0-9]+"
_LARGEST = 10**6

# Rule -> (pattern of the whole value, longest, what the value must be).
_RULES = {
  "project": (
    r"([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9-]+)+:)?[a-z][-a-z0-9]{4,28}[a-z0-9]",
    128,
    "a project ID: 6 to 30 of a-z, 0-9 and -, beginning with a letter",
  ),
  "zone": (_ZONE, 63, "a zone such as us-central2-b"),
  "tpu name": (_LABEL, 63, "at most 63 of a-z, 0-9 and -, beginning with a letter and not ending with -"),
  "xpk name": (_LABEL, 40, "at most 40 of a-z, 0-9 and -, beginning with a letter and not ending with -"),
  "job name": (r"[A-Za-z0-9][A-Za-z0-9._-]*", 64, "at most 64 of letters, digits, ., _ and -"),
  "slice": (r"v[0-9]+[a-z]*-[0-9]+", 30, "a TPU slice such as v4-128, v5p-256 or v6e-64"),
  "device_type": (r"[a-z0-9]+(-[a-z0-9]+)+", 63, "a device type of XPK, such as h100-80gb-8"),
  "runtime_version": (r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?", 63, "a TPU software version"),
  "network": (r"[a-z0-9][a-zA-Z0-9/._:-]*", 200, "the name or path of a network or subnetwork"),
  "data_disk": (
    rf"(projects/[a-z0-9.:-]+/zones/{_ZONE}/disks/)?{_LABEL}",
    200,
    "the name of a disk in the zone, or projects/PROJECT/zones/ZONE/disks/NAME",
  ),
  "service_account": (r"[a-z0-9][a-z0-9._-]*@[a-z0-9][a-z0-9.-]*", 200, "the address of a service account"),
  "image": (
    r"[A-Za-z0-9][A-Za-z0-9._/:@-]*",
    400,
    "an image such as gcr.io/PROJECT/xmcap:latest or python:3.12",
  ),
  "files": (
    r"gs://[a-z0-9][a-z0-9._-]{1,220}[a-z0-9](/[^\x00-\x1f\x7f*?\[\]#]*)?",
    1000,
    "a folder of a bucket, such as gs://my-bucket/inputs, without * ? [ ] #",
  ),
  "python": (r"3\.[0-9]+(\.[0-9]+)?", 10, "a version such as 3.12"),
  "slurm names": (r"[A-Za-z0-9._&|*,-]+", 200, "names of letters, digits and ._&|*,-"),
  "time": (
    r"[0-9]+(-[0-9]+)?(:[0-9]{1,2}){0,2}",
    20,
    "minutes, HOURS:MINUTES:SECONDS or DAYS-HOURS:MINUTES:SECONDS",
  ),
  "mem": (r"[0-9]+[KMGT]?", 20, "a number with K, M, G or T"),
  "chdir": (r"/[A-Za-z0-9._/+=-]*", 1000, "an absolute path of letters, digits and ._/+=-"),
  "log": (r"[A-Za-z0-9._/%+=-]+", 1000, "a path of letters, digits and ._/%+=-"),
  "env": (r"(?s)[A-Za-z_][A-Za-z0-9_]*=.*", 100_000, "NAME=VALUE"),
}


def option(
  help: str,
  default: Any = dataclasses.MISSING,
  *,
  rule: str = "",
  least: int = 0,
  metavar: str | None = None,
  choices: Sequence[str] | None = None,
) -> Any:
  """Declares a dataclass field that is an option of the command line too.

  Args:
    help: for the user.
    default: its type is that of the option; an option without a default is required.
    rule: what a text must be, a name of the table above; without one, any text is taken.
    least: the smallest value of a number.
    metavar: the value's name in the help.
    choices: the allowed values.
  """
  metadata = {"help": help, "rule": rule, "least": least, "metavar": metavar, "choices": choices}
  return dataclasses.field(default=default, metadata=metadata)


def check_fields(options: Any) -> None:
  """Checks every option of a dataclass that has a value.

  Raises:
    UsageError: names the first option that is wrong, and says what it must be.
  """
  for field in dataclasses.fields(options):
    value = getattr(options, field.name)
    if field.metadata.get("rule") and value:
      check_text(field.metadata["rule"], value, field.name)
    elif type(value) is int and "least" in field.metadata:
      check_number(field.name, value, field.metadata["least"])


def check_text(rule: str, value: str, name: str) -> str:
  """Returns the value of the option `name` if the rule allows it.

  Raises:
    UsageError: names the option and says what it must be.
  """
  pattern, longest, meaning = _RULES[rule]
  if len(value) > longest or not re.fullmatch(pattern, value):
    raise UsageError(f"--{name}={ascii(value[:80])[1:-1]}: must be {meaning}")
  return value


def check_number(name: str, value: int, least: int = 1, most: int = _LARGEST) -> None:
  """Raises UsageError unless the value of the option `name` is from `least` to `most`."""
  if value < least:
    raise UsageError(f"--{name}={value}: must be at least {least}")
  if value > most:
    raise UsageError(f"--{name}={str(value)[:20]}: must be at most {most}")


def add_to(command: Any, kind: type) -> None:
  """Adds the options of a dataclass to an argparse parser."""
  for field in dataclasses.fields(kind):
    metadata = field.metadata
    if field.default is False:
      command.add_argument(f"--{field.name}", action="store_true", help=metadata["help"])
    elif metadata:
      required = field.default is dataclasses.MISSING
      command.add_argument(
        f"--{field.name}",
        required=required,
        default=None if required else field.default,
        type=str if required else type(field.default),
        metavar=metadata["metavar"],
        choices=metadata["choices"],
        help=metadata["help"],
      )


def parsed(arguments: Any, kind: type) -> Any:
  """Returns a dataclass made of its options on the command line."""
  names = [field.name for field in dataclasses.fields(kind) if field.metadata]
  return kind(**{name: getattr(arguments, name) for name in names})
