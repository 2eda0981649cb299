"""examples/babel_labels.json: people check Babel-ImageNet's labels (section 3), from labels to the share of errors."""

import json
import pathlib

from PIL import Image

from tests.make import files
from tests.make.command import xmcap

RUBRIC = pathlib.Path(__file__).parents[2] / "examples/babel_labels.json"
WNIDS = ("n01440764", "n01443537", "n01484850")
LABELS = {
  "EN": [[0, 1, 2], ["tench", "goldfish", "great white shark"]],
  "DE": [[0, 2], ["Schleie", "Weißer Hai"]],
  "TR": [[0, 1], ["kadife balığı", "akvaryum balığı"]],
}


def test_labels_are_checked_beside_their_english_names(tmp_path):
  labels, wnids = files.json(tmp_path / "in.json", LABELS), files.lines(tmp_path / "wnids.txt", *WNIDS)
  check = tmp_path / "check.jsonl"
  made = [f"--labels={labels}", f"--out={tmp_path / 'labels.json'}", f"--check={check}"]
  xmcap("data", "labels", *made).refused("--check needs --wnids")
  xmcap("data", "labels", *made, f"--wnids={wnids}", "--languages=de").refused("add English")
  xmcap("data", "labels", *made, f"--wnids={wnids}").succeeded("4 labels to check")
  rows = files.rows(check)
  assert rows[1] == {"image/key": "n01484850", "language": "de", "caption": "Weißer Hai = great white shark"}
  (tmp_path / "pictures").mkdir()
  for wnid in WNIDS:
    Image.new("RGB", (8, 8)).save(tmp_path / f"pictures/{wnid}.png")
  page = tmp_path / "page.html"
  options = [f"--protocol={RUBRIC}", "--predictions", f"labels={check}", f"--images={tmp_path / 'pictures'}"]
  xmcap("human", "rate", *options, "--languages=de", f"--out={page}").succeeded("2 captions")
  ratings = [
    {
      **row,
      "protocol": "babel_labels",
      "rater": "anna",
      "system": "labels",
      "error": int("Hai" in row["caption"]),
    }
    for row in rows
  ]
  joined = files.jsonl(tmp_path / "joined.jsonl", *ratings)
  xmcap("human", "rubric", f"--ratings={joined}", f"--out={tmp_path / 'report'}").succeeded("error")
  (report,) = (tmp_path / "report").glob("*.json")
  systems = json.loads(report.read_text())["systems"]
  assert {row["language"]: row["means"]["error"] for row in systems} == {"de": 0.5, "tr": 0}
