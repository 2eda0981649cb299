"""What is installed on the workers of a TPU VM: the package, its extras, and secrets as variables."""

import dataclasses
import hashlib
import pathlib
import re
from collections.abc import Sequence

from xmcap.errors import UsageError
from xmcap.launch.options import check_fields, option

_EXTRAS = r"(\[[A-Za-z0-9._-]+(?:,[A-Za-z0-9._-]+)*\])?"
_SECRET = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.+)")
_IN_MANAGER = re.compile(
  r"sm://([A-Za-z0-9_-]+|projects/[a-z0-9.:-]+/secrets/[A-Za-z0-9_-]+/versions/[a-z0-9]+)"
)


@dataclasses.dataclass(frozen=True)
class Package:
  """The package to install on the workers: a wheel on this machine, or anything that pip accepts.

  The workers install the versions of the `requirements.lock` that is in the package.
  """

  install: str = option(
    "xmcap for the workers: a wheel, also with extras (dist/x.whl[wandb]), or an argument of pip install", "",
    rule="any", metavar="PACKAGE",
  )  # fmt: skip
  secret: Sequence[str] = option(
    "a variable of the workers from a file here, or from Secret Manager (repeatable)", (),
    metavar="NAME=FILE|NAME=sm://SECRET",
  )  # fmt: skip

  def __post_init__(self):
    check_fields(self)
    for secret in self.secret:
      self._check_secret(secret)
    if not self.install or self.install.startswith("-") or not self.install.isprintable():
      raise UsageError(
        f"--install={ascii(self.install[:80])[1:-1]}: give a wheel (dist/xmcap-0.1.0-py3-none-any.whl) or an argument"
        " of pip install (git+https://...@COMMIT)"
      )
    wheel = self.wheel()
    if wheel is None:
      return
    if not wheel.is_file():
      raise UsageError(f"--install={self.install}: no such file")
    if ":" in str(wheel) or not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.+!-]*\.whl", wheel.name):
      raise UsageError(
        f"--install={self.install}: gcloud cannot copy a file with this path: move or rebuild the wheel"
      )

  def wheel(self) -> pathlib.Path | None:
    """Returns the wheel to copy if it is on this machine, else None."""
    file = self._parts()[0]
    is_local = file.endswith(".whl") and "://" not in file
    return pathlib.Path(file).absolute() if is_local else None

  def secrets(self) -> list[tuple[str, str]]:
    """Returns (variable, source) of each secret; a source is `sm://...` or a file here."""
    return [(match[1], match[2]) for secret in self.secret if (match := _SECRET.fullmatch(secret))]

  def script_arguments(self) -> list[str]:
    """Returns the arguments of `tpu_vm_install.sh`; the first one identifies what is installed."""
    wheel, extras = self.wheel(), self._parts()[1]
    if wheel is None:
      package, extras, identity = self.install, "", self.install
    else:
      package, identity = wheel.name, f"{hashlib.sha256(wheel.read_bytes()).hexdigest()}{extras}"
    return [f"locked {identity}", package, extras]

  def _parts(self) -> tuple[str, str]:
    """Returns the file of a wheel and its extras in brackets, "" if it has none."""
    match = re.fullmatch(rf"(.*\.whl){_EXTRAS}", self.install)
    return (match[1], match[2] or "") if match else (self.install, "")

  def _check_secret(self, secret: str) -> None:
    match = _SECRET.fullmatch(secret)
    if not match:
      # It may be the secret itself, so it is not repeated.
      raise UsageError("--secret: give NAME=FILE or NAME=sm://SECRET")
    name, source = match.groups()
    if source.startswith("sm://"):
      if not _IN_MANAGER.fullmatch(source):
        raise UsageError(
          f"--secret={name}=sm://...: give sm://SECRET or sm://projects/P/secrets/S/versions/V"
        )
    elif not pathlib.Path(source).is_file() or ":" in source:
      raise UsageError(
        f"--secret={name}: no such file: give a file that holds the secret, without : in its path"
      )
