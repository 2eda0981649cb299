"""Checks of paths that callers and files of strangers give: what no file can be called, and what is no file."""

import difflib
import os
import re
import stat

from xmcap.errors import UsageError
from xmcap.terminal import shown

_STORES = ("gs", "s3")
_OTHER_NAMES = ("gcs", "s3a")  # that fsspec has for stores of ours
# https://cloud.google.com/storage/docs/buckets#naming; only a name with dots may be longer than 63.
_BUCKET = re.compile(r"[a-z0-9](?:[a-z0-9_-]{1,61}|[a-z0-9._-]{1,220})[a-z0-9]")
# One slash is left of two where a path was normalised, or was typed so.
_SCHEME = re.compile(rf"([\w.+-]*)://|(?:{'|'.join(_STORES)}):/?")


def check_scheme(address: str | os.PathLike) -> None:
  """Raises UsageError for an address such as g://BUCKET or gs:/BUCKET, whose scheme no store has, and for gs://A_B/."""
  text = os.fsdecode(address)
  scheme = _SCHEME.match(text)
  if scheme and scheme[1] not in _STORES and not _is_of_fsspec(scheme[1]):
    raise UsageError(f"{shown(text)}: {_unknown(scheme[0])}")
  if scheme and scheme[1] in _STORES:
    bucket = text[scheme.end() :].partition("/")[0]
    if not bucket:
      raise UsageError(f"{shown(text)} names no bucket: give {scheme[0]}BUCKET/FOLDER")
    if not _BUCKET.fullmatch(bucket):
      raise UsageError(
        f"{shown(text)}: no bucket is called '{shown(bucket)}': a name has 3 to 63 lower-case letters, digits, '-', "
        "'_' or '.', and a letter or digit at both ends"
      )


def explained(error: BaseException) -> UsageError | None:
  """Returns the error for the user for etils' of a path with a scheme that it does not have; None for any other."""
  scheme = str(error.args[0]) if isinstance(error, KeyError) and error.args else ""
  return UsageError(_unknown(scheme)) if scheme.endswith("://") else None


def _unknown(scheme: str) -> str:
  near = difflib.get_close_matches(scheme.split(":")[0].lower(), _STORES, 1)
  advice = (
    f"; did you mean {near[0]}://?"
    if near
    else " here: give a path, gs://BUCKET/FOLDER or s3://BUCKET/FOLDER"
  )
  return f"unknown scheme '{shown(scheme)}'{advice}"


def _is_of_fsspec(scheme: str | None) -> bool:
  try:
    import fsspec
  except ImportError:  # it scores, and reads no address
    return False
  return scheme in fsspec.available_protocols() and scheme not in _OTHER_NAMES


def check_name(path: str | os.PathLike) -> None:
  """Raises UsageError for an empty path, and for one with a NUL or a lone surrogate, which the system cannot take."""
  text = os.fsdecode(path)
  try:
    os.fsencode(text)
    wrong = "" if text and "\0" not in text else "it holds a NUL" if text else "it is empty"
  except UnicodeEncodeError:
    wrong = "it holds a lone surrogate"
  if wrong:
    raise UsageError(f"'{shown(text)}': no file can have this name: {wrong}")


def check_file(path: str | os.PathLike) -> None:
  """As `check_name`; also raises UsageError for a pipe or a device, whose other side might never come."""
  check_name(path)
  try:
    mode = os.stat(path).st_mode
  except OSError:
    return  # whoever opens it says why it cannot
  if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
    raise UsageError(
      f"{shown(os.fsdecode(path))}: a pipe or a device, not a file: copy it to a file, and give that"
    )
