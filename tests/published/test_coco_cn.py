"""`xmcap published coco-cn` on the authors' outputs, and on changed or missing files."""

import shutil

import pytest

from tests.make import files
from tests.make.command import xmcap
from tests.published import coco_cn as released
from tests.published.published_tables import by_table
from xmcap.published import coco_cn


def _assert_equal(folder, systems, deviating):
  tables = by_table(coco_cn.recompute(folder))
  assert len(tables["Table 8"]) == 4 * systems
  assert [row.what for row in tables["Table 8"] if not row.equal] == deviating
  assert all(row.equal for name in ("CIDEr", "ROUGE_L") for row in tables[f"{name} of each picture"])
  meteor = tables["METEOR of each picture"]
  assert sum(not row.equal for row in meteor) <= 0.01 * len(meteor) and len(meteor) == 1000 * systems


@pytest.mark.full  # one of the three systems is enough
@released.needs_files
def test_coco_cn_table_8_equals_the_released_outputs(tmp_path):
  # .2711 is printed as .272, as in the authors' file: the one cell that does not round to the print.
  _assert_equal(released.FOLDER, 3, ["COCO-CN, METEOR"])
  result = xmcap("published", "coco-cn", f"--results={released.FOLDER}", f"--out={tmp_path}")
  result.succeeded("Table 8: COCO-CN, METEOR: printed 27.2, computed 27.1")


@released.needs_files
def test_coco_cn_rows_of_one_system_equal_its_released_output(tmp_path):
  for name in (released.REFERENCES.name, "result_seqlearn.txt"):
    shutil.copyfile(released.FOLDER / name, tmp_path / name)
  _assert_equal(tmp_path, 1, [])


_SYSTEMS = ("flickr8k-cn", "aic-icc", "coco-mt", "coco-cn", "seqlearn")


def _viewer(folder):
  """COCO-CN-Results-Viewer has the references in Data/COCO and five systems in Data/Systems."""
  captions = {8: "一个 女人 在 街道 上", 14: "两 只 狗"}
  files.coco(folder / "Data/COCO" / released.REFERENCES.name, {key: [text] for key, text in captions.items()})
  scores = {"CIDEr": 1, "ROUGE_L": 1, "METEOR": 1, "Bleu_4": 1}
  images = {str(key): {"caption": [{"caption": text}], **scores} for key, text in captions.items()}
  for system in _SYSTEMS:
    files.json(folder / f"Data/Systems/result_{system}.txt", {"overall": scores, "imgToEval": images})
  files.text(folder / "Data/Systems/notes.txt", "no results")
  return folder


def test_coco_cn_reads_the_results_viewer_repository(tmp_path):
  recomputed = coco_cn.recompute(_viewer(tmp_path))
  table = by_table(recomputed)["Table 8"]
  assert len(table) == 20 and not recomputed.absent
  printed = {row.what: row.printed for row in table}
  assert printed["AIC-ICC, METEOR"] == "21.3" and printed["Flickr8k-CN, Bleu_4"] == "10.1"
  assert {row.computed for row in table if "ROUGE_L" in row.what} == {100}


def test_coco_cn_names_a_missing_system(tmp_path):
  (_viewer(tmp_path) / "Data/Systems/result_seqlearn.txt").unlink()
  xmcap("published", "coco-cn", f"--results={tmp_path}").succeeded("absent: ", "result_seqlearn.txt")


def test_coco_cn_refuses_other_folders_and_files(tmp_path):
  argv = ("published", "coco-cn", f"--results={tmp_path}")
  xmcap(*argv).refused("no outputs of COCO-CN")
  files.coco(tmp_path / released.REFERENCES.name, {1: ["a"]})
  files.json(tmp_path / "result_coco-cn.txt", {"imgToEval": {"1": {}}})
  xmcap(*argv).refused("no results of COCO-CN")
