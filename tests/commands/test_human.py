"""`xmcap human sxs`, `human thumb` and their inputs."""

import json
import os
import random

import pytest

from tests.fuzz import mutations
from tests.make import files
from tests.make.command import Result, xmcap, xmcap_without
from xmcap.reading import inputs


@pytest.fixture
def folder(tmp_path):
  """Ratings of three systems by three raters in two languages, scores of the systems, THumB ratings and references."""
  rng, ratings = random.Random(0), []
  for language in ("en", "de"):
    for pair in (("A", "B"), ("A", "C"), ("B", "C")):
      for key, rater in ((f"k{k}", f"r{r}") for k in range(8) for r in range(3)):
        left, right = rng.sample(pair, 2)
        row = {"image/key": key, "language": language, "rater": rater, "left": left, "right": right}
        ratings.append({**row, "rating": rng.randint(-3, 3)})
  files.jsonl(tmp_path / "ratings.jsonl", *ratings)
  for number, system in enumerate("ABC"):
    rows = {"en": {"cider": 0.1 * number}, "de": {"cider": {"score": 0.3 * number, "low": 0, "high": 1}}}
    files.json(tmp_path / system / "table.json", {"signature": "tokenizer:x", "languages": rows})
  thumb = []
  for system, key in ((system, str(k)) for system in ("M", "Human") for k in range(6)):
    scores = {"P": rng.randint(1, 5), "R": rng.randint(1, 5), "Fl": -0.0, "Inc": -0.0, "Con": -0.5}
    hypothesis = rng.choice(["a dog", "a big dog runs", "a cat"])
    thumb.append({"SYS": system, "seg_id": key, "hyp": hypothesis, **scores})
  files.jsonl(tmp_path / "thumb.jsonl", *thumb)
  references = ({"seg_id": str(key), "refs": ["a dog runs", "a small cat"]} for key in range(6))
  files.jsonl(tmp_path / "references.jsonl", *references)
  head = "m1,m2,lang,delta_sxs,delta_x"
  files.lines(tmp_path / "core.csv", head, "A,B,en,1,2", "A,C,en,3,1", "B,C,en,-3,1")
  files.lines(tmp_path / "ext.csv", head, "A,B,de,1,2", "A,C,de,3,5")
  return tmp_path


def _human(*arguments) -> Result:
  return xmcap("human", *arguments)


def _scores(folder):
  return ["--scores", *(f"{name}={folder}/{name}" for name in "ABC")]


def test_human_sxs_reproduces_table_6_of_the_paper():
  shown = _human("sxs", "--comparisons=paper", "--resamples=0").succeeded().out
  assert ["Kendall", "ALL", "130", "0.70"] in [line.split()[:4] for line in shown.splitlines()]


def test_human_sxs_of_comparison_files_by_group(folder):
  files_of_groups = [f"CORE={folder}/core.csv", f"EXT={folder}/ext.csv"]
  shown = _human("sxs", "--comparisons", *files_of_groups, "--resamples=0").succeeded().out
  rows = [line.split()[:3] for line in shown.splitlines() if line.startswith("Pearson")]
  assert rows == [["Pearson", "ALL", "10"], ["Pearson", "CORE", "6"], ["Pearson", "EXT", "4"]]


def test_human_sxs_correlates_ratings_with_scores(folder):
  options = [f"--ratings={folder}/ratings.jsonl", *_scores(folder), "--baseline=A", f"--out={folder}/out"]
  _human("sxs", *options).succeeded("delta SxS", "Pearson")
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
def test_human_ratings_in_several_files_equal_a_single_file(folder, action, file, apart):
  parts = {}
  for line in (folder / file).read_text().splitlines(keepends=True):
    parts.setdefault(json.loads(line)[apart], []).append(line)
  several = [
    f"--ratings={files.text(folder / f'part-{name}', ''.join(part))}" for name, part in parts.items()
  ]
  whole = _human(action, f"--ratings={folder / file}", "--resamples=5").succeeded()
  assert _human(action, *several, "--resamples=5").succeeded().out == whole.out
  _human(action, *several, several[0]).refused("before (")


def test_human_sxs_refuses_scores_with_another_signature(folder):
  table = json.loads((folder / "B/table.json").read_text())
  files.json(folder / "B/table.json", {**table, "signature": "tokenizer:y"})
  _human("sxs", f"--ratings={folder}/ratings.jsonl", *_scores(folder)).refused(
    "'A' and 'B' cannot be compared, because their signatures differ in tokenizer: x against y"
  )


def test_human_thumb_shows_means_counts_and_correlations(folder):
  named = [f"--ratings={folder}/thumb.jsonl", f"--references={folder}/references.jsonl"]
  _human("thumb", *named, "--human=Human", "--metrics=cider_d,rouge_l", "--resamples=20").succeeded(
    "Means over 6 images", "best", "Scores of the systems", "without human", "ROUGE-L"
  )
  assert "Correlation" not in _human("thumb", named[0]).succeeded().out


@pytest.mark.parametrize(
  "arguments, message",
  [
    ("sxs", "needs either --ratings=FILE or --comparisons=GROUP=FILE"),
    ("sxs --comparisons=paper --ratings=x", "needs either"),
    ("sxs --comparisons=paper --scores=A=b", "--scores needs --ratings"),
    ("sxs --comparisons=paper --baseline=A", "--baseline needs --ratings"),
    ("sxs --comparisons=core.csv", "write it as --comparisons=NAME=PATH"),
    ("sxs --comparisons paper A=b.csv", "--comparisons=paper: write it as"),
    ("sxs --comparisons A=b.csv A=c.csv", "'A' is named twice"),
    ("sxs --comparisons=A=/nowhere.csv", "/nowhere.csv: cannot be read"),
    ("sxs --comparisons ALL={}/core.csv A={}/ext.csv", "'ALL' stands for all groups"),
    ("sxs --comparisons=paper --resamples=-1", "--resamples=-1: give a number from 0"),
    ("sxs --ratings=/nowhere --resamples=100001", "--resamples=100001: give a number from 0 to 100,000"),
    ("quality --ratings=x --resamples=100001", "--resamples=100001: give a number from 0 to 100,000"),
    ("sxs --comparisons=paper --seed=-1", "--seed=-1"),
    ("sxs --ratings=x --raters=0", "--raters=0: give a number from 1"),
    ("sxs --ratings=/nowhere", "/nowhere: cannot be read"),
    ("sxs --ratings={}/ratings.jsonl --baseline=Z", "--baseline=Z"),
    ("sxs --ratings={}/ratings.jsonl --scores=A={}/A", "system 'B' has ratings but no scores"),
    ("sxs --ratings={}/ratings.jsonl --scores=A={}/A --metric=chrf", "was not scored with 'chrf'"),
    ("sxs --ratings={}/core.csv", "these are comparisons of systems: xmcap human sxs --comparisons=GROUP="),
    ("thumb", "--ratings"),
    ("thumb --ratings=/nowhere", "/nowhere: cannot be read"),
    ("thumb --ratings={}/thumb.jsonl --language=xx", "unknown language 'xx'"),
    ("thumb --ratings={}/thumb.jsonl --normalize=sentence", "need --references=FILE"),
    ("thumb --ratings={}/thumb.jsonl --human=Human", "--human is for correlations with metrics"),
    (
      "thumb --ratings={}/thumb.jsonl --references={}/references.jsonl --metrics=bertscore",
      "'bertscore'",
    ),
    ("thumb --ratings={}/ratings.jsonl", "these are ratings side by side"),
    ("rubric", "--ratings"),
    ("rubric --ratings={}/ratings.jsonl", "these are ratings side by side"),
    ("thumb --ratings={}/thumb.jsonl --reference=x", "did you mean --references"),
    ("sxz", "sxz"),
  ],
)
def test_human_sxs_and_thumb_usage_errors_are_one_line(folder, arguments, message):
  refused = _human(*arguments.replace("{}", str(folder)).split()).refused(message)
  assert refused.err.count("\n") == 1 and not refused.out


def test_human_ratings_csv_over_the_size_limit_is_refused(tmp_path, monkeypatch):
  monkeypatch.setattr(inputs, "MAX_DOCUMENT", 1 << 20)
  head = "image/key,language,rater,left,right,rating\nk,en,r,A,B,1\n"
  path = files.text(tmp_path / "ratings.csv", head + "\n" * (1 << 20))
  _human("sxs", f"--ratings={path}").refused(f"{path}: over 1 MiB in one piece; give JSONL instead")


def test_human_rate_reads_coco_files(tmp_path):
  files.json(
    tmp_path / "r.json",
    {
      "images": [{"id": 7, "file_name": "COCO_val2014_000000000007.jpg"}],
      "annotations": [{"image_id": 7, "id": 1, "caption": "a hound on sand"}],
    },
  )
  for name in "ab":
    files.coco_results(tmp_path / f"{name}.json", {7: f"{name} dog"})
  arguments = [f"--predictions={name}={tmp_path}/{name}.json" for name in "ab"]
  arguments += ["--protocol=sxs", f"--references={tmp_path}/r.json", f"--out={tmp_path}/page.html"]
  _human("rate", *arguments).refused(
    "'language' is missing; give it there, or for all captions with --language=CODE"
  )
  _human("rate", *arguments, "--language=en").succeeded(
    "page.html: 1 comparison, 2 systems, 1 picture, 1 language"
  )
  page = (tmp_path / "page.html").read_text()
  assert "a hound on sand" in page and "b dog" in page


@pytest.mark.parametrize(
  "name", ["ratings.jsonl", "core.csv", "A/table.json", "thumb.jsonl", "references.jsonl"]
)
def test_human_mutated_input_files_give_a_result_or_an_error_line(folder, name):
  rng = random.Random(name)
  content = (folder / name).read_bytes()
  command = {
    "ratings.jsonl": ["sxs", f"--ratings={folder}/ratings.jsonl"],
    "core.csv": ["sxs", f"--comparisons=CORE={folder}/core.csv"],
    "A/table.json": ["sxs", f"--ratings={folder}/ratings.jsonl", *_scores(folder)],
    "thumb.jsonl": ["thumb", f"--ratings={folder}/thumb.jsonl"],
    "references.jsonl": [
      "thumb", f"--ratings={folder}/thumb.jsonl", f"--references={folder}/references.jsonl",
    ],
  }[name]  # fmt: skip
  codes = []
  for _ in range(15):
    (folder / name).write_bytes(content)
    mutations.change(folder / name, rng)
    result = _human(*command, "--resamples=2")
    assert (result.code, result.err.count("\n")) in ((0, 0), (2, 1)), result.err
    codes.append(result.code)
  assert 2 in codes


def test_human_output_is_independent_of_the_hash_seed(folder):
  thumb = [f"--ratings={folder}/thumb.jsonl", f"--references={folder}/references.jsonl", "--human=Human"]
  options = ["--resamples=50", f"--out={folder}/out"]
  commands = [
    ["human", "sxs", f"--ratings={folder}/ratings.jsonl", *_scores(folder), *options],
    ["human", "thumb", *thumb, *options],
  ]
  shown = "".join(xmcap(*command).succeeded().out for command in commands)
  written = {path: path.read_bytes() for path in (folder / "out").iterdir()}
  other = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"  # of this process it is random
  results = xmcap_without((), *commands, environment={"PYTHONHASHSEED": other})
  assert "".join(result.out for result in results) == shown
  assert {path: path.read_bytes() for path in (folder / "out").iterdir()} == written
