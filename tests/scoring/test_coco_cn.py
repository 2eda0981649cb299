"""`xmcap published coco-cn` on the authors' outputs, and on files that were changed."""

import json
import shutil

from tests.scoring import coco_cn as files
from xmcap import cli
from xmcap.scoring.published import coco_cn


@files.needs_files
def test_the_captioning_table_comes_out_of_the_outputs(tmp_path, capsys):
  assert cli.main(["published", "coco-cn", f"--results={files.FOLDER}", f"--out={tmp_path}"]) == 0
  checks = {check.table: check for check in coco_cn.recompute(files.FOLDER).checks}
  table = checks["Table 8"]
  # .2711 is printed as .272, as in the authors' file: the one cell that does not round to the print.
  assert len(table.cells) == 12
  assert [(cell.model, cell.name) for cell in table.deviations] == [("COCO-CN", "METEOR")]
  assert not checks["CIDEr of each picture"].deviations and not checks["ROUGE_L of each picture"].deviations
  assert len(checks["METEOR of each picture"].deviations) <= 0.01 * 3000
  assert "Table 8: COCO-CN, METEOR: printed 27.2, recomputed 27.1" in capsys.readouterr().out


def test_the_repository_of_the_outputs_is_read_as_it_is(tmp_path):
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
  table = found.checks[0]
  assert table.table == "Table 8" and len(table.cells) == 20 and not found.absent
  printed = {(cell.model, cell.name): cell.printed for cell in table.cells}
  assert printed["AIC-ICC", "METEOR"] == 21.3 and printed["Flickr8k-CN", "Bleu_4"] == 10.1
  assert {cell.recomputed for cell in table.cells if cell.name == "ROUGE_L"} == {100}


@files.needs_files
def test_a_missing_system_is_named(tmp_path, capsys):
  for path in files.FOLDER.iterdir():
    if "seqlearn" not in path.name:
      shutil.copyfile(path, tmp_path / path.name)
  assert cli.main(["published", "coco-cn", f"--results={tmp_path}"]) == 0
  assert "absent: " in (text := capsys.readouterr().out) and "result_seqlearn.txt" in text


def test_another_folder_or_file_is_refused(tmp_path, capsys):
  assert cli.main(["published", "coco-cn", f"--results={tmp_path}"]) == 2
  assert "no outputs of COCO-CN" in capsys.readouterr().err
  (tmp_path / files.REFERENCES.name).write_text(
    '{"images": [{"id": 1}], "annotations": [{"image_id": 1, "caption": "a"}]}'
  )
  (tmp_path / "result_coco-cn.txt").write_text('{"imgToEval": {"1": {}}}')
  assert cli.main(["published", "coco-cn", f"--results={tmp_path}"]) == 2
  error = capsys.readouterr().err
  assert error.count("\n") == 1 and "no results of COCO-CN" in error
