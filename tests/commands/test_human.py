"""xmcap human sxs and xmcap human thumb."""

import json
import os
import pathlib
import random
import subprocess
import sys

import pytest

from xmcap import cli
from xmcap.reading import inputs

_THUMB = pathlib.Path(__file__).parents[3] / "shared" / "thumb"


@pytest.fixture
def folder(tmp_path):
  """Ratings of three systems by three raters in two languages, scores of the systems, THumB ratings and references."""
  rng = random.Random(0)
  with open(tmp_path / "ratings.jsonl", "w", encoding="utf-8") as file:
    for language in ("en", "de"):
      for pair in (("A", "B"), ("A", "C"), ("B", "C")):
        for key, rater in ((f"k{k}", f"r{r}") for k in range(8) for r in range(3)):
          left, right = rng.sample(pair, 2)
          row = {"image/key": key, "language": language, "rater": rater, "left": left, "right": right}
          file.write(json.dumps({**row, "rating": rng.randint(-3, 3)}) + "\n")
  for number, system in enumerate("ABC"):
    (tmp_path / system).mkdir()
    rows = {"en": {"cider": 0.1 * number}, "de": {"cider": {"score": 0.3 * number, "low": 0, "high": 1}}}
    (tmp_path / system / "table.json").write_text(json.dumps({"signature": "tokenizer:x", "languages": rows}))
  with open(tmp_path / "thumb.jsonl", "w", encoding="utf-8") as file:
    for system, key in ((system, str(k)) for system in ("M", "Human") for k in range(6)):
      scores = {"P": rng.randint(1, 5), "R": rng.randint(1, 5), "Fl": -0.0, "Inc": -0.0, "Con": -0.5}
      hypothesis = rng.choice(["a dog", "a big dog runs", "a cat"])
      file.write(json.dumps({"SYS": system, "seg_id": key, "hyp": hypothesis, **scores}) + "\n")
  with open(tmp_path / "references.jsonl", "w", encoding="utf-8") as file:
    for key in range(6):
      file.write(json.dumps({"seg_id": str(key), "refs": ["a dog runs", "a small cat"]}) + "\n")
  (tmp_path / "core.csv").write_text("m1,m2,lang,delta_sxs,delta_x\nA,B,en,1,2\nA,C,en,3,1\nB,C,en,-3,1\n")
  (tmp_path / "ext.csv").write_text("m1,m2,lang,delta_sxs,delta_x\nA,B,de,1,2\nA,C,de,3,5\n")
  return tmp_path


def _run(*arguments):
  return cli.main(["human", *map(str, arguments)])


def _scores(folder):
  return ["--scores", *(f"{name}={folder}/{name}" for name in "ABC")]


def test_human_sxs_reproduces_table_6_of_the_paper(capsys, tmp_path):
  assert _run("sxs", "--comparisons=paper", "--resamples=20", f"--out={tmp_path}/out") == 0
  assert ["Kendall", "ALL", "130", "0.70"] in [
    line.split()[:4] for line in capsys.readouterr().out.splitlines()
  ]
  assert json.loads((tmp_path / "out/correlations.json").read_text())["points"]["ALL"] == 130


def test_human_sxs_of_comparison_files_by_group(folder, capsys):
  assert (
    _run("sxs", "--comparisons", f"CORE={folder}/core.csv", f"EXT={folder}/ext.csv", "--resamples=0") == 0
  )
  rows = [line.split()[:3] for line in capsys.readouterr().out.splitlines() if line.startswith("Pearson")]
  assert rows == [["Pearson", "ALL", "10"], ["Pearson", "CORE", "6"], ["Pearson", "EXT", "4"]]


def test_human_sxs_correlates_ratings_with_scores(folder, capsys):
  assert (
    _run("sxs", f"--ratings={folder}/ratings.jsonl", *_scores(folder), "--baseline=A", f"--out={folder}/out")
    == 0
  )
  shown = capsys.readouterr().out
  assert "delta SxS" in shown and "Pearson" in shown
  assert {path.name for path in (folder / "out").iterdir()} == {
    "sxs.json", "sxs.md", "sxs.tex", "sxs.csv",
    "correlations.json", "correlations.md", "correlations.tex", "correlations.csv",
  }  # fmt: skip
  tallies = json.loads((folder / "out/sxs.json").read_text())["tallies"]
  assert [(t["system"], t["against"], t["language"]) for t in tallies][:3] == [
    ("B", "A", "de"), ("B", "A", "en"), ("B", "C", "de"),
  ]  # fmt: skip


@pytest.mark.parametrize(
  ("action", "file", "apart"), [("sxs", "ratings.jsonl", "rater"), ("thumb", "thumb.jsonl", "SYS")]
)
def test_human_ratings_in_several_files_equal_a_single_file(folder, capsys, action, file, apart):
  parts = {}
  for line in (folder / file).read_text().splitlines(keepends=True):
    parts.setdefault(json.loads(line)[apart], []).append(line)
  for name, lines in parts.items():
    (folder / name.lower()).write_text("".join(lines))
  several = [f"--ratings={folder / name.lower()}" for name in parts]
  assert _run(action, f"--ratings={folder / file}", "--resamples=5") == 0
  whole = capsys.readouterr().out
  assert _run(action, *several, "--resamples=5") == 0
  assert capsys.readouterr().out == whole
  assert _run(action, *several, several[0]) == 2
  assert "before (" in capsys.readouterr().err


def test_human_sxs_refuses_scores_with_another_signature(folder, capsys):
  table = json.loads((folder / "B/table.json").read_text())
  (folder / "B/table.json").write_text(json.dumps({**table, "signature": "tokenizer:y"}))
  assert _run("sxs", f"--ratings={folder}/ratings.jsonl", *_scores(folder)) == 2
  assert "'A' and 'B' cannot be compared, because their signatures differ in tokenizer: x against y" in (
    capsys.readouterr().err
  )


def test_human_thumb_shows_means_counts_and_correlations(folder, capsys):
  named = [f"--ratings={folder}/thumb.jsonl", f"--references={folder}/references.jsonl"]
  assert _run("thumb", *named, "--human=Human", "--metrics=cider_d,rouge_l", "--resamples=20") == 0
  shown = capsys.readouterr().out
  for heading in ("Means over 6 images", "best", "Scores of the systems", "without human", "ROUGE-L"):
    assert heading in shown


def test_human_thumb_without_references_shows_means(folder, capsys):
  assert _run("thumb", f"--ratings={folder}/thumb.jsonl") == 0
  assert "Correlation" not in capsys.readouterr().out


def test_human_thumb_reproduces_the_papers_tables(capsys):
  if not _THUMB.is_dir():
    pytest.skip("the released ratings are not beside this checkout (../shared/thumb)")
  named = [f"--ratings={_THUMB}/mscoco_THumB-1.0.jsonl", f"--references={_THUMB}/mscoco_references.json"]
  assert _run("thumb", *named, "--human=Human", "--drop_identical_references", "--resamples=0") == 0
  rows = [line.split() for line in capsys.readouterr().out.splitlines()]
  assert ["Human", "4.82", "4.35", "-0.019", "-0.002", "-0.001", "4.56"] in rows
  assert ["Human", "327", "17", "73", "0"] in rows
  assert ["CIDEr-D", "without", "human", "2,000", "Pearson", "0.27", "0.18", "0.33"] in rows
  assert ["CIDEr-D", "all", "systems", "2,500", "Pearson", "0.20", "0.12", "0.23"] in rows


@pytest.mark.parametrize(
  "arguments, message",
  [
    (["sxs"], "needs either --ratings=FILE or --comparisons=GROUP=FILE"),
    (["sxs", "--comparisons=paper", "--ratings=x"], "needs either"),
    (["sxs", "--comparisons=paper", "--scores=A=b"], "--scores needs --ratings"),
    (["sxs", "--comparisons=paper", "--baseline=A"], "--baseline needs --ratings"),
    (["sxs", "--comparisons=core.csv"], "write it as --comparisons=NAME=PATH"),
    (["sxs", "--comparisons", "paper", "A=b.csv"], "--comparisons=paper: write it as"),
    (["sxs", "--comparisons", "A=b.csv", "A=c.csv"], "'A' is named twice"),
    (["sxs", "--comparisons=A=/nowhere.csv"], "/nowhere.csv: cannot be read"),
    (["sxs", "--comparisons", "ALL={}/core.csv", "A={}/ext.csv"], "'ALL' stands for all groups"),
    (["sxs", "--comparisons=paper", "--resamples=-1"], "--resamples=-1: give a number from 0"),
    (
      ["sxs", "--ratings=/nowhere", "--resamples=100001"],
      "--resamples=100001: give a number from 0 to 100,000",
    ),
    (["quality", "--ratings=x", "--resamples=100001"], "--resamples=100001: give a number from 0 to 100,000"),
    (["sxs", "--comparisons=paper", "--seed=-1"], "--seed=-1"),
    (["sxs", "--ratings=x", "--raters=0"], "--raters=0: give a number from 1"),
    (["sxs", "--ratings=/nowhere"], "/nowhere: cannot be read"),
    (["sxs", "--ratings={}/ratings.jsonl", "--baseline=Z"], "--baseline=Z"),
    (["sxs", "--ratings={}/ratings.jsonl", "--scores=A={}/A"], "system 'B' has ratings but no scores"),
    (["sxs", "--ratings={}/ratings.jsonl", "--scores=A={}/A", "--metric=chrf"], "was not scored with 'chrf'"),
    (["sxs", "--ratings={}/core.csv"], "0 columns are named 'image/key'"),
    (["thumb"], "--ratings"),
    (["thumb", "--ratings=/nowhere"], "/nowhere: cannot be read"),
    (["thumb", "--ratings={}/thumb.jsonl", "--language=xx"], "unknown language 'xx'"),
    (["thumb", "--ratings={}/thumb.jsonl", "--drop_identical_references"], "need --references=FILE"),
    (["thumb", "--ratings={}/thumb.jsonl", "--human=Human"], "--human is for correlations with metrics"),
    (
      ["thumb", "--ratings={}/thumb.jsonl", "--references={}/references.jsonl", "--metrics=bertscore"],
      "'bertscore'",
    ),
    (["thumb", "--ratings={}/ratings.jsonl"], "line 1: no 'SYS'"),
    (["rubric"], "--ratings"),
    (["rubric", "--ratings={}/ratings.jsonl"], "line 1: no 'system'"),
    (["thumb", "--ratings={}/thumb.jsonl", "--reference=x"], "did you mean --references"),
    (["sxz"], "sxz"),
  ],
)
def test_human_sxs_and_thumb_usage_errors_are_one_line(folder, arguments, message, capsys):
  assert _run(*(argument.replace("{}", str(folder)) for argument in arguments)) == 2
  captured = capsys.readouterr()
  assert captured.err.startswith("xmcap: error: ") and captured.err.count("\n") == 1
  assert message in captured.err and not captured.out


def test_human_ratings_csv_over_the_size_limit_is_refused(tmp_path, monkeypatch, capsys):
  monkeypatch.setattr(inputs, "MAX_DOCUMENT", 1 << 20)
  path, row = tmp_path / "ratings.csv", "k,en,r,A,B,1\n"
  path.write_text("image/key,language,rater,left,right,rating\n" + row + "\n" * (1 << 20))
  assert _run("sxs", f"--ratings={path}") == 2
  assert capsys.readouterr().err == f"xmcap: error: {path}: over 1 MiB in one piece; give JSONL instead\n"


def test_human_rate_reads_coco_files(tmp_path, capsys):
  images = [{"id": 7, "file_name": "COCO_val2014_000000000007.jpg"}]
  annotations = [{"image_id": 7, "id": 1, "caption": "a hound on sand"}]
  (tmp_path / "r.json").write_text(json.dumps({"images": images, "annotations": annotations}))
  for name in "ab":
    (tmp_path / f"{name}.json").write_text(json.dumps([{"image_id": 7, "caption": f"{name} dog"}]))
  arguments = [f"--predictions={name}={tmp_path}/{name}.json" for name in "ab"]
  arguments += ["--protocol=sxs", f"--references={tmp_path}/r.json", f"--out={tmp_path}/page.html"]
  assert _run("rate", *arguments) == 2
  assert (
    "'language' is missing; give it there, or for all captions with --language=CODE"
    in capsys.readouterr().err
  )
  assert _run("rate", *arguments, "--language=en") == 0
  assert "page.html: 1 comparison, 2 systems, 1 picture, 1 language" in capsys.readouterr().out
  page = (tmp_path / "page.html").read_text()
  assert "a hound on sand" in page and "b dog" in page


@pytest.mark.parametrize(
  "name", ["ratings.jsonl", "core.csv", "A/table.json", "thumb.jsonl", "references.jsonl"]
)
def test_human_mutated_input_files_give_a_result_or_an_error_line(folder, name, capsys):
  rng = random.Random(name)
  content = (folder / name).read_bytes()
  commands = {
    "ratings.jsonl": ["sxs", f"--ratings={folder}/ratings.jsonl", "--resamples=2"],
    "core.csv": ["sxs", f"--comparisons=CORE={folder}/core.csv", "--resamples=2"],
    "A/table.json": ["sxs", f"--ratings={folder}/ratings.jsonl", *_scores(folder), "--resamples=2"],
    "thumb.jsonl": ["thumb", f"--ratings={folder}/thumb.jsonl", "--resamples=2"],
    "references.jsonl": [
      "thumb", f"--ratings={folder}/thumb.jsonl", f"--references={folder}/references.jsonl", "--resamples=2",
    ],
  }  # fmt: skip
  failed = 0
  for _ in range(60):
    (folder / name).write_bytes(_mutated(content, rng))
    code = _run(*commands[name])
    error = capsys.readouterr().err
    assert (code, error.count("\n")) in ((0, 0), (2, 1)), error
    failed += code == 2
  assert failed > 10


def _mutated(content, rng):
  lines = content.split(b"\n")
  number = rng.randrange(len(lines))
  line = lines[number]
  at = rng.randrange(len(line) + 1)
  new = rng.choice(
    [b"\xff", b"NaN", b'"', b"{", b",", b"-1e999", b"\0", b"\xf0\x9f\x98\x80", b"[" * 5000, b"9" * 6000]
  )
  changed = rng.choice([
    [line[:at]], [line[:at] + new + line[at:]], [line, line], [], [line[:at] + new + line[at + len(new):]], [new],
  ])  # fmt: skip
  return b"\n".join([*lines[:number], *changed, *lines[number + 1 :]])


def test_human_output_is_independent_of_the_hash_seed(folder):
  code = """
import sys
from xmcap import cli
folder, out = sys.argv[1:]
scores = ["--scores", *(f"{name}={folder}/{name}" for name in "ABC")]
thumb = [f"--ratings={folder}/thumb.jsonl", f"--references={folder}/references.jsonl", "--human=Human"]
options = ["--resamples=50", f"--out={out}"]
cli.main(["human", "sxs", f"--ratings={folder}/ratings.jsonl", *scores, *options])
cli.main(["human", "thumb", *thumb, *options])
"""
  written = []
  for seed in ("1", "2"):
    out = folder / f"out{seed}"
    done = subprocess.run(
      [sys.executable, "-c", code, folder, out],
      check=True, capture_output=True, env={**os.environ, "PYTHONHASHSEED": seed},
    )  # fmt: skip
    files = {path.name: path.read_bytes() for path in sorted(out.iterdir())}
    written.append((done.stdout.replace(str(out).encode(), b"OUT"), files))
  assert written[0] == written[1]


@pytest.mark.parametrize("action", ["sxs", "thumb", "rubric"])
def test_human_help_imports_no_heavy_package(action):
  code = f"""
import sys
from xmcap import cli
try:
  cli.main(["human", "{action}", "--help"])
except SystemExit as ended:
  assert not ended.code
print(*sorted({{name.split(".")[0] for name in sys.modules}}), file=sys.stderr)
"""
  done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
  assert "usage: xmcap human" in done.stdout
  assert not {"jax", "tensorflow", "numpy", "scipy"} & set(done.stderr.split())
