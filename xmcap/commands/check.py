"""The command that checks captions without references: which model suits one's own pictures and languages."""

import os
import shlex

from xmcap.commands import base
from xmcap.files import outputs


def add(commands) -> None:
  """Declares the command."""
  command = base.add_command(
    commands, "check", _check,
    "check captions without references: language, residue, sameness, length, cost of several models",
    "Writes check.csv, .json, .md and .tex, and says how a blind rating page of the same captions is made.",
  )  # fmt: skip
  files = (
    "captions in a layout of xmcap score, or NAME=FILE; tokens and dollars are those of FILE's provenance"
  )
  base.text(command, "systems", "FILE", files, nargs="+")
  base.text(command, "--out", "DIR", "folder for the table", "", short="-o")
  base.text(command, "--images", "DIR", "folder of the pictures, for the rating page", "")
  base.text(command, "--language", "CODE", "language of captions without one", short="-l")
  base.add_languages(command, "only these; default: all in the files")
  base.add_raw(command)


def _check(arguments) -> None:
  from xmcap import languages
  from xmcap.human import caption_check
  from xmcap.pages.report import pictures
  from xmcap.reading import inputs, jsonl, provenance
  from xmcap.reading.predictions import read_predictions

  pictures.check("embed", arguments.images or None)
  if arguments.language:
    languages.get(arguments.language)
  paths = base.named_paths("FILE", arguments.systems, unnamed=True)
  inputs.check_pipes({f"FILE={path}": path for path in paths.values()})
  systems = {name: read_predictions(path, arguments.language) for name, path in paths.items()}
  problem = "not a provenance of captions", "remove it"
  origins = {
    name: jsonl.convert(provenance.read(path) or {}, caption_check.Origin, provenance.path_of(path), *problem)
    for name, path in paths.items()
  }
  checked = caption_check.check(systems, origins, arguments.languages)
  out = arguments.out
  if out:
    outputs.keep_apart({"--out": checked.files(out)}, {"FILE": list(paths.values())})
    with outputs.held(out, arguments.prog), outputs.together(out):
      checked.write(out)
  print(checked.terminal(out))
  print(f"signature: {checked.signature}")
  if len(paths) > 1:
    words = [f"--predictions={name}={path}" for name, path in paths.items()]
    words += [f"--images={arguments.images or 'PICTURES'}", f"--out={os.path.join(out, 'rating.html')}"]
    if any(row.missing for row in checked.rows):
      words.append("--missing=skip")
    if arguments.languages:
      words.append(f"--languages={','.join(arguments.languages)}")
    print(f"blind rating, side by side: xmcap human rate --protocol=sxs {shlex.join(words)}")
