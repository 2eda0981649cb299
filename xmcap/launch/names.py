"""What providers allow as names: each check returns the value, or says in one line what is wrong."""

import re

from xmcap.errors import UsageError

_LABEL = r"[a-z]([-a-z0-9]*[a-z0-9])?"
_ZONE = r"[a-z]+(-[a-z]+)+[0-9]+-[a-z0-9]+"

# Option -> (pattern of all of the value, longest, what it must be, for a reader).
_RULES = {
  "project": (
    r"([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9-]+)+:)?[a-z][-a-z0-9]{4,28}[a-z0-9]",
    128,
    "a project ID: 6 to 30 of a-z, 0-9 and -, beginning with a letter",
  ),
  "zone": (_ZONE, 63, "a zone such as us-central2-b"),
  "tpu name": (_LABEL, 63, "at most 63 of a-z, 0-9 and -, beginning with a letter and not ending with -"),
  "xpk name": (_LABEL, 40, "at most 40 of a-z, 0-9 and -, beginning with a letter and not ending with -"),
  "accelerator_type": (r"v[0-9]+[a-z]*-[0-9]+", 30, "a TPU slice such as v4-128, v5p-256 or v6e-64"),
  "device_type": (r"[a-z0-9]+(-[a-z0-9]+)+", 63, "a device type of XPK, such as h100-80gb-8"),
  "runtime_version": (r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?", 63, "a TPU software version"),
  "network": (r"[a-z0-9][a-zA-Z0-9/._:-]*", 200, "the name or path of a network"),
  "subnetwork": (r"[a-z0-9][a-zA-Z0-9/._:-]*", 200, "the name or path of a subnetwork"),
  "data_disk": (
    rf"(projects/[a-z0-9.:-]+/zones/{_ZONE}/disks/)?{_LABEL}",
    200,
    "the name of a disk in the zone, or projects/PROJECT/zones/ZONE/disks/NAME",
  ),
  "service_account": (r"[a-z0-9][a-z0-9._-]*@[a-z0-9][a-z0-9.-]*", 200, "the address of a service account"),
  "docker_image": (r"[A-Za-z0-9][A-Za-z0-9._/:@-]*", 400, "an image such as gcr.io/PROJECT/xmcap:latest"),
  "base_docker_image": (r"[A-Za-z0-9][A-Za-z0-9._/:@-]*", 400, "an image such as python:3.12"),
  "files": (
    r"gs://[a-z0-9][a-z0-9._-]{1,220}[a-z0-9](/[^\x00-\x1f\x7f*?\[\]#]*)?",
    1000,
    "a folder of a bucket, such as gs://my-bucket/inputs, without * ? [ ] #",
  ),
  "python": (r"3\.[0-9]+(\.[0-9]+)?", 10, "a version such as 3.12"),
  "job name": (r"[A-Za-z0-9][A-Za-z0-9._-]*", 64, "at most 64 of letters, digits, ., _ and -"),
  "partition": (r"[A-Za-z0-9._-]+(,[A-Za-z0-9._-]+)*", 200, "names of partitions"),
  "account": (r"[A-Za-z0-9._-]+", 64, "the name of an account"),
  "qos": (r"[A-Za-z0-9._-]+", 64, "the name of a quality of service"),
  "constraint": (r"[A-Za-z0-9._&|*-]+", 200, "features of nodes"),
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


def check(rule: str, value: str, option: str = "") -> str:
  """Returns `value` if it is what `rule` allows.

  Args:
    rule: a key of the table above.
    value: what the user gave.
    option: the option's name where it is not the rule's.

  Raises:
    UsageError: names the option and says what it must be.
  """
  pattern, longest, meaning = _RULES[rule]
  if len(value) > longest or not re.fullmatch(pattern, value):
    raise UsageError(f"--{option or rule}={ascii(value[:80])[1:-1]}: must be {meaning}")
  return value


def positive(option: str, value: int, least: int = 1, most: int = 10**6) -> int:
  """Returns `value` if it is at least `least`, and at most `most`."""
  if value < least:
    raise UsageError(f"--{option}={value}: must be at least {least}")
  if value > most:
    raise UsageError(f"--{option}={str(value)[:20]}: must be at most {most}")
  return value


def accelerator_type(value: str) -> str:
  """Returns the API's name of a slice: v5e slices are called v5litepod there."""
  return re.sub(r"^v5e-", "v5litepod-", check("accelerator_type", value))


def runtime_version(slice_type: str) -> str:
  """Returns the software version for JAX on such a slice (cloud.google.com/tpu/docs/runtimes)."""
  versions = {"v5p": "v2-alpha-tpuv5", "v5litepod": "v2-alpha-tpuv5-lite", "v6e": "v2-alpha-tpuv6e"}
  kind = slice_type.split("-")[0]
  if kind in ("v2", "v3", "v4"):
    return "tpu-ubuntu2204-base"
  if kind not in versions:
    raise UsageError(f"--accelerator_type={slice_type}: no software version is known: give --runtime_version")
  return versions[kind]
