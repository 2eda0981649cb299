"""`xmcap score` and `xmcap compare`: options, inputs, outputs and errors."""

import json
import zipfile

import pytest

from xmcap import cli

_TEXTS = {
  "en": ["a red ball", "two green cars", "a dog on the beach", "the sea at night"],
  "de": ["ein roter Ball", "zwei grüne Autos", "ein Hund am Strand", "das Meer bei Nacht"],
}
_KEYS = ["a1", "b2", "c3", "d4"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  _write_references("references.jsonl", _TEXTS)
  _write_predictions("good.jsonl", _TEXTS)
  _write_predictions("bad.jsonl", {"en": ["a ball", *_TEXTS["en"][:3]], "de": ["", *_TEXTS["de"][1:]]})
  return tmp_path


def _write_references(path, texts):
  with open(path, "w", encoding="utf-8") as file:
    for place, key in enumerate(_KEYS):
      captions = {code: {"caption": [of_language[place]]} for code, of_language in texts.items()}
      file.write(json.dumps({"image/key": key, "image/locale": "de", **captions}) + "\n")


def _write_predictions(path, texts, strict=True):
  with open(path, "w", encoding="utf-8") as file:
    for code, of_language in texts.items():
      for key, text in zip(_KEYS, of_language, strict=strict):
        file.write(json.dumps({"image/key": key, "language": code, "caption": text}) + "\n")


def _score(name, *options):
  return cli.main(
    ["score", "--references=references.jsonl", f"--predictions={name}.jsonl", f"--out={name}", *options]
  )


def _fails(capsys, message):
  error = capsys.readouterr().err
  assert error.startswith("xmcap: error: ") and error.count("\n") == 1 and message in error, error


def test_score_prints_table_health_and_signature(folder, capsys):
  assert _score("bad", "--bootstrap=20", "--only_tables") == 0
  printed = capsys.readouterr().out
  assert "CIDEr-D" in printed and "German" in printed and "signature: cider+cider_d#" in printed
  # Only files that were written are named.
  assert "[" in printed and "gth ratio" in printed and "health.csv" not in printed
  assert not (folder / "bad" / "health.csv").exists()
  assert _score("bad") == 0
  assert "health.csv" in capsys.readouterr().out and (folder / "bad" / "health.csv").exists()


def test_score_short_options(folder, capsys):
  options = "-r references.jsonl -p good.jsonl -o short -m exact -t char"
  assert cli.main(["score", *options.split(), "--only_tables"]) == 0
  assert "tok:char#" in capsys.readouterr().out
  assert _score("good", "--metrics=cider_d") == 0
  options = "-m cider_d -o both -r references.jsonl -l en"
  assert cli.main(["compare", "good", "again=good", *options.split()]) == 0


@pytest.mark.parametrize(
  ("name", "text"),
  [
    ("order.txt", "a red ball\n\na dog on the beach\nthe sea at night\n"),
    ("order.csv", 'caption\na red ball\n""\na dog on the beach\nthe sea at night\n'),
    ("key.csv", 'key,caption\nd4,the sea at night\na1,a red ball\nc3,"a dog on the beach"\nb2,\n'),
    ("key.tsv", "image/key\tcaption\na1\ta red ball\nb2\t\nc3\ta dog on the beach\nd4\tthe sea at night\n"),
  ],
)
def test_score_of_text_and_csv_equals_jsonl(folder, capsys, name, text):
  (folder / name).write_text(text, encoding="utf-8")
  _write_predictions("gap.jsonl", {"en": ["a red ball", "", *_TEXTS["en"][2:]]})
  given = ["-r", "references.jsonl", "-l", "en", "--no_health"]
  assert cli.main(["score", "-p", name, "-o", "ours", *given]) == 0
  assert cli.main(["score", "-p", "gap.jsonl", "-o", "theirs", *given]) == 0
  assert (folder / "ours/table.json").read_bytes() == (folder / "theirs/table.json").read_bytes()


def test_score_references_in_a_zip(folder, capsys):
  with zipfile.ZipFile("captions.zip", "w") as archive:
    archive.write("references.jsonl", "captions.jsonl")
  arguments = ["--references=captions.zip", "--predictions=good.jsonl", "--out=zipped", "--only_tables"]
  assert cli.main(["score", *arguments]) == 0
  assert _score("good", "--only_tables") == 0
  assert (folder / "zipped/table.json").read_bytes() == (folder / "good/table.json").read_bytes()


def test_score_of_coco_files_with_language_option(folder, capsys):
  annotations = {
    "images": [{"id": place} for place in range(4)],
    "annotations": [{"image_id": place, "caption": text} for place, text in enumerate(_TEXTS["en"])],
  }
  results = [{"image_id": place, "caption": text} for place, text in enumerate(_TEXTS["en"])]
  (folder / "annotations.json").write_text(json.dumps(annotations))
  (folder / "results.json").write_text(json.dumps(results))
  arguments = [
    "score",
    "--references=annotations.json",
    "--predictions=results.json",
    "--out=coco",
    "--only_tables",
  ]
  assert cli.main([*arguments, "--language=en"]) == 0
  assert json.loads((folder / "coco/table.json").read_text())["languages"]["en"]["cider"] == 8.75
  capsys.readouterr()
  assert cli.main(arguments) == 2
  _fails(capsys, "--language=CODE")


@pytest.mark.parametrize(
  "option, message",
  [
    ("--metrics=cidr", "did you mean 'cider'"),
    ("--tokenizer=defalt", "did you mean 'default'"),
    ("--tokenizer=given", "caption/tokenized"),
    ("--missing=drop", "choose refuse or empty"),
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
  ],
)
def test_score_invalid_options_are_one_line(folder, capsys, option, message):
  assert _score("good", option) == 2
  _fails(capsys, message)


@pytest.mark.parametrize("length", [256, 5000])
def test_score_too_long_file_names_are_one_line(folder, capsys, length):
  arguments = ["--references=references.jsonl", "--predictions=good.jsonl", "--only_tables"]
  code = cli.main(["score", *arguments, f"--out={'x' * length}", f"--save_df={'y' * length}"])
  assert code == 1
  _fails(capsys, "File name too long")


def test_score_refuses_a_too_long_caption(folder, capsys):
  _write_predictions("long.jsonl", {"en": ["a" * 10_001, *_TEXTS["en"][1:]], "de": _TEXTS["de"]})
  assert _score("long") == 2
  _fails(capsys, "long.jsonl: 1 caption of more than 10,000 characters (en a1, line 1: 10,001)")


def test_compare_prints_the_better_system(folder, capsys):
  assert _score("bad") == 0 and _score("good") == 0
  capsys.readouterr()
  arguments = ["compare", "bad", "ours=good", "--metrics=cider,cider_d", "--resamples=50", "--out=compared"]
  assert cli.main([*arguments, "--references=references.jsonl"]) == 0
  printed = capsys.readouterr().out
  assert "CIDEr: ours against bad" in printed and "few: fewer than 1.5 references per image" in printed
  assert {path.name for path in (folder / "compared").iterdir()} == {
    "comparison.csv", "comparison.json", "comparison.md", "comparison.tex", "report.html",
  }  # fmt: skip
  differences = json.loads((folder / "compared/comparison.json").read_text())["differences"]
  assert [row["name"] for row in differences] == ["de", "en", "2 languages"] * 2
  assert all(row["difference"] > 0 for row in differences)


def test_score_latex_tables_with_columns_scale_and_title(folder):
  style = ["--columns=language,{}", "--scale=100", "--title=A & B"]
  assert _score("bad") == 0
  assert _score("good", style[0].format("cider_d"), *style[1:]) == 0
  scored = (folder / "good/table.tex").read_text()
  assert r"language & CIDEr-D \\" in scored and r"\caption{A \& B}" in scored
  arguments = ["compare", "bad", "good", "--resamples=50", "--out=compared", "--references=references.jsonl"]
  assert cli.main([*arguments, style[0].format("baseline,score"), *style[1:]]) == 0
  compared = (folder / "compared/comparison.tex").read_text()
  assert r"language & bad & good \\" in compared and r"\caption{A \& B}" in compared
  assert "<h1>A &amp; B</h1>" in (folder / "compared/report.html").read_text()


def test_score_refuses_unknown_columns_before_scoring(folder, capsys):
  assert _score("good", "--columns=bleu_4") == 2
  _fails(
    capsys,
    "--columns: 'bleu_4' is no column of the table; there are code, language, images, references, cider",
  )
  assert not (folder / "good").exists()


def test_compare_refuses_another_tokenizer(folder, capsys):
  assert _score("bad") == 0 and _score("good", "--tokenizer=char") == 0
  capsys.readouterr()
  assert cli.main(["compare", "bad", "good"]) == 2
  _fails(capsys, "tokenizer: default-")


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
    (
      ["good", "b=good", "--columns=cider"],
      "'cider' is no column of the table; there are code, language, baseline",
    ),
    (["good", "b=good", "--images=."], "--images is for the report"),
    (
      ["good", "b=good", "--images=x", "--references=references.jsonl", "--out=c"],
      "x: no such folder of images",
    ),
  ],
)
def test_compare_errors_are_one_line(folder, capsys, arguments, message):
  assert _score("good") == 0
  capsys.readouterr()
  assert cli.main(["compare", *arguments]) == 2
  _fails(capsys, message)


def test_score_option_errors_do_not_name_files(folder, capsys):
  assert _score("good", "--missing=drop") == 2
  assert capsys.readouterr().err == "xmcap: error: --missing=drop: choose refuse or empty\n"


def test_score_counts_images_not_found(folder, capsys):
  (folder / "images").mkdir()
  said = "xmcap: 0 of 4 pictures found in images: give the folder with KEY.jpg or KEY.png\n"
  assert _score("good", "--images=images") == 0
  assert capsys.readouterr().err == said
  (folder / "images" / "a1.png").write_bytes(b"")
  assert _score("bad", "--images=images") == 0
  assert capsys.readouterr().err == said.replace("0 of 4", "1 of 4")
  arguments = ["compare", "bad", "good", "--references=references.jsonl", "--out=compared", "--images=images"]
  assert cli.main([*arguments, "--resamples=20"]) == 0
  assert capsys.readouterr().err == said.replace("0 of 4", "1 of 4")


def test_score_only_tables_does_not_look_for_images(folder, capsys):
  (folder / "images").mkdir()
  assert _score("good", "--images=images", "--only_tables") == 0
  assert _score("good", "--images=images", "--pictures=none") == 0
  assert capsys.readouterr().err == ""


def test_compare_notes_missing_predictions_in_report(folder, capsys):
  _write_predictions("short.jsonl", {**_TEXTS, "de": _TEXTS["de"][:3]}, strict=False)
  assert _score("good") == 0 and _score("short", "--missing=empty") == 0
  capsys.readouterr()
  arguments = [
    "compare",
    "good",
    "short",
    "--out=compared",
    "--references=references.jsonl",
    "--resamples=20",
  ]
  assert cli.main(arguments) == 0
  note = "short: 1 missing prediction scored as empty captions: de 1"
  assert f"note: {note}" in capsys.readouterr().out
  report = (folder / "compared/report.html").read_text()
  assert "<title>short against good</title>" in report and note in report.replace("<b>", "").replace(
    "</b>", ""
  )


def test_score_report_shows_missing_captions_as_empty(folder, capsys):
  (folder / "short").mkdir()
  _write_predictions("short/predictions.jsonl", {**_TEXTS, "de": _TEXTS["de"][:3]}, strict=False)
  options = ["--references=references.jsonl", "--predictions=short/predictions.jsonl", "--out=short"]
  assert cli.main(["score", *options, "--missing=empty"]) == 0 and _score("good") == 0
  arguments = [
    "compare",
    "good",
    "short",
    "--out=compared",
    "--references=references.jsonl",
    "--resamples=20",
  ]
  assert cli.main(arguments) == 0


def test_compare_refuses_mismatched_references(folder, capsys):
  assert _score("bad") == 0 and _score("good") == 0
  _write_references("other.jsonl", {"en": _TEXTS["en"]})
  capsys.readouterr()
  assert cli.main(["compare", "bad", "good", "--references=other.jsonl", "--out=compared"]) == 2
  _fails(capsys, "no de reference of a1")


def test_score_and_compare_write_plots(folder):
  for name in ("good", "bad"):
    assert _score(name, "--only_tables", "--metrics=cider", f"--plot={name}/scores.svg") == 0
    assert _score(name, "--bootstrap=20", "--metrics=cider", f"--plot={name}.pdf") == 0
  assert cli.main(["compare", "good", "bad", "--resamples=20", "--plot=difference.svg"]) == 0
  assert (folder / "good.pdf").read_bytes().startswith(b"%PDF")
  assert b"CIDEr: bad minus good" in (folder / "difference.svg").read_bytes()
