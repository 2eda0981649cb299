"""`xmcap published coco-cn` on the authors' outputs, and on changed or missing files."""

import json
import shutil

from tests.published import coco_cn as files
from tests.published.published_tables import by_table
from xmcap import cli
from xmcap.published import coco_cn


@files.needs_files
def test_coco_cn_table_8_equals_the_released_outputs(tmp_path, capsys):
  assert cli.main(["published", "coco-cn", f"--results={files.FOLDER}", f"--out={tmp_path}"]) == 0
  tables = by_table(coco_cn.recompute(files.FOLDER))
  deviating = {table: [row.what for row in rows if not row.equal] for table, rows in tables.items()}
  # .2711 is printed as .272, as in the authors' file: the one cell that does not round to the print.
  assert len(tables["Table 8"]) == 12
  assert deviating["Table 8"] == ["COCO-CN, METEOR"]
  assert not deviating["CIDEr of each picture"] and not deviating["ROUGE_L of each picture"]
  assert len(deviating["METEOR of each picture"]) <= 0.01 * 3000
  assert "Table 8: COCO-CN, METEOR: printed 27.2, computed 27.1" in capsys.readouterr().out


def test_coco_cn_reads_the_results_viewer_repository(tmp_path):
  """COCO-CN-Results-Viewer has the references in Data/COCO and five systems in Data/Systems: 20 cells."""
  captions = {8: "一个 女人 在 街道 上", 14: "两 只 狗"}
  references, outputs = tmp_path / "Data" / "COCO", tmp_path / "Data" / "Systems"
  references.mkdir(parents=True), outputs.mkdir()
  annotations = [{"image_id": key, "id": 1, "caption": text} for key, text in captions.items()]
  (references / files.REFERENCES.name).write_text(
    json.dumps({"images": [{"id": key} for key in captions], "annotations": annotations})
  )
  scores = {"CIDEr": 1, "ROUGE_L": 1, "METEOR": 1, "Bleu_4": 1}
  held = {str(key): {"caption": [{"caption": text}], **scores} for key, text in captions.items()}
  for system in ("flickr8k-cn", "aic-icc", "coco-mt", "coco-cn", "seqlearn"):
    (outputs / f"result_{system}.txt").write_text(json.dumps({"overall": scores, "imgToEval": held}))
  (outputs / "notes.txt").write_text("no results")
  found = coco_cn.recompute(tmp_path)
  table = by_table(found)["Table 8"]
  assert len(table) == 20 and not found.absent
  printed = {row.what: row.printed for row in table}
  assert printed["AIC-ICC, METEOR"] == "21.3" and printed["Flickr8k-CN, Bleu_4"] == "10.1"
  assert {row.computed for row in table if "ROUGE_L" in row.what} == {100}


@files.needs_files
def test_coco_cn_names_a_missing_system(tmp_path, capsys):
  for path in files.FOLDER.iterdir():
    if "seqlearn" not in path.name:
      shutil.copyfile(path, tmp_path / path.name)
  assert cli.main(["published", "coco-cn", f"--results={tmp_path}"]) == 0
  assert "absent: " in (text := capsys.readouterr().out) and "result_seqlearn.txt" in text


def test_coco_cn_refuses_other_folders_and_files(tmp_path, capsys):
  assert cli.main(["published", "coco-cn", f"--results={tmp_path}"]) == 2
  assert "no outputs of COCO-CN" in capsys.readouterr().err
  (tmp_path / files.REFERENCES.name).write_text(
    '{"images": [{"id": 1}], "annotations": [{"image_id": 1, "caption": "a"}]}'
  )
  (tmp_path / "result_coco-cn.txt").write_text('{"imgToEval": {"1": {}}}')
  assert cli.main(["published", "coco-cn", f"--results={tmp_path}"]) == 2
  error = capsys.readouterr().err
  assert error.count("\n") == 1 and "no results of COCO-CN" in error
