"""The command that translates captions, references, predictions and prompts through an endpoint."""

import contextlib
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from xmcap import languages, wording
from xmcap.commands import base, captioners
from xmcap.errors import UsageError, XmcapError
from xmcap.files import outputs

if TYPE_CHECKING:
  from xmcap.endpoint.texts import Job, Translated
  from xmcap.endpoint.translating import Translator

_INPUTS = ("captions", "references", "predictions", "prompts")
_CORPORA = ("coco35l", "cc3m35l", "folder")


def add(commands) -> None:
  """Declares the command."""
  command = base.add_command(
    commands, "translate", _translate, "translate captions, references, predictions or prompts with any model",
    "A model behind an OpenAI-compatible server is asked, text only. The same command continues.", extra="endpoint",
  )  # fmt: skip
  captions = "captions of a corpus, for the build that --corpus names"
  references = "references, for references in all languages in XM3600's layout"
  predictions = "predictions, for those of all languages"
  prompts = "prompts with {} for the class name, or babel_imagenet.py, for `data labels --prompts`"
  to = "codes, all (36) or trained (35), or the languages of a file of labels, FILE.json"
  lacks = "languages of --to that the translator lacks: they are left out, and named"
  split = "of --captions with splits; train has Karpathy's restval"
  base.text(command, "--captions", "FILE", captions, "")
  base.text(command, "--references", "FILE", references, "")
  base.text(command, "--predictions", "FILE", predictions, "")
  base.text(command, "--prompts", "FILE", prompts, "")
  base.text(command, "--corpus", "NAME", "coco35l, cc3m35l (a TSV) or folder", "", choices=_CORPORA)
  base.text(command, "--split", "NAME", split, "")
  base.text(command, "--from", "CODE", "language of the texts", "en", dest="source")
  base.text(command, "--to", "CODES", to, required=True)
  base.text(command, "--lacks", "CODES", lacks, "")
  base.text(command, "--out", "FILE", "the translations", required=True)
  group = command.add_argument_group("any model behind an endpoint (docs/any_model.md)")
  captioners.add_server(group)
  base.text(group, "--prompt", "NAME", "translation, or your own FILE.toml with `translation`", "translation")


def _translate(arguments) -> None:
  named = [name for name in _INPUTS if getattr(arguments, name)]
  if len(named) != 1:
    raise UsageError("give one of --captions, --references, --predictions and --prompts")
  if bool(arguments.captions) != bool(arguments.corpus) or (arguments.split and not arguments.captions):
    raise UsageError(
      "--captions and --corpus go together, and --split goes with them: for which build, of what"
    )
  base.require(arguments, ["endpoint", "model"])
  ending = ".json" if arguments.prompts else ".jsonl"
  base.check_ending("--out", arguments.out, (ending,))
  source = _code(arguments.source)
  codes, lacking = _languages(arguments, source)
  from xmcap.endpoint import prompts, run, translating

  endpoint = captioners.server(arguments)
  price, max_cost = captioners.costs(arguments)
  strategy = f"translation of {source}"
  settings = run.Settings(prompts.get(arguments.prompt), codes, strategy, price=price, max_cost=max_cost)
  stem = os.path.splitext(arguments.out)[0]
  rest = f"{stem}.left_out.jsonl"
  outputs.keep_apart(
    {"--out": [arguments.out, rest]},
    {**{f"--{name}": getattr(arguments, name) for name in _INPUTS}, "--prompt": arguments.prompt},
  )
  job = _job(arguments, source)
  journals = f"{stem}.answers"
  with contextlib.ExitStack() as stack:
    stack.enter_context(outputs.held(journals, arguments.prog))
    translator = stack.enter_context(
      translating.Translator(endpoint, settings, journals, job.count, bool(arguments.prompts), base.say)
    )
    _write(arguments.out, rest, job, translator)
    _finish(arguments, translator, lacking, rest)


def _code(written: str) -> str:
  """The code of a language in any spelling, also BabelNet's; UsageError if it is unknown."""
  return languages.of_wikipedia(written) or languages.get(written.strip()).code


def _languages(arguments, source: str) -> tuple[Sequence[str], Sequence[str]]:
  """The languages to translate into, and those that the translator lacks."""
  from xmcap.reading import jsonl

  if arguments.to.endswith(".json"):
    names = list(
      jsonl.read_document(arguments.to, dict[str, object], "no labels by language", "give a file of labels")
    )
  else:
    names = (
      arguments.to.split(",") if arguments.to not in ("all", "trained") else languages.parse(arguments.to)
    )
  asked = list(languages.by_language(((name, name) for name in names), "--to", _code))
  lacking = [_code(name) for name in arguments.lacks.split(",") if name]
  if others := [code for code in lacking if code not in asked]:
    raise UsageError(f"--lacks={arguments.lacks}: {', '.join(others)} is not in --to: leave it out")
  codes = [code for code in asked if code not in (source, *lacking)]
  if not codes:
    raise UsageError(f"--to={arguments.to}: no language but that of the texts, or that the translator lacks")
  return codes, lacking


def _job(arguments, source: str) -> "Job":
  from xmcap.endpoint import texts

  if arguments.captions:
    return texts.captions(arguments.captions, source, arguments.corpus, arguments.split)
  if arguments.references:
    return texts.of_references(arguments.references, source)
  if arguments.predictions:
    return texts.of_predictions(arguments.predictions, source)
  return texts.of_prompts(arguments.prompts, source)


def _write(out: str, rest: str, job: "Job", translator: "Translator") -> None:
  """Writes the translations, and beside them a line for each that is left out; both or none."""
  from xmcap.endpoint import texts, translating
  from xmcap.files import files

  with outputs.together(out, folder=False), files.whole(rest) as lost:

    def translated() -> "Translated":
      for units in translating.parts(job.units):
        flat = iter(translator.translate([text for unit in units for text in unit.texts]))
        for unit in units:
          of_unit = [next(flat) for _ in unit.texts]
          lost.writelines(line.encode("utf-8", "replace") for line in texts.left_out(unit, of_unit))
          yield unit, of_unit

    files.write_lines(out, job.lines(translated()))


def _finish(arguments, translator: "Translator", lacking: Sequence[str], rest: str) -> None:
  """Says what was done, and writes it as the provenance; XmcapError if translations are missing."""
  from xmcap.reading import provenance

  path = next(getattr(arguments, name) for name in _INPUTS if getattr(arguments, name))
  of_texts = provenance.read(path) if os.path.isfile(path) else None
  fields, notes = translator.outcome(
    {"texts": {"file": os.path.basename(path), "provenance": of_texts}, "lacks": lacking}
  )
  provenance.write(arguments.out, fields)
  for note in notes:
    base.say(note)
  if lacking:
    base.say(f"left out, as the translator lacks them: {', '.join(lacking)}")
  if translator.missing:
    again = "the same command asks again for those that failed"
    missing = wording.count(translator.missing, "translation")
    raise XmcapError(f"{missing} missing: {rest} has the reasons; {again}")
