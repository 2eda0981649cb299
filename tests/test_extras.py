"""Sizes of install: commands that run with scoring alone, and the extras that other commands name."""

import argparse
import importlib.metadata
import pathlib
import re

import numpy as np
import pytest
from packaging.utils import canonicalize_name

from tests import absent, setup_py
from tests.make import files, images
from tests.make.command import xmcap_without
from tests.scoring import embeddings
from tests.training.reporting import synthetic
from xmcap import cli, extras
from xmcap.errors import UsageError

ROOT = pathlib.Path(__file__).parents[1]
_KEYS = ("k1", "k2", "k3", "k4")
_CAPTIONS = {
  "en": "a dog runs on grass",
  "ja": "犬が草の上を走っている",
  "th": "สุนัขวิ่งบนหญ้า",
  "zh": "一只狗在草地上奔跑",
}


def leaves(parser=None):
  """The parsers of all commands that run something."""
  parser = parser or cli._parser()
  if parser.get_default("run"):
    yield parser
  for action in parser._actions:
    if isinstance(action, argparse._SubParsersAction):
      for choice in action.choices.values():
        yield from leaves(choice)


LEAVES = {parser.prog.removeprefix("xmcap "): parser for parser in leaves()}
DOORS = {
  "caption --model_dir=x x.png": "train",
  "caption --endpoint=http://x --model=m x.png": "endpoint",
  "eval --model_dir=x": "train",
  "eval --endpoint=http://x --model=m": "endpoint",
}
"""Calls of the commands that need one of two extras -> the extra."""

ELSEWHERE = {name for name in LEAVES if LEAVES[name].get_default("extra")}

SCORING = """
score -r references.jsonl -p p1.jsonl -o A --bootstrap=5 --images=photos --processes=1
score -r references.jsonl -p p2.jsonl -o B --metrics=all --tokenizer=char --clean=all --processes=1
score -r references.jsonl -p p2.jsonl -o P --protocol=xmcap --only_tables --processes=1
eval --predictions=p1.jsonl --gin.REFERENCES=references.jsonl --gin.EVAL_DIR=E
check p1.jsonl p2.jsonl -o K
compare A again=A -r references.jsonl -o C --resamples=5
score tags -r tags.jsonl -p tags.jsonl --k=1 -o T
score zero-shot --pictures=zs/pictures.npy --targets=zs/targets.txt --labels=zs/labels.json --texts=zs/texts -o Z
score retrieval --pictures=rt/pictures.npy --captions=rt/captions.jsonl --texts=rt/texts -o R
score correlation --paper=xtd -o S
retrieval scores -q v.npy -c v.npy -o scores.npy
retrieval fuse -s scores.npy -s scores.npy --validation_scores scores.npy --validation_scores scores.npy -o f.npy
retrieval top -q photos_v -c v.npy --sentences=pool.txt -l zh --k=2 -o top.jsonl
human sxs --comparisons=paper --resamples=5
human thumb --ratings=thumb.jsonl
human judgements --judgements=judged.jsonl
human rate --protocol=sxs --predictions=a=p1.jsonl --predictions=b=p2.jsonl --languages=en --out=page.html
human rubric --ratings=rubric.jsonl
human quality --references=references.jsonl --limit=2 --out=quality.jsonl
human choose --scores=A=A --scores=B=A --silver=A=A --silver=B=A --core=en --out=choice
human annotate --images=photos --language=zh --sentences=p1.jsonl --tags=tags.jsonl --out=pages
human annotations saved.jsonl --out=annotated
published xm3600
published xm3600-draft
results hub A --dataset=a/b --task=t --out=hub.yaml
results every-eval-ever A --dataset=a/b --model=a/b --organization=o --relationship=other --out=eee
results coco --predictions=p1.jsonl --language=en --key=k(.*) --out=coco.json
doctor
runs runs
data select candidates.csv --out=selected.csv --count=1 --languages=en
data labels --senses=senses.tsv --wnids=wnids.txt --least=2 --out=labels.json
"""
"""A call of each command of scoring, on what `folder` holds."""

NEED_A_RELEASE = {"published babel-imagenet", "published coco-cn", "published thumb"}
LAUNCHERS = {name for name in LEAVES if name.startswith("launch ")}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
  made = tmp_path_factory.mktemp("scoring")
  references = {code: [text, text] for code, text in _CAPTIONS.items()}
  files.release(made / "references.jsonl", dict.fromkeys(_KEYS, references))
  for name, more in (("p1", ""), ("p2", "s")):
    predictions = {code: text + more for code, text in _CAPTIONS.items()}
    files.captions(made / f"{name}.jsonl", dict.fromkeys(_KEYS, predictions))
  tags = ({"image/key": key, "language": "zh", "tags": ["狗", "草"]} for key in _KEYS)
  files.jsonl(made / "tags.jsonl", *tags)
  images.files(made / "photos", *(f"{key}.png" for key in _KEYS), color="red", size=(60, 40))
  embeddings.zero_shot(made / "zs")
  embeddings.retrieval(made / "rt")
  vectors = np.random.default_rng(0).normal(size=(len(_KEYS), 6)).astype(np.float32)
  (made / "photos_v").mkdir()
  np.save(made / "v.npy", vectors)
  np.save(made / "photos_v/pictures.npy", vectors)
  files.lines(made / "photos_v/keys.txt", *_KEYS)
  files.lines(made / "pool.txt", *(f"第{number}句" for number in range(len(_KEYS))))
  scores = {"P": 4, "R": 3, "Fl": -0.0, "Inc": -0.0, "Con": -0.5}
  rated = ({"SYS": "M", "seg_id": key, "hyp": "a dog", **scores} for key in _KEYS)
  files.jsonl(made / "thumb.jsonl", *rated)
  judged = (
    {"imgid": key, "mt": "a dog", "refs": ["the dog"], "score": number} for number, key in enumerate(_KEYS)
  )
  files.jsonl(made / "judged.jsonl", *judged)
  levels = {"protocol": "coco_cn_captions", "relevance": 5, "fluency": 4}
  files.jsonl(made / "rubric.jsonl", *(
    {"image/key": key, "language": "zh", "system": "M", "caption": "狗", "rater": rater, **levels}
    for key in _KEYS for rater in "ab"
  ))  # fmt: skip
  saved = {"language": "zh", "image": "a.png", "annotator": "anna", "caption": "一只小狗", "tags": ["狗"]}
  saved |= {"suggested": {"sentences": [], "tags": []}, "events": []}
  files.jsonl(made / "saved.jsonl", *({"image/key": key, **saved} for key in _KEYS))
  synthetic.captioner(made / "runs/done", 0, 400, 400, ends="finished")
  senses = [f"EN\tx{n}\tWIKI\tfalse\tn0144076{n}" for n in (4, 5)]
  files.lines(made / "senses.tsv", "language\tlemma\tsource\tmachine_translated\tsynset", *senses)
  files.lines(made / "wnids.txt", "n01440764", "n01440765")
  files.lines(made / "candidates.csv", "image/key,languages", "k1,en", "k2,en")
  return made


@pytest.fixture(scope="module")
def found(folder):
  """Call -> (exit code, what was said), with scoring alone."""
  calls = [line.split() for line in SCORING.strip().splitlines()]
  calls += [[*name.split(), *_required(LEAVES[name])] for name in sorted(ELSEWHERE | NEED_A_RELEASE)]
  calls += [call.split() for call in DOORS]
  calls += [[*name.split(), "--help"] for name in LEAVES] + [["--version"], _LAUNCH]
  results = xmcap_without(absent.beyond(setup_py.scoring()), *calls, folder=folder)
  return {" ".join(words): (result.code, result.err) for words, result in zip(calls, results, strict=True)}


_LAUNCH = ["launch", "slurm", "--name=bb", "--nodes=2", "--", "train", "--gin_file=models/bb.gin"]


def _required(parser):
  """Values for what a command cannot do without."""
  words = []
  for action in parser._actions:
    if action.required:
      value = action.choices[0] if action.choices else "x.html" if "HTML" in (action.help or "") else "x"
      words += [f"{action.option_strings[-1]}={value}"] if action.option_strings else [value]
  return words


def test_every_command_is_of_scoring_or_names_its_extra():
  called = {
    name for line in SCORING.strip().splitlines() for name in LEAVES if f"{line} ".startswith(f"{name} ")
  }
  assert called | ELSEWHERE | NEED_A_RELEASE | LAUNCHERS | {"caption"} == set(LEAVES)
  assert {LEAVES[name].get_default("extra") for name in ELSEWHERE} <= extras.MODULES.keys()


@pytest.mark.parametrize("call", SCORING.strip().splitlines())
def test_scoring_needs_no_extra(found, call):
  assert found[call][0] == 0, found[call]


@pytest.mark.parametrize("name", sorted(ELSEWHERE))
def test_other_commands_name_their_extra_in_one_line(found, name):
  (call,) = [call for call in found if call.startswith(f"{name} ") and not call.endswith("--help")] or [name]
  code, said = found[call]
  extra = LEAVES[name].get_default("extra")
  assert code == 2 and said == (
    f"xmcap: error: xmcap {name} needs the extra {extra}, of which {extras.MODULES[extra][0]} is missing: "
    f"pip install '.[{extra}]' in a clone of xmcap, or pip install 'xmcap-0.1.0-py3-none-any.whl[{extra}]'\n"
  )


@pytest.mark.parametrize("call", DOORS)
def test_captions_of_a_model_and_of_an_endpoint_name_their_extra(found, call):
  code, said = found[call]
  assert code == 2 and f"needs the extra {DOORS[call]}, of which" in said and said.count("\n") == 1


@pytest.mark.parametrize("name", sorted(NEED_A_RELEASE))
def test_commands_of_published_results_need_files_not_extras(found, name):
  code, said = found[f"{name} --results=x"]
  assert code == 2 and said.startswith("xmcap: error: x") and "extra" not in said


def test_launch_without_extra_train_names_it(found):
  code, said = found[" ".join(_LAUNCH)]
  assert code == 2 and "xmcap train needs the extra train" in said and "--unchecked starts it without" in said


def test_every_help_is_printed(found):
  for call, (code, said) in found.items():
    if call.endswith(("--help", "--version")):
      assert code == 0 and not said, (call, said)


def test_import_error_names_the_extra(monkeypatch):
  for module, extra in (("jax.numpy", "train"), ("seqio", "seqio"), ("uvicorn", "serve")):
    said = str(extras.explained(ModuleNotFoundError(f"No module named '{module}'", name=module)))
    assert f"needs the extra {extra}, of which {module} is missing: pip install '.[{extra}]'" in said
  assert extras.explained(ModuleNotFoundError("No module named 'x'", name="x")) is None
  assert extras.explained(OSError("x")) is None


def test_extras_check_of_installed_and_missing_modules(monkeypatch):
  extras.check("xmcap train", "train")
  monkeypatch.setitem(extras.MODULES, "train", ("jax", "no_such_module"))
  with pytest.raises(
    UsageError, match="^xmcap train needs the extra train, of which no_such_module is missing"
  ):
    extras.check("xmcap train", "train")


# ---- setup.py ------------------------------------------------------------------------------------


def _names(requirements):
  return {canonicalize_name(asked.name) for asked in requirements}


def test_the_modules_of_an_extra_are_those_of_setup_py():
  packages = importlib.metadata.packages_distributions()
  for extra, modules in extras.MODULES.items():
    brought = _names(setup_py.extras()[extra])
    for module in modules:
      assert brought & set(map(canonicalize_name, packages[module])), f"{extra}: {module}"


def test_each_size_holds_the_smaller_one_and_no_heavier_package():
  sizes = setup_py.extras()
  scoring, train, seqio = _names(setup_py.scoring()), _names(sizes["train"]), _names(sizes["seqio"])
  assert not scoring & train and train < seqio < _names(sizes["all"])
  assert all(train <= _names(sizes[extra]) for extra in ("serve", "cuda", "plan", "beam", "t5x", "test"))
  hidden = absent.beyond([*setup_py.scoring()])
  assert {"jax", "flax", "tensorflow", "orbax", "pyarrow", "seqio"} <= set(hidden)
  hidden = absent.beyond([*setup_py.scoring(), *sizes["train"]])
  assert {"tensorflow", "seqio", "clu"} <= set(hidden) and "jax" not in hidden
  for name in ("scoring", "train"):
    asked = setup_py.arguments()["install_requires" if name == "scoring" else "extras_require"]
    listed = asked if name == "scoring" else asked[name]
    assert listed == sorted(listed)


# ---- no package index ----------------------------------------------------------------------------

_INDEX = re.compile(
  r"pip3? install(?:[^\n`'\"|]|['\"](?!\.|dist/|xmcap-))*?[ '\"]xmcap(?=[\s\['\"=<>~!`);,.]|$)"
)


def _is_from_an_index(line):
  return bool(_INDEX.search(line)) or bool(re.search(r"['`]xmcap\[|xmcap==\d", line))


def test_no_file_tells_to_install_xmcap_from_an_index():
  folders = ("docs", "xmcap", "gin", "tasks", "examples", "launch", "benchmarks", ".ci")
  sources = [path for folder in folders for path in (ROOT / folder).rglob("*") if path.is_file()]
  sources += [
    path
    for path in ROOT.iterdir()
    if path.suffix in (".md", ".py", ".sh", ".toml", ".yml") or path.name == "Dockerfile"
  ]
  wrong = [
    f"{path.relative_to(ROOT)}:{number}: {line.strip()[:100]}"
    for path in sources
    if path.suffix not in (".pyc", ".png", ".jpg", ".webp")
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
    if _is_from_an_index(line)
  ]
  assert not wrong, "\n".join(wrong)
