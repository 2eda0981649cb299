"""Captions pictures by a function of one's own, without a server: `--captioner=module:function`.

`function(image, languages)` gets a picture (PIL.Image.Image, RGB, upright) and the codes of languages, and returns
{language: caption}. It is called once a picture. Its answers are in the same journal as those of endpoints.
"""

import hashlib
import importlib
import os
import pathlib
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from PIL import Image

from xmcap.data import images
from xmcap.endpoint.answers import Answer, State
from xmcap.endpoint.journal import Journal, question_id
from xmcap.endpoint.tally import FIRST, Outcome, Tally
from xmcap.errors import UsageError, XmcapError, one_line
from xmcap.progress import Progress, Say
from xmcap.terminal import shown


class Captioner(NamedTuple):
  """A function, with its name, module:function, and the SHA-256 of its module's file, "" for one without."""

  name: str
  sha256: str
  function: Callable[[Image.Image, Sequence[str]], Mapping[str, str]]


def load(name: str) -> Captioner:
  """Imports module:function from the working folder, or from what is installed; UsageError if there is none."""
  module_name, _, function_name = name.partition(":")
  if not module_name or not function_name:
    raise UsageError(f"--captioner={name}: give module:function, such as captioner:caption for captioner.py")
  if os.getcwd() not in sys.path:
    sys.path.insert(0, os.getcwd())
  try:
    module = importlib.import_module(module_name)
  except Exception as error:  # a module's own code may raise anything
    raise UsageError(
      f"--captioner={name}: {module_name} cannot be imported ({_reason(error)}): mend it, or install what it needs"
    ) from None
  if not callable(getattr(module, function_name, None)):
    raise UsageError(
      f"--captioner={name}: {module_name} has no function {function_name}: name one that it has"
    )
  path = getattr(module, "__file__", None)
  digest = hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest() if path else ""
  return Captioner(name, digest, getattr(module, function_name))


def caption(
  captioner: Captioner, languages: Sequence[str], keys: Sequence[str], read: Callable[[str], bytes], journal: Journal,
  say: Say,
) -> Outcome:  # fmt: skip
  """Captions pictures by a function; what the journal has is not asked again.

  Args: as of `run.caption`. UsageError if the function fails for the first pictures.
  """
  tally = Tally(journal)
  asked = {"captioner": captioner.name, "module_sha256": captioner.sha256}
  progress = Progress(say, "pictures captioned", len(keys))
  for done, key in enumerate(keys, 1):
    try:
      data = read(key)
      image = Image.fromarray(images.decode(data, key))
    except XmcapError as error:
      tally.broken[key] = str(error)
      continue
    picture = hashlib.sha256(data).hexdigest()
    ids = {code: question_id({**asked, "picture": picture, "language": code}) for code in languages}
    _ask(tally, captioner, key, image, ids)
    progress(done)
  return tally.outcome(keys, languages, asked)


def _ask(tally: Tally, captioner: Captioner, key: str, image: Image.Image, ids: Mapping[str, str]) -> None:
  """Asks for the captions of a picture that the journal lacks; `ids` are the questions by their languages."""
  missing = [language for language, question in ids.items() if not tally.settled(question, key, language)]
  if not missing:
    return
  try:
    captions: Any = captioner.function(image, tuple(missing))
  except Exception as error:  # whatever it raises is that picture's state
    captions = Answer(State.FAILED, reason=_reason(error))
  got = {language: _answer(captions, language) for language in missing}
  for language, answer in got.items():
    tally.add(ids[language], key, language, answer._replace(model=captioner.name))
  tally.check_first(
    key,
    all(answer.state is State.FAILED for answer in got.values()),
    f"--captioner={captioner.name}: it failed for the first {FIRST} pictures: {got[missing[0]].reason}: mend it",
  )


def _answer(captions: Any, language: str) -> Answer:
  """The answer in a language of what the function returned, or the one that says why it failed."""
  if isinstance(captions, Answer):
    return captions
  if not isinstance(captions, Mapping):
    return Answer(State.FAILED, reason=f"it returned {type(captions).__name__}, not {{language: caption}}")
  text = captions.get(language)
  if not isinstance(text, str) or not text.strip():
    return Answer(State.FAILED, reason=f"it returned {shown(repr(text))} for '{language}'")
  return Answer(State.ANSWERED, text)


def _reason(error: Exception) -> str:
  return f"{type(error).__name__}: {one_line(error)}"
