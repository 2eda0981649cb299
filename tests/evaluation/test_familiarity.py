"""`familiar.json`: what an evaluation leaves, and of which pictures captions are then doubted."""

import json

import gin
import pytest

from tests import model_folders
from xmcap import cli
from xmcap.errors import UsageError
from xmcap.evaluation import familiarity


@pytest.fixture
def known(tmp_path):
  found = {(str(number), code): number / 200 for number in range(200) for code in ("en", "th")}
  assert familiarity.write(tmp_path, found) == ""
  return tmp_path


def test_a_picture_below_nearly_all_is_named(known):
  least = familiarity.read(known)
  assert least == pytest.approx({"en": 0.00995, "th": 0.00995})
  assert "0.00" in familiarity.unlike(least, {("a", "en"): 0.001}, "a", ["en"])
  assert not familiarity.unlike(least, {("a", "en"): 0.5}, "a", ["en"])
  assert not familiarity.unlike(least, {("a", "de"): 0.0}, "a", ["de"]), "no language of the evaluation"
  # The mean over languages decides.
  assert not familiarity.unlike(least, {("a", "en"): 0.0, ("a", "th"): 0.5}, "a", ["en", "th"])


def test_few_pictures_say_nothing(tmp_path):
  familiarity.write(tmp_path, {("a", "en"): 0.5})
  assert familiarity.read(tmp_path) == {}


@pytest.mark.parametrize("text", ["[", "{}", '{"format": "xmcap.familiar", "least": {"en": "x"}}'])
def test_another_file_is_refused_in_one_line(tmp_path, text):
  (tmp_path / familiarity.NAME).write_text(text)
  with pytest.raises(UsageError, match=r"familiar.json"):
    familiarity.read(tmp_path)


def test_caption_warns_where_the_folder_knows_better(tmp_path, capsys):
  folder, picture = model_folders.write(tmp_path / "model"), model_folders.picture(tmp_path)
  command = ["caption", f"--model_dir={folder}", "--languages=en", str(picture)]
  for least, warned in ((None, False), (0.0, False), (1.0, True)):
    gin.clear_config()
    if least is not None:
      values = {"format": "xmcap.familiar", "version": 1, "least": {"en": least}}
      (folder / familiarity.NAME).write_text(json.dumps(values))
    capsys.readouterr()
    assert cli.main(command) == 0
    assert ("may be unlike" in capsys.readouterr().err) == warned
  gin.clear_config()
