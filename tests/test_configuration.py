"""Gin files and overrides, and one-line errors for invalid ones."""

import re

import gin
import pytest

from xmcap import configuration, gin_files
from xmcap.errors import UsageError


@gin.configurable
def soup_for_tests(salt=1, name=""):
  return salt, name


@pytest.fixture
def files(tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  (tmp_path / "a.gin").write_text(
    "SALT = 2\nNAME = 'x'\nsoup_for_tests.salt = %SALT\nsoup_for_tests.name = %NAME\n"
  )
  return tmp_path


def test_later_files_and_overrides_win(files):
  (files / "b.gin").write_text("SALT = 3\n")
  configuration.parse(["a.gin"])
  assert soup_for_tests() == (2, "x")
  configuration.parse(["a.gin", "b.gin"])
  assert soup_for_tests() == (3, "x")
  configuration.parse(["a.gin", "b.gin"], ["SALT=4", "soup_for_tests.name='y'"])
  assert soup_for_tests() == (4, "y")


@pytest.mark.parametrize(
  "path, name", [("/some/where-1/x.gin", "/some/where-1/x.gin"), ("~/runs/one", "/home/me/runs/one")]
)
def test_a_bare_path_is_a_string(files, monkeypatch, path, name):
  monkeypatch.setenv("HOME", "/home/me")
  configuration.parse(["a.gin"], [f"NAME={path}"])
  assert soup_for_tests() == (2, name)


def test_gin_search_paths_and_packaged_gin_files(files):
  (files / "deep").mkdir()
  (files / "deep" / "c.gin").write_text("include '../a.gin'\nSALT = 5\n")
  configuration.parse(["c.gin"], search=gin_files.Search(["deep"]))
  assert soup_for_tests() == (5, "x")
  configuration.parse(["models/bb.gin"])
  assert configuration.macro("IMAGE_SIZE") == 224


def test_explain_shows_what_was_resolved(files):
  configuration.parse(["a.gin"], ["SALT=7"])
  assert "SALT = 7" in configuration.explain()


@pytest.mark.parametrize(
  "text, overrides, message",
  [
    (
      "soup_for_test.salt = 1",
      [],
      "b.gin, line 1: No configurable matching 'soup_for_test'; did you mean soup_for_tests",
    ),
    ("soup_for_tests.sale = 1", [], "b.gin, line 1: .*parameter named 'sale'; did you mean salt"),
    ("SALT = ", [], "b.gin, line 1: gin cannot read this"),
    ("SALT = 1\nimport xmcap.no.such", [], "b.gin, line 2: No module named 'xmcap.no': install the package"),
    ("SALT = 1", ["SALTY=3"], "--gin.SALTY=3: no gin file defines SALTY; did you mean SALT"),
    ("SALT = 1", ["SALT"], "write --gin.NAME=VALUE"),
    ("SALT = 1\nsoup_for_tests.salt = %SALTS", [], "%SALTS: no gin file defines it; did you mean SALT"),
    ("SALT = 1", ["SALT=@no_such_thing"], "--gin.SALT=@no_such_thing: .*no_such_thing"),
  ],
)
def test_invalid_gin_is_one_line(files, text, overrides, message):
  (files / "b.gin").write_text(text + "\n")
  with pytest.raises(UsageError, match=message) as error:
    configuration.parse(["a.gin", "b.gin"], overrides)
  assert "\n" not in str(error.value)


def test_missing_gin_file_suggests_the_nearest(files):
  with pytest.raises(UsageError, match="models/bd.gin: no such file .*did you mean models/b"):
    configuration.parse(["models/bd.gin"])


def test_resolve_evaluates_references_and_macros(files):
  configuration.parse(["a.gin"], ["soup_for_tests.salt=[@other/soup_for_tests(), %NAME]"])
  with gin.unlock_config():
    gin.parse_config("other/soup_for_tests.salt = 9")
  assert configuration.resolve(gin.query_parameter("soup_for_tests.salt")) == [(9, "x"), "x"]


def test_local_folder_does_not_hide_included_gin_files(tmp_path, monkeypatch):
  # As the quickstart leaves one where it ran; with `python -m` and `xmcap launch` the working folder is on the path.
  monkeypatch.chdir(tmp_path)
  monkeypatch.syspath_prepend(str(tmp_path))
  (tmp_path / "runs").mkdir()
  configuration.parse(["models/tiny.gin", "runs/train_coco35l.gin"])
  assert configuration.macro("MIXTURE")


@pytest.mark.parametrize(
  "override, said",
  [
    ("BATCH_SIZE='many'", "CaptionStream.batch_size = 'many' (from BATCH_SIZE): give int"),
    ("TARGET_LENGTH=NaN", "CaptionStream.target_length = 'NaN' (from TARGET_LENGTH): give int"),
    ("CaptionStream.temperature=True", "CaptionStream.temperature = True: give float"),
    (
      "CaptionStream.target_lengths=(16, 'x')",
      "CaptionStream.target_lengths = (16, 'x'): give collections.abc.Sequence[int]",
    ),
    ("CaptionStream.workers=1.5", "CaptionStream.workers = 1.5: give int | None"),
    ("ViTConfig.remat=True", "ViTConfig.remat = True: give 'full'"),
    ("T5Config.remat=False", "T5Config.remat = False: give 'no'"),
    ("CaptionStream.mixture=3", "CaptionStream.mixture = 3: give str"),
    ("ViTConfig.width='\x1b[31m'", "ViTConfig.width = '\\x1b[31m': give int"),
  ],
)
def test_gin_value_of_a_wrong_type_is_named_with_its_macro(override, said):
  with pytest.raises(UsageError, match=re.escape(said)):
    configuration.parse(["models/bb.gin", "runs/train_coco35l.gin"], [override])


@pytest.mark.parametrize(
  "override",
  ["CaptionStream.temperature=2", "CaptionStream.workers=None", "CaptionStream.target_lengths=[16, 32]",
   "TOTAL_STEPS=@epochs()", "PRETRAINED=[('a', 'vit')]", "BATCH_SIZE=%CAPTIONS_PER_IMAGE"],
)  # fmt: skip
def test_gin_value_of_a_possible_type_is_accepted(override):
  configuration.parse(["models/bb.gin", "runs/train_coco35l.gin"], [override])


def test_explain_names_modules_and_the_defaults_that_matter(capsys):
  from xmcap import cli

  assert (
    cli.main(["train", "--gin_file=models/bb.gin", "--gin_file=runs/train_coco35l.gin", "--explain"]) == 0
  )
  text = capsys.readouterr().out
  assert "import xmcap.training.loop\n" in text and " as xmcap" not in text
  said = [line[2:] for line in text.splitlines() if line.startswith("# ") and " = " in line]
  for line in ("Partitioning.model = 1", "T5Config.remat = 'no'", "ViTConfig.dtype = 'auto'",
               "Predictor.search = Greedy()", "train.seed = 0"):  # fmt: skip
    assert line in said
  assert not [
    line for line in said if line.startswith(("Partitioning.fsdp =", "ViTConfig.pool"))
  ]  # bb.gin sets them
