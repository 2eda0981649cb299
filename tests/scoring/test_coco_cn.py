"""`xmcap published coco-cn` on the authors' outputs, and on files that were changed."""

import shutil

from tests.scoring import coco_cn as files
from tests.scoring.published_tables import by_table
from xmcap import cli
from xmcap.scoring.published import coco_cn


@files.needs_files
def test_the_captioning_table_comes_out_of_the_outputs(tmp_path, capsys):
  assert cli.main(["published", "coco-cn", f"--results={files.FOLDER}", f"--out={tmp_path}"]) == 0
  tables = by_table(coco_cn.recompute(files.FOLDER))
  deviating = {table: [row.what for row in rows if not row.equal] for table, rows in tables.items()}
  # .2711 is printed as .272, as in the authors' file: the one cell that does not round to the print.
  assert len(tables["Table 8"]) == 12
  assert deviating["Table 8"] == ["COCO-CN, METEOR"]
  assert not deviating["CIDEr of each picture"] and not deviating["ROUGE_L of each picture"]
  assert len(deviating["METEOR of each picture"]) <= 0.01 * 3000
  assert "Table 8: COCO-CN, METEOR: printed 27.2, computed 27.1" in capsys.readouterr().out


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
