"""The commands that make something from a corpus: data vocabulary, labels, tags and words."""

import json
import os
import pathlib
from collections.abc import Mapping

from xmcap import languages
from xmcap.commands import base
from xmcap.errors import UsageError
from xmcap.files import outputs


def add(actions) -> None:
  """Declares the commands."""
  _add_vocabulary(actions)
  _add_labels(actions)
  _add_tags(actions)
  _add_words(actions)


def _add_vocabulary(actions) -> None:
  command = base.add_command(
    actions, "vocabulary", _vocabulary, "train a SentencePiece vocabulary on the captions of a corpus",
    "It gets a LangId token for each of the 36 languages, and for other languages of the corpus.",
    extra="train",
  )  # fmt: skip
  base.text(command, "dir", "DIR", "a built corpus")
  base.text(command, "--out", "FILE", "the model; default: vocabulary.model in DIR", endings=(".model",))
  base.number(command, "--size", "number of tokens; less with little text", 8_000, least=100)
  base.text(command, "--split", "NAME", "split whose captions are read", "train")
  base.add_languages(command, "of the captions, such as en,th; default: all")
  base.number(command, "--captions", "read at most N captions, of evenly spread pictures", 2_000_000, least=1)
  base.text(
    command, "--oversample", "CODE:TIMES,...", "count captions of a language several times, such as en:30", ""
  )
  base.flag(command, "--span_words", "allow tokens of several words: shorter targets, but unlike mT5")
  words = (
    "make each word that occurs N times a token, and no others, as Show and Tell does; instead of --size"
  )
  base.number(command, "--words", words, 0, least=0)


def _vocabulary(arguments) -> None:
  from xmcap.data import vocabulary

  if not arguments.out and not os.path.isdir(arguments.dir):
    raise UsageError(f"{arguments.dir} is not a local folder: give the file for the model with --out=FILE")
  out = arguments.out or os.path.join(arguments.dir, "vocabulary.model")
  with outputs.held(out, arguments.prog, folder=False):
    trained = vocabulary.train_on_records(
      arguments.dir,
      out,
      arguments.size,
      split=arguments.split,
      most=arguments.captions,
      span_words=arguments.span_words,
      languages=arguments.languages or (),
      oversample=_oversample(arguments.oversample),
      word_count=arguments.words,
    )
  print(f"{out}: {trained.size:,} tokens; next: xmcap data index {arguments.dir} --vocabulary={out}")


def _oversample(text: str) -> dict[str, int]:
  """Parses `en:30,de:2`; UsageError for anything else."""
  times_of = {}
  for pair in filter(None, text.split(",")):
    language, _, times = pair.partition(":")
    if not times.isdecimal() or not 1 <= int(times[:5]) <= 1_000:
      raise UsageError(f"--oversample={text}: give CODE:TIMES with a number from 1 to 1000, such as en:30")
    times_of[languages.get(language).code] = int(times)
  return times_of


def _add_labels(actions) -> None:
  command = base.add_command(
    actions, "labels", _labels, "make Babel-ImageNet's labels, from a table of senses or from the paper's own",
    "From senses it runs the paper's five steps, and prints how many classes of each language remain after each. "
    "With --english, English gets the names and templates of the paper. With --translations, their languages get their "
    "names of the same classes, and prompts.json beside --out their templates; the others are left out.",
  )  # fmt: skip
  senses = "tab-separated: language, lemma, source, machine_translated, synset; in BabelNet's order"
  base.text(command, "--senses", "FILE", senses)
  base.text(
    command,
    "--wnids",
    "FILE",
    "with --senses or --check: the classes in the order of their indices, one per line",
  )
  base.text(
    command, "--labels", "FILE", "instead of --senses: labels, such as babel_imagenet-298.json", short="-r"
  )
  base.add_languages(
    command, "of --labels, or every; default: the paper's 100 and en, if all are there", every=True
  )
  english = "benchmark/data/babel_imagenet.py of the paper's repository, for OpenAI's 1,000 names"
  base.text(command, "--english", "FILE", english)
  prompts = "prompts by language; with --english, prompts.json beside --out has them with OpenAI's templates"
  base.text(command, "--prompts", "FILE", prompts)
  translations = (
    "clip_benchmark/datasets of LAION-AI/CLIP_benchmark, for existing translations of the same classes"
  )
  base.text(command, "--translations", "DIR", translations)
  out = "the labels, for `data build babel_imagenet` and `embed`"
  base.text(command, "--out", "FILE", out, endings=(".json",), required=True)
  check = "also labels and English names as captions of pictures named by wnid, JSONL, for `human rate`"
  base.text(command, "--check", "FILE", check, endings=(".jsonl",))
  base.number(command, "--least", "with --senses: drop languages with fewer classes", 10, least=2)


def _labels(arguments) -> None:
  needs_wnids = bool(arguments.senses or arguments.check)
  if bool(arguments.senses) == bool(arguments.labels) or needs_wnids != bool(arguments.wnids):
    raise UsageError("give --senses with --wnids, or --labels; --check needs --wnids too")
  if arguments.prompts and not arguments.english:
    raise UsageError("--prompts get OpenAI's English templates: give --english too")
  if arguments.translations:
    base.refuse(arguments, ("senses", "english"), "makes other labels than --translations; leave it out")
  from xmcap.files import files
  from xmcap.papers import babel_imagenet_languages
  from xmcap.ranked import openai_english, prompts

  inputs = ("senses", "wnids", "labels", "english", "prompts", "translations")
  read = {f"--{name}": getattr(arguments, name) for name in inputs}
  out = pathlib.Path(arguments.out)
  beside = out.parent / "prompts.json"
  written = [str(out), *([str(beside)] if arguments.prompts or arguments.translations else [])]
  outputs.keep_apart({"--out": written, "--check": arguments.check}, read)
  with outputs.held(arguments.out, arguments.prog, folder=False), outputs.together(out, folder=False):
    labels, said = _of_senses(arguments) if arguments.senses else _of_labels(arguments, beside)
    is_whole = arguments.languages in (None, languages.EVERY) and not arguments.translations
    if is_whole and (difference := babel_imagenet_languages.difference(labels)):
      said += f"{difference}\n"
    if arguments.english:
      english = openai_english.read(arguments.english)
      labels["en"] = [list(range(len(english.names))), list(english.names)]
      if arguments.prompts:
        templates = {**prompts.read_prompts(arguments.prompts), "en": english.templates}
        files.write_text(beside, json.dumps(templates, ensure_ascii=False) + "\n")
        said += f"{beside}: prompts in {len(templates):,} languages\n"
    if arguments.check:
      said += _write_check(arguments, labels)
    layout = {language.upper(): classes for language, classes in labels.items()}
    files.write_text(out, json.dumps(layout, ensure_ascii=False) + "\n")
  print(f"{said}{out}: {len(labels):,} languages")


def _write_check(arguments, labels: Mapping[str, list[list]]) -> str:
  """Writes the labels of all languages but English as captions, beside the English names; returns the line about it."""
  from xmcap.corpora.releases import babel_labels
  from xmcap.files import files

  captions = babel_labels.captions(labels, babel_labels.read_wnids(pathlib.Path(arguments.wnids)))
  files.write_text(arguments.check, "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in captions))
  return f"{arguments.check}: {len(captions):,} labels to check\n"


def _of_senses(arguments) -> tuple[dict[str, list[list]], str]:
  """Returns the labels made from senses, by code, and the lines about them."""
  from xmcap.corpora.releases import babel_labels

  wnids = babel_labels.read_wnids(pathlib.Path(arguments.wnids))
  made = babel_labels.make(babel_labels.read_senses(arguments.senses), wnids, arguments.least)
  unknown = [name for name in made.labels if languages.of_wikipedia(name) is None]
  kept = ((name, texts) for name, texts in made.labels.items() if name not in unknown)
  labels = languages.by_language(kept, arguments.senses, languages.of_wikipedia)
  summary = babel_labels.summary(made.counts, made.labels.keys() - set(unknown))
  left_out = f"left out, because no language has this code: {', '.join(unknown)}\n" if unknown else ""
  return labels, f"{summary}\n{left_out}"


def _of_labels(arguments, beside: pathlib.Path) -> tuple[dict[str, list[list]], str]:
  """Returns the labels of a file in the languages asked for, by code, and the lines about them.

  With --translations they are those of the same classes, whose templates are written to `beside`.
  """
  from xmcap.files import files
  from xmcap.ranked import clip_benchmark, zero_shot

  labels = zero_shot.read_labels(arguments.labels, arguments.languages, base.say)
  if not arguments.translations:
    return {
      language: [classes.indices.tolist(), list(classes.names)] for language, classes in labels.items()
    }, ""
  translations = clip_benchmark.read(arguments.translations)
  made = clip_benchmark.of_classes(translations, labels)
  templates = {language.upper(): translations[language].templates for language in made}
  files.write_text(beside, json.dumps(templates, ensure_ascii=False) + "\n")
  counts = ", ".join(f"{language} {len(indices):,}" for language, (indices, _) in made.items())
  return made, f"classes with an existing translation: {counts}\n{beside}: their prompts\n"


def _add_tags(actions) -> None:
  command = base.add_command(
    actions, "tags", _tags, "make tagging labels from tags and sentences, and references for `score tags`",
    "Chinese labels follow the rule of COCO-CN, English ones are frequent nouns, verbs and adjectives (it needs the "
    "extra words), those of other languages are frequent words.",
    extra="train",
  )  # fmt: skip
  base.text(command, "dir", "DIR", "a built corpus, or the texts of `data build coco_cn --no_images`")
  out = "folder for labels.txt, and SPLIT.jsonl with the labels of each picture"
  source = "source of the sentences: human (with the tags), translated or mt; or tags, without sentences"
  base.text(command, "--out", "DIR", out, required=True)
  base.text(command, "--language", "CODE", "language of the tags and sentences", "zh")
  base.text(command, "--source", "NAME", source, "human")
  base.text(command, "--labels", "FILE", "use these labels, one per line, instead of the rule")
  base.text(command, "--tags", "FILE", "the pictures' tags, for `score tags`, in place of the corpus's own")
  table = "labels of English tags, such as Flickr's: lines of a tag, a tab and its label"
  base.text(command, "--map", "FILE", table)
  base.text(
    command, "--classes", "FILE", "also say how many of these classes, one per line, are among the labels"
  )
  base.number(command, "--least", "minimum number of training pictures of a label", 20, least=1)
  base.number(command, "--most", "keep only the N most frequent labels; default: all", least=1)
  features = (
    "also write features.safetensors: these vectors, then 1 for each label that a picture has, else 0"
  )
  base.text(command, "--features", "PATH", features)


def _tags(arguments) -> None:
  from xmcap.corpora.building import tag_labels
  from xmcap.data import records
  from xmcap.reading import label_words

  if arguments.source not in (*records.SOURCES, tag_labels.TAGS):
    raise UsageError(
      f"--source={arguments.source}: choose one of {', '.join((*records.SOURCES, tag_labels.TAGS))}"
    )
  for option in ("tags", "map"):
    if getattr(arguments, option) and arguments.source not in ("human", tag_labels.TAGS):
      raise UsageError(
        f"--{option}: with --source={arguments.source} no tags count; leave one of the two out"
      )
  if arguments.labels:
    base.refuse(arguments, ("most",), "is for labels by the rule; leave it out with --labels")
  if not languages.is_known(arguments.language):
    raise UsageError(f"--language={arguments.language}: not a language code: give one such as zh or en")
  inputs = {
    f"--{name}": getattr(arguments, name) for name in ("labels", "features", "tags", "map", "classes")
  }
  outputs.keep_apart({"--out": arguments.out}, {"DIR": arguments.dir, **inputs})
  images = tag_labels.read_pictures(arguments.dir)
  if arguments.tags:
    images = tag_labels.with_tags(images, arguments.tags, "en" if arguments.map else arguments.language)
  if arguments.map:
    images = tag_labels.mapped(images, arguments.map, arguments.language, base.say)
  classes = tag_labels.read(arguments.classes) if arguments.classes else []
  made = tag_labels.make(
    images,
    arguments.language,
    source=tag_labels.TAGS if arguments.map else arguments.source,
    given=tag_labels.read(arguments.labels) if arguments.labels else None,
    least=arguments.least,
    most=arguments.most,
  )
  out = pathlib.Path(arguments.out)
  with outputs.held(out, arguments.prog), outputs.together(out):
    tag_labels.write(out, made, arguments.language)
    if arguments.features:
      tag_labels.write_features(out, made, arguments.features)
  print(f"{made.table()}\n{out}: labels.txt, and the labels of each picture")
  for line in label_words.note(
    "classes", "labels", {arguments.language: label_words.alike(classes, made.counts)}
  ):
    base.say(line)
  if classes:
    common = len(made.counts.keys() & set(classes))
    print(
      f"{common:,} of {len(classes):,} classes are labels; {len(made.counts) - common:,} labels are others"
    )


def _add_words(actions) -> None:
  command = base.add_command(
    actions, "words", _words, "collect the frequent words of a corpus, with word vectors, for runs/w2vv.gin",
    "The vectors are trained on the captions by gensim, of the extra words, or read from a file.", extra="train",
  )  # fmt: skip
  base.text(command, "dir", "DIR", "a built corpus")
  out = "folder for CODE.safetensors of each language"
  base.text(command, "--out", "DIR", out, short="-o", required=True)
  codes = "of the captions, separated by commas"
  base.text(command, "--languages", "CODES", codes, "zh", type=languages.parse)
  base.text(command, "--split", "NAME", "of the captions, such as train or train+train_mt", "train")
  base.text(command, "--sources", "NAMES", "of the captions: human, translated, mt; default: all sources", "")
  base.number(command, "--least", "minimum number of occurrences of a word", 5, least=1)
  vectors = "word2vec's text, or .safetensors as of this command: the vectors, which are then not trained"
  base.text(command, "--vectors", "FILE", vectors)
  base.number(command, "--width", "numbers of a trained vector", 500, least=1)
  base.number(command, "--epochs", "passes over the captions in training", 10, least=1)
  base.number(command, "--seed", "random seed of the training", 0)


def _words(arguments) -> None:
  from xmcap.data import records
  from xmcap.families.word2visualvec import word_vectors, words
  from xmcap.files import files
  from xmcap.grid import Grid

  sources = [name for name in arguments.sources.split(",") if name]
  records.check_sources(sources, "--sources")
  if arguments.vectors and len(arguments.languages) > 1:
    raise UsageError("--vectors has the words of one language: give one of --languages at a time")
  outputs.keep_apart({"--out": arguments.out}, {"DIR": arguments.dir, "--vectors": arguments.vectors})
  vocabularies = word_vectors.count_words(
    arguments.dir, arguments.split, arguments.languages, sources, arguments.least
  )
  out = pathlib.Path(arguments.out)
  rows, absent = [], 0
  with outputs.held(out, arguments.prog), outputs.together(out):
    files.make_folder(out)
    for language, vocabulary in vocabularies.items():
      if arguments.vectors:
        made, absent = word_vectors.take(arguments.vectors, vocabulary)
        origin = {"vectors": arguments.vectors}
      else:
        made = word_vectors.train(vocabulary, arguments.width, arguments.epochs, arguments.seed)
        settings = f"epochs={arguments.epochs},seed={arguments.seed}"
        origin = {"vectors": f"word2vec on {arguments.split}, {settings}"}
      words.write(out, language, made, {**origin, "least": str(arguments.least)})
      rows.append(
        (
          language, f"{len(vocabulary.captions):,}", f"{len(made.keys):,}", f"{vocabulary.coverage:.1%}",
          f"{vocabulary.unknown:,}", f"{made.vectors.shape[1]:,}",
        )
      )  # fmt: skip
  headings = ("language", "captions", "words", "of all words", "captions without a word", "vector width")
  print(Grid(headings, tuple(rows)).text())
  if absent:
    print(f"{arguments.vectors} has no vector of {absent:,} words, whose vectors are zeros")
  print(f"{out}: words and their vectors in {', '.join(vocabularies)}")
