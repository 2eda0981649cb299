"""`xmcap human rate`: makes a page for rating captions or tags, and joins the saved ratings with its key."""

from xmcap import terminal
from xmcap.commands import base
from xmcap.errors import UsageError
from xmcap.files import outputs


def add(actions) -> None:
  """Declares the command among the actions of `xmcap human`."""
  command = base.add_command(
    actions, "rate", _rate, "make a page for blind rating of captions or tags with the keyboard",
    "Writes PAGE.html for the raters, and PAGE.key.jsonl, which says which system wrote which caption and is not for "
    "them. Raters save a file; --join adds the systems to it, for xmcap human sxs, thumb or rubric. To give each rater "
    "another order and other sides, make a page with another --rater for each. Side by side, equal captions are "
    "compared too, because ties count (--equal=tie: without asking); else all captions or tags of a picture are on one "
    "screen, and one of several systems is rated once for all of them. On the page, a second person may check the "
    "file of a first; --join then takes the second's ratings.",
  )  # fmt: skip
  protocol = (
    "sxs: two captions side by side, seven points (sxs5: five); thumb: precision, recall, penalties (THumB 1.0); "
    "coco_cn_captions: relevance and fluency; coco_cn_tags: irrelevant, unsure, relevant; xm3600_quality: five levels; "
    "or the JSON file of a rubric (docs/human.md)"
  )
  system = (
    "a system and its captions, in any layout of xmcap score, such as COCO results; or its tags (repeatable)"
  )
  how = "embed pictures in the page, or link to them"
  rater = "default name of the rater; order and sides depend on it"
  base.text(command, "--protocol", "NAME", protocol)
  base.text(command, "--predictions", "NAME=FILE", system, **base.SEVERAL)
  base.text(command, "--out", "FILE", "the page, .html, or the joined ratings, .jsonl", required=True)
  base.text(command, "--images", "DIR", "folder with KEY.jpg or KEY.png")
  base.text(command, "--pictures", None, how, "embed", choices=("embed", "link"))
  base.text(command, "--references", "FILE", "human captions, which raters can unfold", **base.SEVERAL)
  base.text(command, "--language", "CODE", "language of captions without one: COCO's, plain text", short="-l")
  base.add_languages(command, "only these; default: all in the files")
  base.number(command, "--limit", "sample N pictures, each with all its captions", least=1)
  base.number(command, "--top", "the best N tags of each system, for a protocol of tags; default: 5", least=1)
  base.number(command, "--seed", "seed of sampled pictures, order and sides", 0)
  base.text(command, "--rater", "NAME", rater, "")
  equal = "equal captions side by side: ask about them too, or count them as ties"
  base.text(command, "--equal", None, equal, "ask", choices=("ask", "tie"))
  missing = "a caption that only some systems have: refuse, or leave it out (skip)"
  base.text(command, "--missing", "WAY", missing, "refuse", choices=("refuse", "skip"))
  base.text(command, "--join", "KEY", "join the key of a page with RATINGS")
  base.text(command, "ratings", "RATINGS", "with --join: files that raters saved", nargs="*")


def _join(arguments) -> None:
  if arguments.predictions or arguments.protocol or arguments.language or arguments.equal == "tie":
    raise UsageError(
      "--join takes a key and ratings: leave out --predictions, --protocol, --language, --equal"
    )
  if not arguments.ratings:
    raise UsageError(f"--join={arguments.join}: name the files that raters saved after it")
  base.check_ending("--out", arguments.out, [".jsonl"])
  outputs.keep_apart({"--out": arguments.out}, {"--join": arguments.join, "RATINGS": arguments.ratings})
  from xmcap.human import rating_join
  from xmcap.reading import inputs

  inputs.check_pipes({"--join": arguments.join, **{name: name for name in arguments.ratings}})
  with outputs.held(arguments.out, arguments.prog, folder=False):
    joined = rating_join.join(arguments.join, arguments.ratings)
    rating_join.write_rows(arguments.out, joined.rows)
  for rater, count in joined.rated.items():
    print(f"{terminal.shown(rater)}: {count:,} of {joined.items:,} items rated")
  for (rater, first), (count, changed, absent) in joined.checked.items():
    outcome = f"{changed:,} changed" + (f", {absent:,} not in these files" if absent else "")
    print(f"{terminal.shown(rater)} checked {count:,} of the ratings of {terminal.shown(first)}: {outcome}")
  if joined.taken_back:
    print(f"ratings that were taken back: {joined.taken_back:,}")
  for note in joined.notes:
    print(f"note: {note}")
  if joined.unrated:
    print(f"{joined.unrated:,} of {joined.items:,} items were rated by nobody")
  if joined.equal:
    rest = "; too many, as long as other items are rated by nobody" if joined.unrated else ""
    print(f"ties of equal captions, which nobody was asked about: {joined.equal:,}{rest}")
  own = {"sxs": "sxs", "sxs5": "sxs", "thumb": "thumb", "xm3600_quality": "quality"}
  action = own.get(joined.protocol, "rubric")
  print(
    f"{arguments.out}: {len(joined.rows):,} ratings; next: xmcap human {action} --ratings={arguments.out}"
  )


def _rate(arguments) -> None:
  if arguments.join is not None:
    _join(arguments)
    return
  if arguments.ratings:
    raise UsageError(
      f"'{arguments.ratings[0]}': ratings need --join; give a system as --predictions=NAME=FILE"
    )
  if arguments.protocol is None or not arguments.predictions:
    raise UsageError(
      "xmcap human rate needs --protocol=NAME, such as sxs or thumb, and --predictions=NAME=FILE for each system; or "
      "--join=KEY and ratings"
    )
  if arguments.pictures == "link" and not arguments.images:
    raise UsageError("--pictures=link: give the folder of the pictures with --images=DIR")
  base.check_ending("--out", arguments.out, [".html"])
  from xmcap import wording
  from xmcap.human import fields, rating_items, rating_page, rating_protocols
  from xmcap.reading import failed_requests, inputs, tag_files
  from xmcap.reading.predictions import read_predictions
  from xmcap.reading.references import read_references

  if len(arguments.rater) > fields.MAX_NAME:
    raise UsageError(f"--rater: the name has {len(arguments.rater):,} characters; at most {fields.MAX_NAME}")
  protocol = rating_protocols.get(arguments.protocol)
  of_tags = protocol.shows == "tags"
  if arguments.top and not of_tags:
    raise UsageError(f"--top is for a protocol of tags, such as coco_cn_tags, not {protocol.name}")
  if arguments.equal == "tie" and protocol.shows != "pair":
    raise UsageError(f"--equal is for captions side by side, --protocol=sxs, not {protocol.name}")
  paths = base.named_paths("--predictions", arguments.predictions)
  inputs.check_pipes(
    {"--references": arguments.references, **{f"--predictions={name}": path for name, path in paths.items()}}
  )
  key = rating_page.key_path(arguments.out)
  outputs.keep_apart(
    {"--out": [arguments.out, key]},
    {"--predictions": list(paths.values()), "--references": arguments.references},
  )
  with outputs.held_all([("--out", arguments.out, False), ("--out", key, False)], arguments.prog):
    references = None
    if arguments.references:
      references = read_references(arguments.references, language=arguments.language)
    systems: dict[str, rating_items.Texts] = {}
    notes: list[str] = []
    for name, path in paths.items():
      if of_tags:
        scores = tag_files.read(path, arguments.language)
        systems[name] = rating_items.best_tags(scores, arguments.top or 5, name)
      else:
        predicted = read_predictions(path, arguments.language, references)
        answered, failed = failed_requests.split(references or {}, predicted)
        if arguments.missing == "refuse":
          failed_requests.refuse(failed, sum(map(len, (*answered.values(), *failed.values()))), path)
        systems[name] = answered
        notes += [f"system '{name}': {line.removeprefix('predictions: ')}" for line in predicted.notes]
        residue = rating_items.residue_note(name, answered, references or {}, arguments.languages)
        notes += [residue] if residue else []
    systems, renamed = rating_items.under_same_keys(systems)
    if arguments.missing == "skip":
      systems, left_out = rating_items.common(systems, arguments.languages)
      renamed += [left_out] if left_out else []
    items = rating_items.draw_items(
      protocol, systems, arguments.languages, arguments.limit, arguments.seed, arguments.rater,
      ask_equal=arguments.equal == "ask",
    )  # fmt: skip
    link = arguments.pictures == "link"
    rating_page.write_rating_page(
      arguments.out, protocol, items, arguments.images, references, arguments.rater, link
    )
  written = "tag" if of_tags else "caption"
  noun = "comparison" if protocol.shows == "pair" else written
  print(
    f"{arguments.out}: {wording.count(len(items), noun)}, {wording.count(len(systems), 'system')}, "
    f"{wording.count(len({item.key for item in items}), 'picture')}, "
    f"{wording.count(len({item.language for item in items}), 'language')}, seed {arguments.seed}"
  )
  same = sum(item.is_equal for item in items)
  if same:
    how = "kept, because ties count" if arguments.equal == "ask" else "ties that nobody is asked about"
    print(f"comparisons of equal captions: {same:,}; {how}")
  shared = sum(len(item.systems) - 1 for item in items)
  if protocol.shows != "pair" and shared:
    print(f"{noun}s equal to another system's, and rated together with it: {shared:,}")
  if references is not None:
    lacking = sum(not references.get(item.key, {}).get(item.language) for item in items)
    if lacking:
      print(f"{lacking:,} of {len(items):,} items have no reference in {', '.join(arguments.references)}")
  for note in [*notes, *renamed]:
    print(f"note: {terminal.shown(note, limit=None)}")
  print(f"{key}: which system wrote which {written}; do not show it to the raters")
  print(f"after the rating: xmcap human rate --join={key} RATINGS.jsonl --out=joined.jsonl")
