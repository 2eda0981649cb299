"""What a run is given: whom to ask, pictures, and examples."""

import json
import os
import random
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from xmcap import wording
from xmcap.endpoint.client import Endpoint
from xmcap.endpoint.pictures import encode
from xmcap.endpoint.questions import Shot
from xmcap.errors import UsageError
from xmcap.evaluation import image_files
from xmcap.files import addresses
from xmcap.reading import archives, subsets
from xmcap.reading.references import References, read_references

_KEY_VARIABLE = "OPENAI_API_KEY"


class Pictures(NamedTuple):
  """The pictures of a run.

  Attributes:
    keys: their keys.
    read: key -> the bytes of the file; UsageError if it cannot be read.
    captions: key -> language -> captions; {} for pictures without.
  """

  keys: Sequence[str]
  read: Callable[[str], bytes]
  captions: Mapping[str, Mapping[str, Sequence[str]]]


def endpoint(url: str, model: str, key_variable: str, extra_body: str, **limits: int) -> Endpoint:
  """Returns whom to ask.

  Args:
    url: of the server; `/v1` is added to one without a path; "" for batch files.
    key_variable: the environment variable with the key; "": OPENAI_API_KEY, if it is set.
    extra_body: a JSON object, or "".
    limits: attributes of `Endpoint`.

  Raises:
    UsageError: one of them is wrong.
  """
  if url and not re.match(r"https?://[^/\s]+", url):
    raise UsageError(f"--endpoint={url}: not an address: give one such as http://localhost:8000/v1")
  key = os.environ.get(key_variable or _KEY_VARIABLE, "")
  if key_variable and not key:
    raise UsageError(
      f"--key_variable={key_variable}: there is no such environment variable: set it to the API key"
    )
  if not key.isascii() or key != key.strip():
    raise UsageError(
      f"{key_variable or _KEY_VARIABLE}: the key has a space or a character that no header can have"
    )
  try:
    body = json.loads(extra_body or "{}")
  except ValueError as error:
    raise UsageError(f"--extra_body: not JSON ({error})") from None
  if not isinstance(body, dict) or {"messages", "model", "n", "stream"} & body.keys():
    raise UsageError('--extra_body: give an object of further fields, such as {"top_k": 1}')
  url = url.rstrip("/").removesuffix("/chat/completions")
  return Endpoint(url if not url or url.count("/") > 2 else f"{url}/v1", model, key, body, **limits)


def of_files(names: Sequence[str], kind: str) -> Pictures:
  """Returns the pictures of files, folders and patterns, with keys of a kind; see `image_files`."""
  files = image_files.find(names)
  paths = dict(zip(image_files.keys(files, kind), files, strict=True))
  return Pictures(list(paths), lambda key: image_files.read(paths[key]), {})


def of_corpus(path: str, split: str = "test", subset: str = "", languages: Sequence[str] = ()) -> Pictures:
  """Returns the pictures of a corpus, with their captions.

  Args:
    path: captions.jsonl of the XM3600 release beside `images`, or the folder of both; or a folder of records, which
      need the extra train.
    split: of records.
    subset: as for `xmcap score --subset`; "": all.
    languages: of the captions; (): all.

  Raises:
    UsageError: there is no such corpus, or a picture is missing.
  """
  if addresses.is_file(addresses.join(path, "dataset_info.json")):
    from xmcap.evaluation.record_references import RecordReferences

    records = RecordReferences(path, split, languages)
    captions, read = records.references, records.read
  else:
    captions, read = _of_release(path, languages)
  keys = subsets.choose(subset, captions)[0] if subset else tuple(captions)
  return Pictures(keys, read, captions)


def shots(
  number: int | None, place: str, seed: int, languages: Sequence[str], asked: Collection[str]
) -> list[Shot]:
  """Draws examples from a corpus, PATH or PATH:SPLIT: pictures with captions in all languages that are not asked about.

  UsageError if there are not so many.
  """
  if not number:
    return []
  path, _, split = place.rpartition(":") if re.search(r":\w+$", place) else (place, "", "train")
  corpus = of_corpus(path, split, languages=languages)
  keys = sorted(
    key for key, of_key in corpus.captions.items() if key not in asked and set(languages) <= of_key.keys()
  )
  if len(keys) < number:
    raise UsageError(
      f"--shots={number}: {path} has {wording.count(len(keys), 'picture')} with captions in all languages that are"
      " not asked about: give fewer shots, or fewer languages"
    )
  drawn = random.Random(seed).sample(keys, number)
  return [
    Shot(encode(corpus.read(key), key), {code: corpus.captions[key][code][0] for code in languages})
    for key in drawn
  ]


def numbers(option: str, text: str) -> tuple[float, ...]:
  """Returns numbers separated by commas, none below 0; UsageError for any other text."""
  parts = text.split(",")
  if len(parts) > 3 or not all(re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", part) for part in parts):
    raise UsageError(f"{option}={text}: give numbers such as 2.50, separated by commas")
  return tuple(map(float, parts))


def _of_release(path: str, languages: Sequence[str]) -> tuple[References, Callable[[str], bytes]]:
  captions_file = addresses.join(path, "captions.jsonl") if not path.endswith((".jsonl", ".json")) else path
  captions = read_references(captions_file, languages=languages or None)
  folder = addresses.join(addresses.parent(captions_file), "images")
  present = set(addresses.names(folder))
  file_of: dict[str, str] = {}
  for key in captions:
    name = next((key + suffix for suffix in archives.PICTURES if key + suffix in present), None)
    if name is None:
      raise UsageError(f"{folder}: no picture of '{key}': put {key}.jpg there, or name a subset of keys")
    file_of[key] = addresses.join(folder, name)
  return captions, lambda key: image_files.read(file_of[key])
