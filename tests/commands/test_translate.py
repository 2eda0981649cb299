"""`xmcap translate`: captions, references, predictions and prompts through a server on loopback."""

import re

import pytest
from starlette.responses import JSONResponse

from tests.make import files, images
from tests.make.command import xmcap
from tests.make.endpoint import Endpoint, completion, error
from xmcap.data import records
from xmcap.endpoint import placeholders, translating
from xmcap.ranked.prompts import read_prompts
from xmcap.reading.predictions import read_predictions
from xmcap.reading.references import read_references

_WORDS = {"German": "auf Deutsch", "French": "en français", "Thai": "ภาษาไทย"}


def _asked(asked) -> tuple[str, str]:
  """The name of the language, and the text."""
  instruction, text = asked["messages"][-1]["content"].split("\n\n", 1)
  return re.search(r"into ([^.]+)\.", instruction)[1], text


def _translates(change=lambda language, text: f"{text} {_WORDS[language]}"):
  """A translator, which says what `change` returns, or answers as it does."""

  def answer(endpoint, asked):
    said = change(*_asked(asked))
    return JSONResponse(completion(said)) if isinstance(said, str) else said

  return answer


def _translate(server, *more):
  return xmcap("translate", f"--endpoint={server.url}", "--model=stub", "--to=de,fr,th", *more)


@pytest.fixture
def place(tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  monkeypatch.delenv("OPENAI_API_KEY", raising=False)
  files.release(
    "r.jsonl",
    {f"k{number}": {"en": [f"a cat {number}", "the cat"], "de": ["Katze"]} for number in range(5)},
    locale="en",
  )
  return tmp_path


def test_captions_for_cc3m35l_are_built(place):
  for number in range(1, 11):
    files.write(f"rel/train_images/{number:08}.jpg", images.noise((24, 24), number, "JPEG"))
  tsv = files.lines(
    "rel/Train_GCC-training.tsv", *(f"a cat {number}\thttp://x.y/{number}.jpg" for number in range(1, 11))
  )
  with Endpoint(_translates()).serving() as server:
    _translate(server, f"--captions={tsv}", "--corpus=cc3m35l", "--out=rel/cc3m_mt_train.jsonl").succeeded(
      "30 translations: 30 answered; 30 asked now"
    )
  assert files.rows("rel/cc3m_mt_train.jsonl")[1] == {
    "rec_num": 1, "src_lang": "en", "trg_lang": "fr", "caption_tokenized": "a cat 1",
    "translation_tokenized": "a cat 1 en français", "backtranslation_tokenized": "",
  }  # fmt: skip
  xmcap("data", "build", "cc3m35l", "--release=rel", "--out=built").succeeded("no problems")
  record = next(iter(records.RecordSource("built", "train")))
  captions = {caption.language: (caption.text, caption.source) for caption in record.captions}
  assert captions == {
    "en": ("a cat 1", "human"), "de": ("a cat 1 auf Deutsch", "mt"), "fr": ("a cat 1 en français", "mt"),
    "th": ("a cat 1 ภาษาไทย", "mt"),
  }  # fmt: skip


def test_captions_of_own_pictures_say_that_they_are_translations(place):
  for number in range(5):
    files.write(f"photos/k{number}.jpg", images.noise((24, 24), number, "JPEG"))
  with Endpoint(_translates()).serving() as server:
    _translate(server, "--captions=r.jsonl", "--corpus=folder", "--out=own.jsonl").succeeded()
  built = (
    "data",
    "build",
    "folder",
    "--captions=own.jsonl",
    "--images=photos",
    "--out=built",
    "--splits=train:1",
  )
  xmcap(*built).succeeded("source    source", "no problems")
  for record in records.RecordSource("built", "train"):
    sources = {(caption.language, caption.source) for caption in record.captions}
    assert sources == {("en", "human"), ("de", "mt"), ("fr", "mt"), ("th", "mt")}


def test_karpathys_train_has_restval_and_numbers_from_1(place):
  images_of = [
    {"cocoid": number, "filename": f"{number}.jpg", "filepath": "val2014", "split": split,
     "sentences": [{"raw": f"cat {number}"}, {"raw": f"dog {number}"}]}
    for number, split in ((7, "train"), (8, "restval"), (9, "val"))
  ]  # fmt: skip
  files.json("karpathy.json", {"images": images_of})
  captions = "--captions=karpathy.json", "--corpus=coco35l"
  with Endpoint(_translates()).serving() as server:
    for split in ("train", "val"):
      _translate(server, *captions, f"--split={split}", f"--out={split}.jsonl").succeeded()
  ids = [line["image_id"] for line in files.rows("train.jsonl") if line["trg_lang"] == "de"]
  assert ids == ["7_1", "7_2", "8_1", "8_2"]
  assert {line["image_id"] for line in files.rows("val.jsonl")} == {"9_1", "9_2"}
  with Endpoint().serving() as server:
    _translate(server, "--captions=r.jsonl", "--corpus=coco35l", "--out=x.jsonl").refused(
      "'k0' is no id of COCO"
    )


def test_references_keep_their_region_and_are_scored_against(place):
  with Endpoint(_translates()).serving() as server:
    _translate(server, "--references=r.jsonl", "--out=mt.jsonl").succeeded("30 translations: 30 answered")
  references = read_references("mt.jsonl")
  assert references["k3"]["de"] == ["a cat 3 auf Deutsch", "the cat auf Deutsch"]
  assert references["k3"]["en"] == ["a cat 3", "the cat"] and references.locales["k3"] == "en"
  files.captions("p.jsonl", {f"k{number}": {"de": f"a cat {number} auf Deutsch"} for number in range(5)})
  xmcap(
    "score", "--references=mt.jsonl", "--predictions=p.jsonl", "--languages=de", "--out=scores"
  ).succeeded()


def test_predictions_say_whose_captions_were_translated(place):
  """The draft's TGT: a captioner of English, and a translator."""
  files.captions("en.jsonl", {f"k{number}": {"en": f"a cat {number}"} for number in range(5)})
  with Endpoint(_translates()).serving() as server:
    _translate(server, "--predictions=en.jsonl", "--out=tgt.jsonl").succeeded()
  predictions = read_predictions("tgt.jsonl")
  assert predictions["k2"] == {
    "en": "a cat 2", "de": "a cat 2 auf Deutsch", "fr": "a cat 2 en français", "th": "a cat 2 ภาษาไทย",
  }  # fmt: skip
  assert predictions.captioner.startswith("stub,prompt=translation#")
  assert "translation of en" in predictions.captioner
  files.coco_results("coco.json", {1: "a cat", 2: "a dog"})
  with Endpoint(_translates()).serving() as server:
    _translate(server, "--predictions=coco.json", "--out=of_coco.jsonl").succeeded(
      "6 translations: 6 answered"
    )


def test_prompts_keep_their_placeholder(place):
  """German keeps the first form, French the second, Thai none."""

  def change(language, text):
    kept = {"German": ("{c}",), "French": ("<a>{c}</a>",), "Thai": ()}[language]
    for form in sorted(placeholders.FORMS, key=len, reverse=True):
      if form in text:
        return f"{_WORDS[language]} {form if form in kept else 'ding'}"
    raise AssertionError(text)

  files.json("p.json", {"EN": ["a photo of a {}."]})
  with Endpoint(_translates(change)).serving() as server:
    result = _translate(server, "--prompts=p.json", "--out=mt.json").succeeded()
  assert "1 in 'th' without the placeholder, which was put at the end" in result.err
  assert read_prompts("mt.json") == {
    "en": ("a photo of a {}.",), "de": ("auf Deutsch {}",), "fr": ("en français {}",), "th": ("ภาษาไทย ding {}",),
  }  # fmt: skip
  assert len(server.requests) == 1 + 2 + len(placeholders.FORMS)


def test_what_is_no_translation_is_left_out_and_listed(place):
  said = {
    "a cat 0": "I'm sorry, I can't help with that.", "a cat 1": "a cat 1", "a cat 2": "Sure:\neine Katze",
    "a cat 3": JSONResponse(completion("eine", finish="length")), "a cat 4": "eine Katze",
  }  # fmt: skip
  files.captions("en.jsonl", {f"k{number}": {"en": f"a cat {number}"} for number in range(5)})
  with Endpoint(_translates(lambda language, text: said[text])).serving() as server:
    result = xmcap(
      "translate", f"--endpoint={server.url}", "--model=stub", "--predictions=en.jsonl", "--to=de,quz", "--lacks=quz",
      "--out=tgt.jsonl",
    )  # fmt: skip
  result.refused("4 translations missing", "tgt.left_out.jsonl", code=1)
  assert "left out, as the translator lacks them: quz" in result.err
  predictions = read_predictions("tgt.jsonl")
  assert [key for key in predictions if "de" in predictions[key]] == ["k4"]
  reasons = {line["key"]: line["reason"] for line in files.rows("tgt.left_out.jsonl")}
  assert reasons == {
    "k0": "no answer (a refusal)", "k1": "equal to the text", "k2": "several lines", "k3": "cut: finish_reason length",
  }  # fmt: skip
  assert "no translation at all" not in result.err


def test_a_language_without_any_translation_is_named(place):
  def translated(french, out):
    with Endpoint(
      _translates(lambda language, text: french or text if language == "French" else "แมว")
    ).serving() as one:
      return xmcap(
        "translate", f"--endpoint={one.url}", "--model=stub", "--references=r.jsonl", "--to=fr,th", f"--out={out}",
      ).err  # fmt: skip

  # "the cat" is as short as a name, and kept.
  assert "5 in 'fr' equal to the text, as a name may be: kept" in translated("", "mt.jsonl")
  assert "no translation at all into fr" in translated(" ", "m2.jsonl")


def test_the_same_command_continues_part_after_part(place, monkeypatch):
  """Memory is that of a part; each has its journal, and what they have is not asked again."""
  monkeypatch.setattr(translating.parts, "__defaults__", (2,))
  broken = []

  def change(language, text):
    if text == "a cat 3" and not broken:
      return error(400, "no")()
    return f"{text} {_WORDS[language]}"

  out = "--references=r.jsonl", "--out=mt.jsonl"
  with Endpoint(_translates(change)).serving() as server:
    _translate(server, *out).refused("3 translations missing", code=1)
    first = len(server.requests)
    broken.append(True)
    _translate(server, *out).succeeded("30 translations: 30 answered; 3 asked now")
    assert len(server.requests) == first + 3
    before = (place / "mt.jsonl").read_bytes()
    _translate(server, *out).succeeded("0 asked now")
  assert (place / "mt.jsonl").read_bytes() == before
  assert sorted(path.name for path in (place / "mt.answers").iterdir()) == [
    f"00000{number}.answers.jsonl" for number in range(1, 6)
  ]
  # "the cat" of each image is asked again in its part: 5 parts of a picture with 2 references, in 3 languages
  assert first == 30


def test_a_part_that_begins_with_failures_is_no_end_of_the_run(place, monkeypatch):
  monkeypatch.setattr(translating.parts, "__defaults__", (4,))
  files.captions("en.jsonl", {f"k{number}": {"en": f"a cat {number}"} for number in range(8)})

  def change(language, text):
    return error(400, "no")() if int(text[-1]) >= 4 else f"{text} {_WORDS[language]}"

  with Endpoint(_translates(change)).serving() as server:
    _translate(server, "--predictions=en.jsonl", "--out=tgt.jsonl").refused("12 translations missing", code=1)
    _translate(server, "--predictions=en.jsonl", "--out=tgt.jsonl").refused("12 translations missing", code=1)
  assert len(read_predictions("tgt.jsonl")) == 8
  with Endpoint(lambda endpoint, asked: error(400, "no")()).serving() as server:
    _translate(server, "--predictions=en.jsonl", "--out=other.jsonl").refused("the first 3 texts failed")


def test_a_question_is_asked_once_in_a_part(place):
  with Endpoint(_translates()).serving() as server:
    _translate(server, "--references=r.jsonl", "--out=mt.jsonl").succeeded()
  assert len(server.requests) == 3 * (5 + 1)


def test_costs_end_a_run(place):
  price = "--price=1000,1000", "--max_cost=0.5"
  with Endpoint(_translates()).serving() as server:
    result = _translate(server, "--references=r.jsonl", "--out=mt.jsonl", "--max_requests=1", *price)
    result.refused("--max_cost=0.5: reached", code=1)
    asked = len(server.requests)
    assert asked == 5  # of 0.11 dollars each
    _translate(server, "--references=r.jsonl", "--out=mt.jsonl", *price).refused("reached", code=1)
    assert len(server.requests) == asked
  assert not (place / "mt.jsonl").exists()


@pytest.mark.parametrize(
  ("argv", "message"),
  [
    ("--out=x.jsonl", "give one of --captions, --references"),
    ("--references=r.jsonl --prompts=p.json --out=x.jsonl", "give one of"),
    ("--captions=r.jsonl --out=x.jsonl", "--captions and --corpus go together"),
    ("--references=r.jsonl --split=train --out=x.jsonl", "--split goes with them"),
    ("--references=r.jsonl --out=x.json", "is written as .jsonl"),
    ("--references=r.jsonl --out=r.jsonl", "would overwrite the input"),
    ("--references=r.jsonl --from=hu --out=x.jsonl", "no references in 'hu'"),
    ("--references=r.jsonl --lacks=la --out=x.jsonl", "la is not in --to"),
    ("--captions=r.jsonl --corpus=cc3m35l --out=x.jsonl", "line 1: not `caption<TAB>URL`"),
    ("--references=r.jsonl --prompt=paligemmo --out=x.jsonl", "unknown prompt"),
  ],
)
def test_refusals(place, argv, message):
  words = argv.split()
  xmcap("translate", "--endpoint=http://127.0.0.1:9/v1", "--model=m", "--to=de,fr", *words).refused(message)


def test_the_languages_of_a_file_of_labels(place):
  files.json("labels.json", {"DE": [[], []], "ZH_YUE": [[], []], "EN": [[], []]})
  files.json("p.json", {"EN": ["a {}."]})
  with Endpoint(_translates(lambda language, text: f"词 {text}")).serving() as server:
    xmcap(
      "translate",
      f"--endpoint={server.url}",
      "--model=stub",
      "--prompts=p.json",
      "--to=labels.json",
      "--out=mt.json",
    ).succeeded()
  assert set(read_prompts("mt.json")) == {"en", "de", "yue"}
