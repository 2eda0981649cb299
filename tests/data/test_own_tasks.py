"""The seqio tasks of own pictures are made for the languages that their folder holds."""

import gin
import pytest

from tests import lazily
from xmcap.data import record_writer, registry
from xmcap.data.records import LANGUAGES, Caption, Record
from xmcap.errors import UsageError

seqio = lazily.Module("seqio")


def corpus(folder, codes):
  captions = [Caption(code, f"a ball {code}") for code in codes]
  written = record_writer.write_split(
    folder,
    "train",
    [0],
    lambda _: [Record("a", b"\x89PNG\r\n\x1a\n", captions)],
    dataset="folder",
    processes=1,
  )
  record_writer.write_metadata(folder, [written], dataset="folder")
  (folder / LANGUAGES).write_text("".join(f"{code}\n" for code in codes))
  return folder


def test_register_built_makes_a_task_for_each_language(tmp_path):
  made = registry.register_built("photographs", str(corpus(tmp_path / "one", ["th", "pt-BR"])))
  assert made.languages == ("th", "pt-BR") and made.splits == ("train",)
  assert registry.registration("photographs").rates == {"th": 1.0, "pt-BR": 1.0}
  names = {task.name for task in seqio.get_subtasks(seqio.get_mixture_or_task("photographs"))}
  assert names == {"photographs_th", "photographs_pt_BR"}
  with pytest.raises(UsageError, match="already"):
    registry.register_built("photographs", str(tmp_path / "one"))


def test_own_mixture_follows_the_data_dir_of_gin(tmp_path):
  registry.register_own("albums")
  with gin.unlock_config():
    for name, codes in (("one", ["en"]), ("two", ["de", "pt-BR"])):
      gin.bind_parameter("albums.data_dir", str(corpus(tmp_path / name, codes)))
      assert tuple(registry.registration("albums").rates) == tuple(codes)
  assert "albums_en" not in seqio.TaskRegistry.names()


def test_register_built_refuses_a_folder_without_languages_txt(tmp_path):
  with pytest.raises(UsageError, match="languages.txt is missing"):
    registry.register_built("nothing_there", str(tmp_path))
  # Its name is still free.
  assert registry.register_built("nothing_there", str(corpus(tmp_path / "one", ["th"]))).languages == ("th",)
