"""Size limits of the small JSON files of a checkpoint."""

import pytest
from etils import epath

from xmcap.training.checkpoints import checksums, retention, settings, small_json

SUMS = "{}"
SETTINGS = '{"bindings": {}, "data": {}}'
NOTE = '{"metric": null, "value": null, "score": null}'


@pytest.fixture
def write(tmp_path, monkeypatch):
  """Writes a file that is as large as the limit allows, or so many bytes larger; returns the folder."""

  def written(name, text, more=0):
    monkeypatch.setattr(small_json, "MOST_BYTES", len(text))
    file = epath.Path(tmp_path) / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(text + " " * more)
    return epath.Path(tmp_path)

  return written


@pytest.mark.parametrize(
  "name, text, read",
  [(settings.NAME, SETTINGS, settings.read), (retention.NOTE, NOTE, retention.read_note)],
)
def test_checkpoint_json_over_the_size_limit_is_refused(write, name, text, read):
  assert read(write(name, text)) is not None
  with pytest.raises(ValueError, match=f"{name}: more than {len(text)} bytes$"):
    read(write(name, text, more=1))


def test_checksums_over_the_size_limit_are_damage(write):
  assert checksums.difference(write(checksums.NAME, SUMS)) is None
  folder = write(checksums.NAME, SUMS, more=1)
  assert checksums.difference(folder) == f"{folder / checksums.NAME} is damaged"
