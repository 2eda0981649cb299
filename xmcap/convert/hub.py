"""Weights by their name on the Hugging Face hub: their files in its cache, at a commit that is recorded.

`huggingface_hub` asks the hub and keeps its cache; HF_ENDPOINT, HF_HOME, HF_TOKEN and HF_HUB_OFFLINE are its settings.
"""

import dataclasses
import json
import os
import pathlib
import re
from collections.abc import Mapping, Sequence

from xmcap import extras
from xmcap.convert import weight_files
from xmcap.errors import UsageError, XmcapError, one_line
from xmcap.files import files
from xmcap.terminal import shown

SOURCE = "source.json"
"""Written beside converted weights from the hub: the repository and the commit of each option."""

_NAME = re.compile(r"([A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95})(?:@([\w./-]{1,200}))?", re.ASCII)
_COMMIT = re.compile("[0-9a-f]{40}")
_OPEN_CLIP = "open_clip_config.json"
_CONFIGS = ("config.json", _OPEN_CLIP, "modules.json")
# At the top, or in a folder of sentence-transformers such as `2_Dense`.
_BESIDE = re.compile(
  r"(\d+_\w+/)?([\w.-]+\.json|vocab\.txt|merges\.txt|(spiece|tokenizer|sentencepiece\.bpe)\.model)"
)
_MODULE = re.compile(r"(\d+_\w+/)?")


@dataclasses.dataclass(frozen=True)
class Snapshot:
  """Files of a repository at a commit, in the folder of a cache."""

  repository: str
  commit: str
  folder: str


def find(option: str, value: str, format_name: str | None = None) -> Snapshot | None:
  """Downloads what `xmcap convert` reads of OWNER/NAME or OWNER/NAME@REVISION; None if `value` is no such name.

  A file or folder of that name wins. A branch, a tag or no revision is resolved to the commit that it names now.

  Args:
    option: the option with the value, for messages.
    format_name: as in `recognise.open_source`.

  Raises:
    UsageError: there is no such repository, revision or package, access is not granted, or it holds no safetensors.
    XmcapError: the hub cannot be reached, or the disk fails.
  """
  named = _NAME.fullmatch(value)
  if named is None or os.path.exists(value):
    return None
  repository, revision = named[1], named[2]
  where = f"{option}={value}: no such file or folder here, and of the hub"
  try:
    import huggingface_hub
    from huggingface_hub import errors
  except ImportError:
    raise UsageError(
      f"{option}={value}: no such file or folder; downloads from the hub need huggingface_hub: {extras.install('hub')}"
    ) from None
  try:
    try:
      model = huggingface_hub.HfApi().model_info(repository, revision=revision)
      commit, names = model.sha, [file.rfilename for file in model.siblings or ()]
    except (errors.RepositoryNotFoundError, errors.RevisionNotFoundError):
      raise
    except Exception:
      # A commit never changes, so its files in the cache need no network.
      if cached := _cached(repository, revision):
        return cached
      raise
    if not commit or not _COMMIT.fullmatch(commit):
      raise XmcapError(f"{where}: {repository} has no commit: try again")
    chosen = needed(names, format_name)
    if not any(name.endswith(".safetensors") for name in chosen):
      stem = "model" if "config.json" in names else "open_clip_model"
      lack = weight_files.absent(list(map(shown, names)), f"{stem}.safetensors")
      raise UsageError(
        f"{option}={value}: {repository}: {lack}; or give another repository, with safetensors"
      )
    folder = huggingface_hub.snapshot_download(repository, revision=commit, allow_patterns=chosen)
  except errors.GatedRepoError:
    raise UsageError(
      f"{where}: {repository} asks for consent: accept its terms on its page, then give HF_TOKEN or `hf auth login`"
    ) from None
  except errors.RepositoryNotFoundError:
    raise UsageError(
      f"{where}: no model {repository}, or none without HF_TOKEN: check the name or the path"
    ) from None
  except errors.RevisionNotFoundError:
    raise UsageError(f"{where}: {repository} has no revision {revision}: check it") from None
  except (UsageError, XmcapError):
    raise
  except Exception as error:  # of the package's versions and of its HTTP client
    raise XmcapError(
      f"{where}: {repository} cannot be downloaded ({one_line(error)}): try again, or give a folder with its files"
    ) from None
  return Snapshot(repository, commit, folder)


def needed(names: Sequence[str], format_name: str | None = None) -> list[str]:
  """The files of a repository that `xmcap convert` reads: one form of the weights, configurations, the tokenizer.

  Shards are taken where there is their index, else the whole file.
  """
  present = set(names)
  of_open_clip = _OPEN_CLIP in present and (
    format_name == "open_clip" or not {"config.json", "modules.json"} & present
  )
  stem = "open_clip_model" if of_open_clip else "model"
  chosen = {name for name in names if _BESIDE.fullmatch(name) and not name.endswith(".index.json")}
  for folder in {match[0] for name in names if (match := _MODULE.match(name))}:
    index = f"{folder}{stem}.safetensors.index.json"
    shards = [
      name for name in names if re.fullmatch(rf"{re.escape(folder)}{stem}-\d+-of-\d+\.safetensors", name)
    ]
    chosen |= {index, *shards} if index in present else {f"{folder}{stem}.safetensors"} & present
  return sorted(chosen)


def record(out: str, snapshots: Mapping[str, Snapshot]) -> None:
  """Writes `source.json` into the folder `out`: option -> repository and commit."""
  sources = {
    option.lstrip("-"): {"repository": snapshot.repository, "commit": snapshot.commit}
    for option, snapshot in snapshots.items()
  }
  files.write_text(pathlib.Path(out, SOURCE), json.dumps(sources, indent=2) + "\n")


def _cached(repository: str, revision: str | None) -> Snapshot | None:
  """The files of a commit that an earlier download left in the cache, or None."""
  import huggingface_hub

  if revision is None or not _COMMIT.fullmatch(revision):
    return None
  for name in _CONFIGS:
    file = huggingface_hub.try_to_load_from_cache(repository, name, revision=revision)
    if isinstance(file, str):
      return Snapshot(repository, revision, os.path.dirname(file))
  return None
