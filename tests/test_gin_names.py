"""Misspelled names of gin are found without imports. The gin reference checks that the source says what gin knows."""

import pytest

from xmcap import configuration, gin_files
from xmcap.errors import UsageError

_RUN = ["models/tiny.gin", "data/emoji36.gin", "runs/train.gin"]


@pytest.mark.parametrize(
  "override",
  ["CaptionStream.seed=1", "validation/CaptionStream.split='a'", "a/b/xmcap.data.stream.CaptionStream.seed=1",
   "emoji36.data_dir=x", "gin.singleton.constructor=@Beam", "CaptionStream.nothing"],
)  # fmt: skip
def test_check_names_accepts_possible_names(override):
  configuration.check_names(_RUN, [override])


@pytest.mark.parametrize("line", ["import mine.corpus", "from mine import corpus", "  import mine"])
def test_check_names_accepts_names_of_imported_modules(tmp_path, line):
  (tmp_path / "own.gin").write_text(f"{line}\n")
  files, search = [*_RUN, str(tmp_path / "own.gin")], gin_files.Search(allow_import=True)
  configuration.check_names(files, ["MyStream.size=1"], search)
  with pytest.raises(UsageError, match="did you mean seed"):
    configuration.check_names(files, ["CaptionStream.sede=1"], search)


def test_check_names_gives_the_message_of_parse():
  for override in ("CaptionStream.sede=1", "CaptoinStream.seed=1"):
    said = []
    for look in (configuration.check_names, configuration.parse):
      with pytest.raises(UsageError) as error:
        look(_RUN, [override])
      said.append(str(error.value))
    assert said[0] == said[1]
