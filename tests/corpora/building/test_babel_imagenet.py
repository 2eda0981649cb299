"""Babel-ImageNet: records of ImageNet's validation images, and labels from BabelNet senses."""

import json
import re
import tarfile

import pytest

from tests.make import files
from tests.make.command import xmcap
from tests.make.images import plain
from xmcap.corpora.releases import babel_labels
from xmcap.data import records
from xmcap.errors import UsageError
from xmcap.papers import babel_imagenet_languages

WNIDS = ["n01440764", "n01443537", "n01484850"]


def picture(number):
  return plain(number, (16, 16), "JPEG")


@pytest.fixture
def release(tmp_path):
  """Two pictures a class, each class in its folder, and labels."""
  for number, wnid in enumerate(WNIDS):
    (tmp_path / "val" / wnid).mkdir(parents=True)
    for place in range(2):
      name = f"ILSVRC2012_val_{number * 2 + place:08d}.JPEG"
      (tmp_path / "val" / wnid / name).write_bytes(picture(number * 40 + place))
  labels = {
    "EN": [[0, 1, 2], ["tench", "goldfish", "great white shark"]],
    "DE": [[0, 2], ["Schleie", "Weißer Hai"]],
  }
  (tmp_path / "babel_imagenet.json").write_text(json.dumps(labels))
  (tmp_path / "nllb_dist13b_prompts.json").write_text(json.dumps({"DE": ["ein Foto von {}"]}))
  return tmp_path


def build(release, *options, out="out"):
  return xmcap("data", "build", "babel_imagenet", f"--out={release / out}", "--processes=1", *options)


def found(release, out="out"):
  return {record.key: record.tags for record in records.RecordSource(release / out, "validation")}


def test_babel_imagenet_records_have_their_class(release):
  build(release, f"--release={release}").succeeded("no problems with the release")
  tags = {f"ILSVRC2012_val_{number:08d}": [WNIDS[number // 2]] for number in range(6)}
  assert found(release) == tags
  assert records.read_tags(release / "out") == WNIDS
  for name, copy in (("babel_imagenet.json", "labels.json"), ("nllb_dist13b_prompts.json", "prompts.json")):
    assert (release / "out" / copy).read_bytes() == (release / name).read_bytes()


def test_babel_imagenet_tar_and_folder_give_the_same_records(release):
  build(release, f"--release={release}").succeeded()
  with tarfile.open(release / "val.tar", "w") as tar:
    tar.add(release / "val", "val")
  labels = f"--labels={release / 'babel_imagenet.json'}"
  build(release, labels, f"--images={release / 'val.tar'}", out="tar").succeeded()
  (release / "flat").mkdir()
  lines = ["ImageId,PredictionString"]
  for path in sorted((release / "val").rglob("*.JPEG")):
    (release / "flat" / path.name).write_bytes(path.read_bytes())
    lines.append(f"{path.stem},{path.parent.name} 1 2 3 4")
  (release / "classes.csv").write_text("\n".join(lines))
  flat = [f"--images={release / 'flat'}", f"--classes={release / 'classes.csv'}"]
  build(release, labels, *flat, out="flat_out").succeeded()
  assert found(release) == found(release, "tar") == found(release, "flat_out")


def test_babel_imagenet_counts_unlabelled_and_broken_images(release):
  (release / "val" / "stray.JPEG").write_bytes(picture(9))
  (release / "val" / WNIDS[0] / "ILSVRC2012_val_00000000.JPEG").write_bytes(b"<html>")
  build(release, f"--release={release}").succeeded("no_class: pictures without a class", "not_a_picture")
  assert len(found(release)) == 5


def test_babel_imagenet_class_order_is_read_from_wnids_file(release):
  (release / "wnids.txt").write_text("\n".join(["n00000001", *WNIDS]))
  build(release, f"--release={release}").succeeded()
  assert records.read_tags(release / "out") == ["n00000001", *WNIDS]


@pytest.mark.parametrize(
  ("change", "message"),
  [
    (lambda at: (at / "wnids.txt").write_text("n01440764\nn01440764\n"), "wnids.txt, line 2: not a class such as"),
    (lambda at: (at / "wnids.txt").write_text("\n".join(WNIDS[:2])), "class 2, but .*wnids.txt has only 2 classes"),
    (lambda at: (at / "wnids.txt").write_text("\n".join([*WNIDS[1:], "n00000001"])), "its class n01440764 is not in"),
    (lambda at: (at / "babel_imagenet.json").write_text('{"DE": [[0, 0], ["a", "b"]]}'), "index 0 is repeated"),
    (lambda at: (at / "babel_imagenet.json").write_text('{"DE": [[0, 1], ["a"]]}'), "2 indices and 1 label"),
    (lambda at: (at / "babel_imagenet.json").write_text('{"IW": [[0, 7], ["a", "b"]]}'), "class 7, but .*val has only"),
    (lambda at: (at / "nllb_dist13b_prompts.json").write_text('{"DE": ["ein Foto"]}'), "prompt 0 .* has {} 0 times"),
  ],
)  # fmt: skip
def test_babel_imagenet_input_errors_are_one_line(release, change, message):
  change(release)
  assert re.search(message, build(release, f"--release={release}").refused().err)


SENSES = """language\tlemma\tsource\tmachine_translated\tsynset
EN\ttench\tWN\tfalse\twn:01440764n
EN\tGoldfish\tWN\tfalse\tn01443537
EN\tgreat_white_shark\tWN\tfalse\t01484850n
EN\tmaneater\tWIKIRED\tfalse\tn01484850
DE\tTinca\tWIKIRED\tfalse\tn01440764
DE\tSchleie_(Fisch)\tWIKI\tfalse\tn01440764
DE\tgoldfish\tWIKI\tfalse\tn01443537
DE\tGoldfisch\tGOOGLE\ttrue\tn01443537
DE\tManeater\tWIKI\tfalse\tn01440764
DE\tWeißhai\tWIKIDATA_ALIAS\tfalse\tn01484850
PT\tplanetárium\tWIKI\tfalse\tn01440764
PT\tpeixe\tGOOGLE\ttrue\tn01443537
FR\tautre\tWIKI\tfalse\tn99999999
"""


def test_babel_labels_follow_the_papers_five_steps(tmp_path):
  (tmp_path / "senses.tsv").write_text(SENSES)
  made = babel_labels.make(babel_labels.read_senses(tmp_path / "senses.tsv"), WNIDS, least=2)
  assert made.labels == {
    "EN": [[0, 1, 2], ["tench", "Goldfish", "great white shark"]],
    "DE": [[0, 2], ["Schleie (Fisch)", "Weißhai"]],  # an alias where there is nothing else
  }
  assert made.counts == {"EN": (3, 3, 3), "DE": (3, 3, 2), "PT": (2, 1, 0)}


def test_babel_labels_command_prints_counts(tmp_path):
  (tmp_path / "senses.tsv").write_text(SENSES)
  (tmp_path / "wnids.txt").write_text("\n".join(WNIDS))
  options = [f"--senses={tmp_path / 'senses.tsv'}", f"--wnids={tmp_path / 'wnids.txt'}"]
  result = xmcap("data", "labels", *options, f"--out={tmp_path / 'labels.json'}", "--least=2").succeeded()
  said = result.out.splitlines()
  assert [line.split() for line in said[1:4]] == [
    ["EN", "3", "3", "3"], ["DE", "3", "3", "2"], ["PT", "2", "1", "0", "left", "out"],
  ]  # fmt: skip
  assert list(json.loads((tmp_path / "labels.json").read_text())) == ["EN", "DE"]


@pytest.mark.parametrize(
  ("text", "message"),
  [
    ("a\tb\n", "line 1: the header must be"),
    (SENSES + "DE\tx\tWIKI\tmaybe\tn01440764\n", "line 15: must be language, lemma"),
    (SENSES + "DE\tx\tWIKI\ttrue\tv01440764\n", "line 15: must be language, lemma"),
    (SENSES + "DE\tx\ry\tWIKI\tmaybe\tn01440764\n", "line 15: must be language, lemma"),
    (SENSES.replace("EN\t", "IT\t"), "no English senses"),
  ],
)
def test_malformed_babelnet_senses_are_refused(tmp_path, text, message):
  (tmp_path / "senses.tsv").write_text(text)
  with pytest.raises(UsageError, match=message):
    babel_labels.make(babel_labels.read_senses(tmp_path / "senses.tsv"), WNIDS)


LABELS = {
  "yue": ({"EN": 3, "DE": 3, "ZH_YUE": 3}, "there are only 1 (de); not among them: yue"),
  "no, nn": ({"DE": 3, "NO": 3, "NN": 3}, "there are only 2 (no, de); not among them: nn"),
  "none": ({"EN": 3, "ALS": 3}, "there is none; not among them: gsw"),
}
"""Name -> languages in BabelNet's spelling and their number of classes, and what `data labels` says of them."""


@pytest.mark.parametrize(("counts", "said"), LABELS.values(), ids=LABELS)
def test_babel_labels_command_says_which_languages_are_not_the_papers(counts, said, tmp_path):
  layout = {name: [[*range(count)], [f"{name} {i}" for i in range(count)]] for name, count in counts.items()}
  (tmp_path / "in.json").write_text(json.dumps(layout))
  options = f"--labels={tmp_path / 'in.json'}", f"--out={tmp_path / 'labels.json'}"
  result = xmcap("data", "labels", *options).succeeded()
  assert result.out.splitlines()[0] == f"of the paper's 100 languages {said}"
  assert (
    "of the paper's" not in xmcap("data", "labels", *options, "--languages=en,de,gsw,no").err + result.err
  )


def test_babel_labels_of_the_first_repository_lack_eight_languages():
  paper = babel_imagenet_languages.classes()
  later = ["nah", "hak", "ce", "chr", "diq", "cv", "nv", "wuu"]
  said = babel_imagenet_languages.difference({*paper, "en"} - set(later))
  assert said == f"of the paper's 100 languages 8 are missing ({', '.join(later)})"
  assert not babel_imagenet_languages.difference([*paper, "en"])


def clip_benchmark(folder, **changes):
  """Files as in clip_benchmark/datasets of LAION-AI/CLIP_benchmark, with another set beside; returns the folder."""
  names = {
    "cn": ["丁鲷", "金鱼", "大白鲨", "虎鲨"],
    "it": ["una tinca", "un pesce rosso", "uno squalo", "un martello"],
  }
  templates = {"cn": ["{c}的照片。"], "it": ["una foto di {c}", "{c}"]}
  for kind, of_kind in (("classnames", names), ("zeroshot_classification_templates", templates)):
    for language, texts in of_kind.items():
      content = {"imagenet1k": changes.get(f"{language}_{kind}", texts), "eurosat": {"0": "Wald"}}
      files.json(folder / f"{language}_{kind}.json", content)
  return folder


def translated(tmp_path, folder, *more):
  labels = files.json(
    tmp_path / "labels.json",
    {"ZH": [[0, 2], ["丁鱥", "白鲨"]], "DE": [[1, 2], ["Fisch", "Hai"]], "IT": [[1, 3], ["pesce", "squalo"]]},
  )
  options = f"--labels={labels}", f"--translations={folder}", f"--out={tmp_path / 'made/labels.json'}"
  return xmcap("data", "labels", *options, *more)


def test_babel_labels_of_existing_translations_are_of_the_same_classes(tmp_path):
  folder = clip_benchmark(tmp_path / "datasets")
  result = translated(tmp_path, folder).succeeded("classes with an existing translation: zh 2, it 2")
  assert "of the paper's 100" not in result.out
  assert json.loads((tmp_path / "made/labels.json").read_text()) == {
    "ZH": [[0, 2], ["丁鲷", "大白鲨"]], "IT": [[1, 3], ["un pesce rosso", "un martello"]]
  }  # fmt: skip
  assert json.loads((tmp_path / "made/prompts.json").read_text())["ZH"] == ["{}的照片。"]
  only = translated(tmp_path, folder, "--languages=it").succeeded()
  assert "zh" not in only.out and list(json.loads((tmp_path / "made/labels.json").read_text())) == ["IT"]


@pytest.mark.parametrize(
  "changes, more, said",
  [
    ({"it_classnames": ["una tinca", "un pesce", "uno squalo"]}, [], "'it': class 3 has no name"),
    ({"cn_classnames": ["丁鲷", "金鱼", " "]}, [], "'zh': class 2 has no name"),
    ({"cn_classnames": {"0": "丁鲷"}}, [], "cn_classnames.json: not a file of CLIP_benchmark"),
    ({"it_zeroshot_classification_templates": ["una foto di {}"]}, [], "must have {c} exactly once"),
    ({}, ["--languages=de"], "no language has labels and one of the translations (zh, it)"),
    ({}, ["--english=x.py"], "--english makes other labels than --translations"),
  ],
)  # fmt: skip
def test_babel_labels_refuse_other_translations(changes, more, said, tmp_path):
  translated(tmp_path, clip_benchmark(tmp_path / "datasets", **changes), *more).refused(said)


def test_babel_labels_refuse_a_folder_without_translations(tmp_path):
  translated(tmp_path, tmp_path).refused("has no file such as ar_classnames.json")
