"""`xmcap score` and `xmcap compare`: options, inputs, outputs and errors."""

import json

import pytest

from tests.make import files
from tests.make.command import Result, xmcap

_TEXTS = {
  "en": ["a red ball", "two green cars", "a dog on the beach", "the sea at night"],
  "de": ["ein roter Ball", "zwei grüne Autos", "ein Hund am Strand", "das Meer bei Nacht"],
}
_KEYS = ["a1", "b2", "c3", "d4"]
_REPORT = ["--out=compared", "--references=references.jsonl", "--resamples=20"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  _write_references("references.jsonl", _TEXTS)
  _write_predictions("good.jsonl", _TEXTS)
  _write_predictions("bad.jsonl", {"en": ["a ball", *_TEXTS["en"][:3]], "de": ["", *_TEXTS["de"][1:]]})
  return tmp_path


def _write_references(path, texts):
  images = {
    key: {code: [of_language[place]] for code, of_language in texts.items()}
    for place, key in enumerate(_KEYS)
  }
  files.release(path, images, locale="de")


def _write_predictions(path, texts):
  """Writes captions by language; of a language with fewer, the last images have none."""
  images = {key: {} for key in _KEYS}
  for code, of_language in texts.items():
    for key, text in zip(_KEYS, of_language, strict=False):
      images[key][code] = text
  files.captions(path, images)


def _score(name, *options) -> Result:
  named = [f"--predictions={name}.jsonl", f"--out={name}"]
  return xmcap("score", "--references=references.jsonl", *named, *options)


def _scored(*names):
  for name in names:
    _score(name).succeeded()


def test_score_prints_table_health_and_signature(folder):
  printed = _score("bad", "--bootstrap=20", "--only_tables").succeeded(
    "CIDEr-D", "German", "signature: cider+cider_d#", "[", "gth ratio"
  )
  # Only files that were written are named.
  assert "health.csv" not in printed.out and not (folder / "bad/health.csv").exists()
  _score("bad").succeeded("health.csv")
  assert (folder / "bad/health.csv").exists()


def test_score_short_options(folder):
  options = "-r references.jsonl -p good.jsonl -o short -m exact -t char"
  xmcap("score", *options.split(), "--only_tables").succeeded("tok:char#")
  _score("good", "--metrics=cider_d").succeeded()
  options = "-m cider_d -o both -r references.jsonl -l en"
  xmcap("compare", "good", "again=good", *options.split()).succeeded()


@pytest.mark.parametrize(
  ("name", "text"),
  [
    ("order.txt", "a red ball\n\na dog on the beach\nthe sea at night\n"),
    ("order.csv", 'caption\na red ball\n""\na dog on the beach\nthe sea at night\n'),
    ("key.csv", 'key,caption\nd4,the sea at night\na1,a red ball\nc3,"a dog on the beach"\nb2,\n'),
    ("key.tsv", "image/key\tcaption\na1\ta red ball\nb2\t\nc3\ta dog on the beach\nd4\tthe sea at night\n"),
  ],
)
def test_score_of_text_and_csv_equals_jsonl(folder, name, text):
  files.text(name, text)
  _write_predictions("gap.jsonl", {"en": ["a red ball", "", *_TEXTS["en"][2:]]})
  options = ["-r", "references.jsonl", "-l", "en", "--no_health"]
  xmcap("score", "-p", name, "-o", "ours", *options).succeeded()
  xmcap("score", "-p", "gap.jsonl", "-o", "theirs", *options).succeeded()
  assert (folder / "ours/table.json").read_bytes() == (folder / "theirs/table.json").read_bytes()


def test_score_of_coco_files_with_language_option(folder):
  files.coco("annotations.json", {place: [text] for place, text in enumerate(_TEXTS["en"])})
  files.coco_results("results.json", dict(enumerate(_TEXTS["en"])))
  arguments = ["--references=annotations.json", "--predictions=results.json", "--out=coco", "--only_tables"]
  xmcap("score", *arguments, "--language=en").succeeded()
  assert json.loads((folder / "coco/table.json").read_text())["languages"]["en"]["cider"] == 8.75
  xmcap("score", *arguments).refused("--language=CODE")


@pytest.mark.parametrize(
  "option, message",
  [
    ("--metrics=cidr", "did you mean 'cider'"),
    ("--tokenizer=defalt", "did you mean 'default'"),
    ("--tokenizer=given", "caption/tokenized"),
    ("--missing=drop", "xmcap: error: --missing=drop: choose refuse or empty"),
    ("--subset=xm600:1", "draws 600 images"),
    ("--subset=xm600", "give xm600:SEED"),
    ("--subset=xm600:x", "SEED must be a whole number, as in xm600:7"),
    ("--processes=-1", "--processes=-1: give a number from 0"),
    ("--pictures=link", "give the folder of the pictures"),
    ("--bootstrap=-1", "--bootstrap=-1: give a number from 0"),
    ("--df=absent.gz", "cannot be read"),
    ("--baseline=absent", "cannot be read"),
    ("--languages=fr", "no references in fr"),
    ("--pictures=some", "--pictures"),
    ("--bootstrap=100001", "--bootstrap: must be a whole number from 0 to 100,000"),
    (f"--seed={2**63}", "--seed: must be a whole number from 0 to 9,223,372,036,854,775,807"),
    ("--processes=100000", "--processes: must be a whole number from 0 to 256"),
    (f"--processes={'9' * 5000}", "--processes"),
    ("--title=\udcff", r"argument '--title=\udcff' is not UTF-8"),
    ("--df=\udcff", "is not UTF-8"),
    ("--tokenizer=\udcff", "is not UTF-8"),
    (f"--subset={'x' * 300}", "no such file of image keys"),
    (f"--df={'x' * 300}", "File name too long"),
    (f"--baseline={'x' * 300}", "File name too long"),
    ("--caption_columns=caption,nothing", "good.jsonl and references.jsonl: no column 'nothing'"),
    ("--columns=bleu_4", "'bleu_4' is no column of the table; there are code, language, images, references,"),
  ],
)
def test_score_invalid_options_are_one_line(folder, option, message):
  _score("good", option).refused(message)
  assert not (folder / "good").exists()


@pytest.mark.parametrize("length", [256, 5000])
def test_score_too_long_file_names_are_one_line(folder, length):
  outputs = [f"--out={'x' * length}", f"--save_df={'y' * length}"]
  arguments = ["--references=references.jsonl", "--predictions=good.jsonl", "--only_tables", *outputs]
  xmcap("score", *arguments).refused("File name too long", code=1)


def test_score_refuses_a_too_long_caption(folder):
  _write_predictions("long.jsonl", {"en": ["a" * 10_001, *_TEXTS["en"][1:]], "de": _TEXTS["de"]})
  _score("long").refused("long.jsonl: 1 caption of more than 10,000 characters (en a1, line 1: 10,001)")


def test_compare_names_folders_of_one_name_by_what_differs(folder):
  _scored("bad", "good")
  for run in ("bad", "good"):
    (folder / "runs" / run / "eval").mkdir(parents=True)
    (folder / run).rename(folder / "runs" / run / "eval/retrieval")
  folders = [f"runs/{run}/eval/retrieval" for run in ("bad", "good")]
  xmcap("compare", *folders, "--resamples=20").succeeded("good against bad")
  xmcap("compare", f"good={folders[0]}", folders[1], folders[0], "--resamples=20").refused(
    f"'good' is named twice: give one of them another name, as OTHER={folders[1]}"
  )
  xmcap("compare", folders[0], folders[0]).refused("'retrieval' is named twice")
  (folder / "runs").rename("lr=1e-3")
  xmcap("compare", *(name.replace("runs", "lr=1e-3") for name in folders), "--resamples=20").succeeded()


def test_compare_prints_the_better_system(folder):
  _scored("bad", "good")
  compared = xmcap("compare", "bad", "ours=good", "--metrics=cider,cider_d", *_REPORT)
  compared.succeeded("CIDEr: ours against bad", "few: fewer than 1.5 references per image")
  assert {path.name for path in (folder / "compared").iterdir()} == {
    "comparison.csv", "comparison.json", "comparison.md", "comparison.tex", "report.html",
  }  # fmt: skip
  differences = json.loads((folder / "compared/comparison.json").read_text())["differences"]
  assert [row["name"] for row in differences] == ["de", "en", "2 languages"] * 2
  assert all(row["difference"] > 0 for row in differences)


def test_score_latex_tables_with_columns_scale_and_title(folder):
  style = ["--scale=100", "--title=A & B"]
  _scored("bad")
  _score("good", "--columns=language,cider_d", *style).succeeded()
  scored = (folder / "good/table.tex").read_text()
  assert r"language & CIDEr-D \\" in scored and r"\caption{A \& B}" in scored
  xmcap("compare", "bad", "good", *_REPORT, "--columns=language,baseline,score", *style).succeeded()
  compared = (folder / "compared/comparison.tex").read_text()
  assert r"language & bad & good \\" in compared and r"\caption{A \& B}" in compared
  assert "<h1>A &amp; B</h1>" in (folder / "compared/report.html").read_text()


@pytest.mark.parametrize(
  "arguments, message",
  [
    (["good"], "needs two or more systems"),
    (["good", "good"], "'good' is named twice: give one of them another name"),
    (["good", "absent"], "cannot be read"),
    (["good", "b=good", "--resamples=0"], "must be 1 or more"),
    (["good", "b=good", "--resamples=100001"], "--resamples: must be a whole number from 0 to 100,000"),
    (["good", "\udcff=good"], "is not UTF-8"),
    (["good", "b" * 300], "File name too long"),
    (["good", "b=good", "--references=references.jsonl"], "with --out=DIR"),
    (["good", "b=good", "--metrics=chrf"], "was not scored with chrf"),
    (["good", "b=good", "--seed=-1"], "--seed=-1: give a number from 0"),
    (["good", "b=good", "--columns=cider"], "'cider' is no column of the table; there are code, language,"),
    (["good", "b=good", "--images=."], "--images is for the report"),
    (["good", "b=good", "--images=x", *_REPORT], "x: no such folder of images"),
    (["good", "b=good", *_REPORT[:1], "--references=other.jsonl"], "no de reference of a1"),
    (["good", "char"], "tokenizer: default-"),
  ],
)
def test_compare_errors_are_one_line(folder, arguments, message):
  _scored("good")
  if "char" in arguments:
    xmcap("score", "-r=references.jsonl", "-p=bad.jsonl", "-o=char", "--tokenizer=char").succeeded()
  _write_references("other.jsonl", {"en": _TEXTS["en"]})
  xmcap("compare", *arguments).refused(message)


def test_score_counts_images_not_found(folder):
  (folder / "images").mkdir()
  said = "xmcap: {} of 4 pictures found in images: give the folder with KEY.jpg or KEY.png\n"
  assert _score("good", "--images=images").succeeded().err == said.format(0)
  for option in ("--only_tables", "--pictures=none"):
    assert _score("good", "--images=images", option).succeeded().err == ""
  files.text(folder / "images/a1.png")
  assert _score("bad", "--images=images").succeeded().err == said.format(1)
  assert xmcap("compare", "bad", "good", *_REPORT, "--images=images").succeeded().err == said.format(1)


def test_compare_notes_missing_predictions_in_report(folder):
  _write_predictions("short.jsonl", {**_TEXTS, "de": _TEXTS["de"][:3]})
  _scored("good")
  _score("short", "--missing=empty").succeeded()
  note = "short: 1 missing prediction scored as empty captions: de 1"
  xmcap("compare", "good", "short", *_REPORT).succeeded(f"note: {note}")
  report = (folder / "compared/report.html").read_text().replace("<b>", "").replace("</b>", "")
  assert "<title>short against good</title>" in report and note in report


def test_score_and_compare_write_plots(folder):
  _score("good", "--only_tables", "--metrics=cider", "--plot=good/scores.svg").succeeded()
  assert b"CIDEr" in (folder / "good/scores.svg").read_bytes()
  _score("good", "--bootstrap=20", "--metrics=cider", "--plot=good.pdf").succeeded()
  _score("bad", "--metrics=cider").succeeded()
  xmcap("compare", "good", "bad", "--resamples=20", "--plot=difference.svg").succeeded()
  assert (folder / "good.pdf").read_bytes().startswith(b"%PDF")
  assert b"CIDEr: bad minus good" in (folder / "difference.svg").read_bytes()
