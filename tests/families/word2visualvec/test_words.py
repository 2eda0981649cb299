"""Words with vectors: how captions are split, and the files of `xmcap data words`."""

import numpy as np
import pytest
from etils import epath

from tests import word_folders
from xmcap.data import features
from xmcap.data.features import Features
from xmcap.errors import UsageError
from xmcap.families.word2visualvec import words


def test_released_tokens_are_kept_and_other_captions_split():
  texts, tokenized = (
    ["一只小狗在沙滩上", "一只小狗在沙滩上", "A Dog, a cat!"],
    ["一只 小 狗 在 沙滩 上 。", "", " "],
  )
  assert words.split("zh", texts[:2], tokenized[:2])[0] == ["一只", "小", "狗", "在", "沙滩", "上"]
  assert "".join(words.split("zh", texts[:2], tokenized[:2])[1]) == texts[0]
  assert words.split("en", texts[2:], tokenized[2:]) == [["a", "dog", "a", "cat"]]
  assert words.split("en", [], []) == []


def test_word_ids_continue_across_languages(tmp_path):
  folder = word_folders.write(tmp_path, en=["a", "dog", "cat"], zh=["狗", "猫"])
  held = words.read(folder, ("zh", "en"))
  assert len(held) == 5 and held.by_language == {"zh": ("狗", "猫"), "en": ("a", "dog", "cat")}
  assert [numbers.tolist() for numbers in held.encode("en", ["The cat", "A dog a cat", "?"])] == [
    [4],
    [2, 3, 2, 4],
    [],
  ]
  assert held.encode("zh", ["狗和猫"], ["狗 和 猫"])[0].tolist() == [0, 1]
  english = features.read(tmp_path / "en.safetensors")
  np.testing.assert_array_equal(held.vectors[2:], english.vectors)
  with pytest.raises(UsageError, match="no words in 'de', only in zh, en"):
    held.encode("de", ["Hund"])


def test_word_folder_digest_changes_with_its_contents(tmp_path):
  folder = word_folders.write(tmp_path / "one", en=["a", "dog"])
  held = words.read(folder, ("en",))
  words.copy_to(epath.Path(tmp_path / "two"), held)
  assert words.read(tmp_path / "two", ("en",)).sha256 == held.sha256
  word_folders.write(tmp_path / "one", en=["a", "cat"])
  assert words.read(folder, ("en",)).sha256 != held.sha256


def test_word_folder_of_another_tokenizer_is_warned_of(tmp_path, caplog):
  features.write(
    tmp_path / "en.safetensors",
    Features(("a",), np.ones((1, 2), np.float32)),
    metadata={words.SPLITTER: "other"},
  )
  words.read(tmp_path, ("en",))
  assert "its captions were split by other" in caplog.text


def _pickled(path):
  path.write_bytes(b"\x80\x04\x95")


@pytest.mark.parametrize(
  ("change", "message"),
  [
    (lambda path: path.unlink(), "zh.safetensors: no such file: `xmcap data words` makes it"),
    (_pickled, "a pickle, which can run code"),
    (lambda path: path.write_bytes(path.read_bytes()[:-4]), "not a complete safetensors file"),
    (
      lambda path: word_folders.write(path.parent, width=4, zh=["狗"]),
      "different widths \\(3 in 'en', 4 in 'zh'\\)",
    ),
  ],
)
def test_malformed_word_folder_is_refused(tmp_path, change, message):
  folder = word_folders.write(tmp_path, en=["a", "dog"], zh=["狗", "猫"])
  change(tmp_path / "zh.safetensors")
  with pytest.raises(UsageError, match=message) as error:
    words.read(folder, ("en", "zh"))
  assert "\n" not in str(error.value)
