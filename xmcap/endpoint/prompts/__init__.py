"""Prompts as data: one file a prompt, which `--prompt=NAME` follows, or a file of one's own.

A file has
  title, source: whose prompt it is, and the paper or the public code that it was read from.
  text: the prompt, with {language} where the language's name stands, or {code} for its code.
  system: the system message; absent: none.
  translation: for `--strategy=translate` and `xmcap translate`, with {caption}, the text, {language}, and {source}, the
    text's language; absent: xmcap's own. A prompt that has it needs no text.
  together: for `--strategy=together`, with {languages}, which are codes with names; absent: xmcap's own.
  max_tokens: the largest number of tokens of a caption.
  parameters: further fields of a request, such as temperature and repetition_penalty.
  names: the names of languages by code; for others, their English names. It may be a table of whole prompts, `texts`.
  notes: what of the original cannot be asked of an endpoint.
"""

import functools
import os
import pathlib
import re
import tomllib
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

import msgspec

from xmcap import languages as languages_lib
from xmcap import wording
from xmcap.digests import digest
from xmcap.errors import UsageError, one_line

DEFAULT = "xmcap"


class Prompt(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
  """A prompt, with its name and the fields of its file."""

  name: str
  title: str
  source: str
  text: str = ""
  texts: Mapping[str, str] = {}
  system: str = ""
  translation: str = (
    "Translate this caption of a picture into {language}. Write the translation alone.\n\n{caption}"
  )
  together: str = (
    "Describe this picture in each of these languages, in one short sentence: {languages}. Answer with a JSON object "
    "that has the sentence of each language by its code, and nothing else."
  )
  max_tokens: int
  parameters: Mapping[str, Any] = {}
  names: Mapping[str, str] = {}
  notes: Sequence[str] = ()

  def of(self, language: str) -> str:
    """Returns the prompt in a language; UsageError if it has none for it."""
    if language in self.texts:
      return self.texts[language]
    if not self.text:
      raise UsageError(
        f"--prompt={self.name} has no text for '{language}': add it to `texts`, or ask other languages"
      )
    return self._named(self.text, language)

  def translation_of(self, caption: str, language: str, source: str = "en") -> str:
    """Returns the prompt for the translation of a caption from its language, `source`, into another."""
    text = self._named(self.translation.replace("{source}", self._name(source)), language)
    return text.replace("{caption}", caption)

  def of_all(self, languages: Sequence[str]) -> str:
    """Returns the prompt for captions in several languages at once."""
    named = [self._named("{code} ({language})", language) for language in languages]
    return self.together.replace("{languages}", ", ".join(named))

  def _named(self, text: str, language: str) -> str:
    return text.replace("{language}", self._name(language)).replace("{code}", language)

  def _name(self, language: str) -> str:
    return self.names.get(language) or languages_lib.get(language).english_name

  @property
  def signature(self) -> str:
    """The prompt's name, with a digest of all that it asks."""
    asked = [
      self.text, dict(self.texts), self.system, self.translation, self.together, self.max_tokens, dict(self.parameters),
      dict(self.names),
    ]  # fmt: skip
    return f"{self.name}#{digest(msgspec.json.encode(asked, order='sorted').decode())[:8]}"


@functools.cache
def names() -> tuple[str, ...]:
  """Returns the names of the prompts that xmcap has, sorted."""
  files = resources.files(__name__).iterdir()
  return tuple(sorted(file.name.removesuffix(".toml") for file in files if file.name.endswith(".toml")))


def get(name: str) -> Prompt:
  """Reads a prompt by its name, or from a TOML file; UsageError if there is none, or the file is wrong."""
  if name in names():
    stem, text = name, resources.files(__name__).joinpath(f"{name}.toml").read_text(encoding="utf-8")
  elif name.endswith(".toml"):
    stem, text = pathlib.Path(name).stem, _text_of(name)
  else:
    raise wording.unknown_name("prompt", name, (*names(), "a file FILE.toml"))
  try:
    fields = {"title": stem, "source": name, **tomllib.loads(text), "name": stem}
    prompt = msgspec.convert(fields, Prompt)
  except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
    raise UsageError(
      f"--prompt={name}: {one_line(error)}: see the fields of a prompt in docs/any_model.md"
    ) from None
  if not prompt.text and not prompt.texts and "translation" not in fields:
    raise UsageError(
      f"--prompt={name}: no `text`, `texts` or `translation`: write the prompt, with {{language}} in it"
    )
  if prompt.text and "{language}" not in prompt.text and "{code}" not in prompt.text:
    raise UsageError(
      f"--prompt={name}: `text` does not say which language: put {{language}} or {{code}} in it"
    )
  if "{caption}" not in prompt.translation or not re.search("{(language|code)}", prompt.translation):
    raise UsageError(f"--prompt={name}: `translation` needs {{caption}}, and {{language}} or {{code}}")
  return prompt


def _text_of(path: str | os.PathLike) -> str:
  try:
    return pathlib.Path(path).read_text(encoding="utf-8")
  except (OSError, UnicodeDecodeError) as error:
    raise UsageError(f"--prompt={path}: cannot be read ({one_line(error)})") from None
