"""Babel-ImageNet's own files: BabelNet's codes, the paper's languages and groups, English, retrieval, Figure 3.

The files here are small ones of the same form. Expected values are the paper's printed ones (Geigle et al., ACL 2024).
"""

import csv
import math

import numpy as np
import pytest

from tests import lazily
from tests.make import files
from tests.make.command import xmcap
from tests.make.refusals import refusal
from tests.ranked.tables import table
from tests.scoring import embeddings
from xmcap import digests, languages, papers
from xmcap.papers import babel_imagenet_languages
from xmcap.ranked import openai_english, prompts, ranks, retrieval_sets, zero_shot
from xmcap.scoring.statistics import means

metrics = lazily.Module("sklearn.metrics")
stats = lazily.Module("scipy.stats")

OTHERS = ("ZH_YUE", "BE_X_OLD", "SIMPLE", "NN", "ALS", "ZH_CLASSICAL", "EML", "ROA_RUP", "SH", "NDS_NL")


def _labels(counts):
  """Labels of as many classes by BabelNet's code."""
  return {name: [list(range(count)), [f"{name} {i}" for i in range(count)]] for name, count in counts.items()}


@pytest.fixture
def all_languages(tmp_path):
  """A file as babel_imagenet-298.json: the paper's languages with their numbers of classes, English, and others."""
  rows = papers.read("babel_imagenet_table5_languages")
  counts = {row["lang"].upper(): int(row["num_classes"]) for row in rows}
  labels = _labels(counts | dict.fromkeys(OTHERS, 12) | {"EN": 1000})
  return files.json(tmp_path / "babel_imagenet-298.json", labels)


def test_babel_imagenet_default_languages_are_those_of_the_paper(all_languages):
  said = []
  labels = zero_shot.read_labels(all_languages, None, said.append)
  assert len(labels) == 101 and {"en", "fil", "no", "hak"} <= labels.keys() and "nn" not in labels
  assert len(said) == 1 and "10 of its 111 languages are left out" in said[0]
  every = zero_shot.read_labels(all_languages, languages.EVERY, said.append)
  assert len(every) == 111 and len(said) == 1
  others = {"yue", "be-tarask", "en-simple", "nn", "gsw", "lzh", "egl", "rup", "sr-Latn", "nds-NL"}
  assert others == every.keys() - labels.keys() and all(map(languages.is_known, others))
  assert list(zero_shot.read_labels(all_languages, ("yue", "de"))) == ["yue", "de"]


def test_read_labels_does_not_check_other_languages(tmp_path):
  labels = _labels({"DE": 3, "NN": 3, "NO": 3}) | {"QQX": [[0], [""]]}
  path = files.json(tmp_path / "labels.json", labels)
  assert list(zero_shot.read_labels(path, ("de", "nn"))) == ["de", "nn"]
  assert "unknown language 'QQX'" in refusal(zero_shot.read_labels, path)


def test_babel_imagenet_means_are_over_the_papers_languages():
  counts = {"en": 1000, "yue": 300, "nn": 700, **babel_imagenet_languages.classes()}
  groups = means.mean_groups({code: {"classes": count} for code, count in counts.items()})
  assert [len(members) for members in groups.values()] == [17, 32, 35, 16, 100]
  assert "pt" in groups["over 666 classes"] and not {"en", "yue", "nn"} & {
    *groups["100 languages of the paper"]
  }
  # The means of Table 2 are those of the printed cells of Tables 8 and 9.
  cells = {row["lang"]: float(row["mSigLIP"]) for row in papers.read("babel_imagenet_tables8_9")}
  cells = {languages.canonical(code): score for code, score in cells.items()}
  printed = next(row for row in papers.read("babel_imagenet_table2") if row["model"] == "mSigLIP")
  for name, members in babel_imagenet_languages.groups().items():
    mean = np.mean([cells[code] for code in members])
    assert mean == pytest.approx(float(printed[name.replace("-", "_")]), abs=0.006)


ENGLISH = """
import torch
openai_en_classes = [{names}]
openai_en_prompts = [
    'a bad photo of a {{}}.',
    'itap of my {{}}.',
]
raise SystemExit("is never run")
"""


def test_babel_imagenet_english_labels_are_parsed_without_execution(tmp_path, all_languages):
  code, out = tmp_path / "babel_imagenet.py", tmp_path / "out" / "labels.json"
  code.write_text(ENGLISH.format(names=", ".join(f'"thing {i}"' for i in range(1000))))
  files.json(tmp_path / "p.json", {"EN": ["a  {} "], "ZH_YUE": [" {} "]})
  options = [f"--labels={all_languages}", f"--english={code}", f"--prompts={tmp_path / 'p.json'}"]
  xmcap("data", "labels", *options, f"--out={out}").succeeded("101 languages")
  assert zero_shot.read_labels(out)["en"].names[:2] == ("thing 0", "thing 1")
  assert prompts.read_prompts(out.parent / "prompts.json") == {
    "en": ("a bad photo of a {}.", "itap of my {}."), "yue": ("{}",),
  }  # fmt: skip
  assert openai_english.note(zero_shot.read_labels(out)["en"].names)
  code.write_text("names = ['a', 'b']")
  xmcap("data", "labels", *options, f"--out={out}").refused("has 0 lists of 1,000 names and 0 of templates")


def test_babel_labels_are_read_by_zero_shot(tmp_path):
  header = "language\tlemma\tsource\tmachine_translated\tsynset"
  rows = [f"{code}\tx{n}{code}\tWIKI\tfalse\tn0144076{n}" for code in ("EN", "ZH_YUE", "QQX") for n in (4, 5)]
  files.lines(tmp_path / "senses.tsv", header, *rows)
  files.lines(tmp_path / "wnids.txt", "n01440764", "n01440765")
  options = [f"--senses={tmp_path / 'senses.tsv'}", f"--wnids={tmp_path / 'wnids.txt'}", "--least=2"]
  xmcap("data", "labels", *options, f"--out={tmp_path / 'labels.json'}").succeeded(
    "no language has this code: QQX"
  )
  assert zero_shot.read_labels(tmp_path / "labels.json").keys() == {"en", "yue"}


@pytest.mark.parametrize("ties", [False, True])
def test_ndcg_equals_scikit_learn(ties):
  rng = np.random.default_rng(0)
  queries, candidates = rng.normal(size=(9, 4)), rng.normal(size=(30, 4))
  if ties:
    queries, candidates = np.round(queries), np.round(candidates)
  counts = rng.integers(1, 5, size=9)
  right = [rng.choice(30, count, replace=False) for count in counts]
  found = ranks.rank(queries.astype(np.float32), candidates.astype(np.float32), np.concatenate(right), counts)
  true = np.zeros((9, 30))
  for row, places in zip(true, right, strict=True):
    row[places] = 1
  for query in range(9):
    wanted = metrics.ndcg_score(true[query : query + 1], queries[query : query + 1] @ candidates.T, k=10)
    # scikit-learn averages over ties as we do.
    assert found.ndcg[query] == pytest.approx(wanted, abs=1e-9)


def _retrieval(folder, captions):
  """Writes embeddings of as many captions; returns the options."""
  rng, count = np.random.default_rng(0), len(captions["images"])
  pictures = rng.normal(size=(count, 8)).astype(np.float32)
  folder.mkdir()
  for code, lists in captions["captions"].items():
    places = [place for place, held in enumerate(lists) for _ in held]
    np.save(folder / f"{code}.npy", pictures[places] + rng.normal(size=(len(places), 8)).astype(np.float32))
  np.save(folder.parent / "pictures.npy", pictures)
  files.json(folder.parent / "captions.json", captions)
  names = ("pictures=pictures.npy", "captions=captions.json", f"texts={folder.name}")
  return [f"--{name.replace('=', f'={folder.parent}/')}" for name in names]


def test_retrieval_first_captions_and_empty_captions(tmp_path):
  captions = {"de": [["a", "b"], [""], *([[f"c{i}"] for i in range(10)])]}
  options = _retrieval(tmp_path / "t", {"images": [f"{i}.jpg" for i in range(12)], "captions": captions})
  tables_of = {}
  for kind in ("all", "first"):
    out = tmp_path / kind
    xmcap("score", "retrieval", *options, f"--captions_per_image={kind}", f"--out={out}").succeeded()
    tables_of[kind] = table(out)
    assert f"captions_per_image:{kind}" in tables_of[kind]["signature"]
    assert any("captions that are empty" in note and "de 1" in note for note in tables_of[kind]["notes"])
  assert [held["languages"]["de"]["captions"] for held in tables_of.values()] == [13, 12]


def test_retrieval_preset_refuses_other_images_and_counts(monkeypatch):
  keys = [f"COCO_val2014_{i:012d}" for i in range(1, 4)]
  held = retrieval_sets.RetrievalSet("Three", digests.of_images("123"), {"zh": 4, "": 3})
  monkeypatch.setitem(retrieval_sets.SETS, "coco_cn", held)
  retrieval_sets.check("coco_cn", [f"{key}.jpg" for key in keys], {"zh": 4, "de": 3})
  check = retrieval_sets.check
  assert "Three has 4 captions in 'zh', but there are 5" in refusal(check, "coco_cn", keys, {"zh": 5})
  assert "these 2 are not the same" in refusal(check, "coco_cn", keys[:2], {"zh": 4})
  assert retrieval_sets.recognise(keys) == "coco_cn" and retrieval_sets.recognise(keys[1:]) == ""


def test_retrieval_preset_of_xm3600_has_261375_captions():
  captions = retrieval_sets.SETS["xm3600"].captions
  assert sum(captions.values()) == 261_375 and captions.keys() == languages.LANGUAGES.keys()


def test_zero_shot_table_shows_the_papers_models(tmp_path, all_languages):
  labels = zero_shot.read_labels(all_languages, ("de", "xh", "en"))
  rng = np.random.default_rng(0)
  (tmp_path / "texts").mkdir()
  centres = rng.normal(size=(1000, 8)).astype(np.float32)
  for code, held in labels.items():
    np.save(tmp_path / f"texts/{code.upper()}.npy", centres[held.indices])
  np.save(tmp_path / "pictures.npy", centres)
  files.lines(tmp_path / "targets.txt", *range(1000))
  options = [
    f"--{name}={tmp_path}/{file}" for name, file in (("pictures", "pictures.npy"), ("targets", "targets.txt"))
  ]
  options += [
    f"--labels={all_languages}",
    f"--texts={tmp_path}/texts",
    "--languages=de,xh,en",
    "--fixed_classes=0",
  ]
  run = ["score", "zero-shot", *options]
  xmcap(*run, "--baseline=paper", f"--out={tmp_path / 'a'}").succeeded()
  rows = table(tmp_path / "a")["published"]
  cells = next(row for row in papers.read("babel_imagenet_tables8_9") if row["lang"] == "xh")
  assert len(rows) == 12 and all(row["table"] == "8, 9" for row in rows)
  assert {row["model"]: round(100 * row["xh"], 2) for row in rows} == {
    model: float(score) for model, score in cells.items() if model != "lang"
  }
  xmcap(*run, "--baseline=mSigLIP", f"--out={tmp_path / 'b'}").succeeded()
  beside = table(tmp_path / "b")["beside"]
  assert next(iter(beside.values()))["xh"] == pytest.approx(float(cells["mSigLIP"]) / 100)
  xmcap(*run, "--baseline=mine", f"--out={tmp_path / 'c'}").refused(
    "no folder and no model of the paper; there are AltCLIP"
  )
  others = embeddings.zero_shot(tmp_path / "other")
  xmcap("score", "zero-shot", *others, "--baseline=paper", f"--out={tmp_path / 'd'}").refused(
    "not those of Babel-ImageNet's labels"
  )


@pytest.mark.parametrize(
  "name, printed, count", [("xflickrco", 0.67, 88), ("xm3600", 0.75, 374), ("xtd", 0.66, 121)]
)
def test_score_correlation_reproduces_figure_3_of_the_paper(tmp_path, name, printed, count):
  xmcap("score", "correlation", f"--paper={name}", f"--out={tmp_path}").succeeded()
  pearson = (tmp_path / "correlation.csv").read_text().splitlines()[1].split(",")
  assert (pearson[0], round(float(pearson[1]), 2), int(pearson[-1])) == ("pearson", printed, count)


def test_score_correlation_of_models_and_its_refusals(tmp_path):
  zero = embeddings.zero_shot(tmp_path / "z")
  xmcap("score", "zero-shot", *zero, f"--out={tmp_path / 'zs'}").succeeded()
  texts = {"images": list(range(12)), "captions": {"de": [["a"]] * 12, "en": [["a"]] * 12}}
  xmcap("score", "retrieval", *_retrieval(tmp_path / "t", texts), f"--out={tmp_path / 'rt'}").succeeded()
  run = ["score", "correlation", f"--out={tmp_path / 'out'}", f"--zero_shot={tmp_path / 'zs'}"]
  said = xmcap(*run, f"--retrieval={tmp_path / 'rt'}").succeeded(
    "no coefficient (-) of 2 points: it takes 5 or more"
  )
  assert [line.split()[1:3] for line in said.out.splitlines()[2:5]] == [["-", "2"]] * 3
  assert "of 2 points" in (tmp_path / "out/correlation.md").read_text()
  assert (tmp_path / "out/points.csv").read_text().splitlines()[1].startswith("zs,de,")
  xmcap(*run).refused("1 folders and --retrieval 0")
  xmcap(*run, f"--retrieval={tmp_path / 'zs'}").refused("its table has no t2i_r1")


def test_score_correlation_takes_lists_and_names_models_by_their_folders(tmp_path):
  texts = {"images": list(range(12)), "captions": {"de": [["a"]] * 12, "en": [["a"]] * 12}}
  folders = {task: [tmp_path / run / "eval" / task for run in "ab"] for task in ("zero_shot", "retrieval")}
  for number, run in enumerate("ab"):
    zero = embeddings.zero_shot(tmp_path / f"z{run}")
    xmcap("score", "zero-shot", *zero, f"--out={folders['zero_shot'][number]}").succeeded()
    of_texts = _retrieval(tmp_path / f"t{run}", texts)
    xmcap("score", "retrieval", *of_texts, f"--out={folders['retrieval'][number]}").succeeded()
  lists = [*("--zero_shot", *folders["zero_shot"]), *("--retrieval", *folders["retrieval"])]
  xmcap("score", "correlation", *lists, "--out", tmp_path / "out").succeeded()
  rows = [line.split(",")[:2] for line in (tmp_path / "out/points.csv").read_text().splitlines()[1:]]
  assert rows == [["a", "de"], ["a", "en"], ["b", "de"], ["b", "en"]]
  counts = files.lines(tmp_path / "counts.csv", "language,count", "de,5", "en,6")
  xmcap("score", "correlation", *lists[:3], f"--counts={counts}", "--out", tmp_path / "out").succeeded()
  assert len((tmp_path / "out/points.csv").read_text().splitlines()) == 5  # not one model for both


TOKENS = {"tl": 556, "af": 242, "de": 10297, "en": 55608, "om": 8}
"""Millions of tokens of XLM-R in some languages, of which Babel-ImageNet spells Filipino tl."""


def test_score_correlation_with_counts_of_languages(tmp_path):
  counts = files.lines(
    tmp_path / "counts.csv", "count,language", *(f"{n},{code}" for code, n in TOKENS.items())
  )
  run = ["score", "correlation", f"--counts={counts}", f"--out={tmp_path / 'out'}"]
  model = "OpenCLIP XLMR-B B-32"
  xmcap(*run, f"--baseline={model}").succeeded(
    "top1 and log10 of the count", "classes and log10 of the count"
  )
  points = {
    prefix: list(csv.reader((tmp_path / f"out/{prefix}points.csv").read_text().splitlines()))
    for prefix in ("", "classes_")
  }
  assert [row[1] for row in points[""][1:]] == ["en", "af", "de", "om", "fil"]
  printed = {row["lang"]: float(row[model]) for row in papers.read("babel_imagenet_tables8_9")}
  assert points[""][5] == [model, "fil", str(printed["tl"] / 100), str(math.log10(556))]
  assert {row[1]: float(row[2]) for row in points["classes_"][1:]} == {
    "om": 18, "af": 303, "fil": 272, "de": 738, "en": 1000
  }  # fmt: skip
  of_classes, of_top1 = (
    list(csv.reader((tmp_path / "out" / f"{prefix}correlation.csv").read_text().splitlines()))[2]
    for prefix in ("classes_", "")
  )
  expected = [
    stats.spearmanr(numbers, list(TOKENS.values()))[0]
    for numbers in ([272, 303, 738, 1000, 18], [printed[code] for code in TOKENS])
  ]
  assert [float(of_classes[1]), float(of_top1[1])] == pytest.approx(expected)
  assert of_classes[0] == "spearman" and of_classes[-1] == "5" and expected[0] == pytest.approx(0.9)
  zero = embeddings.zero_shot(tmp_path / "z")
  xmcap("score", "zero-shot", *zero, f"--out={tmp_path / 'zs'}").succeeded()
  xmcap(*run, f"--zero_shot={tmp_path / 'zs'}").succeeded()
  rows = (tmp_path / "out/classes_points.csv").read_text().splitlines()
  assert rows[1:] == [f",de,8.0,{math.log10(10297)}", f",en,12.0,{math.log10(55608)}"]
  xmcap("score", "correlation", "--paper=xtd", f"--out={tmp_path / 'out'}").succeeded()
  assert sorted(path.name for path in (tmp_path / "out").glob("*.csv")) == ["correlation.csv", "points.csv"]


@pytest.mark.parametrize(
  "lines, more, said",
  [
    (["language,count", "de,5", "en,6"], [], "fewer than two languages with a count"),
    (["language,count", "de,5", "DE,6"], ["--baseline=mSigLIP"], "line 3: 'DE' is repeated; give the sum"),
    (["language,count", "qqq,5"], ["--baseline=mSigLIP"], "line 2: 'qqq' is no language"),
    (["language,count", "de,0"], ["--baseline=mSigLIP"], "line 2: '0' is no count above 0"),
    (["language,count", "de,5M"], ["--baseline=mSigLIP"], "'5M' is no count"),
    (["language,tokens", "de,5"], ["--baseline=mSigLIP"], "line 1: the header must be language,count"),
    (["language,count", "de,5", "en,6"], ["--baseline=CLIP"], "no model of the paper; there are AltCLIP"),
    (["language,count", "de,5"], ["--paper=xtd"], "--paper is without --counts"),
  ],
)
def test_score_correlation_refuses_other_counts(lines, more, said, tmp_path):
  counts = files.lines(tmp_path / "counts.csv", *lines)
  xmcap("score", "correlation", f"--counts={counts}", f"--out={tmp_path / 'out'}", *more).refused(said)


def test_score_correlation_refuses_a_baseline_without_counts(tmp_path):
  run = "score", "correlation", f"--out={tmp_path / 'out'}", "--paper=xtd"
  xmcap(*run, "--baseline=mSigLIP").refused("--baseline is with --counts")
