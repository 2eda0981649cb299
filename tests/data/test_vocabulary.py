import io
import pickle

import numpy as np
import pytest
import sentencepiece

from tests import lazily
from xmcap.data.vocabulary import Vocabulary, train_vocabulary
from xmcap.errors import UsageError, XmcapError
from xmcap.languages import LANGUAGES

seqio = lazily.Module("seqio")

SENTENCES = [
  "a red apple and a green frog",
  "ein roter Apfel und ein grüner Frosch",
  "แอปเปิลสีแดงและกบสีเขียวทำอาหาร",
  "تفاحة حمراء وضفدع أخضر",
  "红苹果和绿青蛙",
  "سیب قرمز و قورباغهٔ سبز می\u200cپرد",
]


@pytest.fixture(scope="module")
def text_file(tmp_path_factory) -> str:
  path = tmp_path_factory.mktemp("text") / "text.txt"
  path.write_text("\n".join(SENTENCES * 5), encoding="utf-8")
  return str(path)


@pytest.fixture(scope="module")
def vocabulary(text_file, tmp_path_factory) -> Vocabulary:
  return train_vocabulary(text_file, str(tmp_path_factory.mktemp("model") / "v.model"), size=450)


def foreign_model(path, **options) -> str:
  """A SentencePiece model that was not made by `train_vocabulary`."""
  model = io.BytesIO()
  sentencepiece.SentencePieceTrainer.train(
    sentence_iterator=iter(SENTENCES * 5),
    model_writer=model,
    vocab_size=150,
    hard_vocab_limit=False,
    minloglevel=2,
    **options,
  )
  path.write_bytes(model.getvalue())
  return str(path)


@pytest.mark.parametrize("text", SENTENCES)
def test_vocabulary_round_trip_of_text(vocabulary, text):
  assert vocabulary.decode(vocabulary.encode(text)) == text


def test_unseen_characters_are_spelt_in_bytes(vocabulary):
  ids = vocabulary.encode("ქ𝄞")
  assert 2 not in ids
  assert vocabulary.decode(ids) == "ქ𝄞"


def test_special_ids_are_those_of_mt5(vocabulary):
  processor = sentencepiece.SentencePieceProcessor(model_file=vocabulary.path)
  assert (processor.pad_id(), processor.eos_id(), processor.unk_id(), processor.bos_id()) == (0, 1, 2, -1)
  assert vocabulary.size == processor.get_piece_size()


def test_decoding_stops_at_the_end_and_drops_pads(vocabulary):
  ids = vocabulary.encode("a red apple")
  assert vocabulary.decode([0, *ids, 1, *ids, 0]) == "a red apple"
  assert vocabulary.decode(np.array([*ids, 1, 0, 0], np.int32)) == "a red apple"
  assert vocabulary.decode([]) == vocabulary.decode([1]) == ""


def test_ids_of_rows_without_a_piece_are_decoded_as_unknown(vocabulary):
  assert vocabulary.size < vocabulary.rows
  assert vocabulary.decode([vocabulary.rows - 1]) == vocabulary.decode([2])


def test_encode_all_equals_encode(vocabulary):
  assert vocabulary.encode_all(SENTENCES) == [vocabulary.encode(text) for text in SENTENCES]
  assert vocabulary.encode_all([]) == []


def test_every_language_has_a_prompt_of_one_piece(vocabulary):
  prompts = [vocabulary.prompt(language) for language in LANGUAGES]
  assert all(len(prompt) == 1 and 2 < prompt[0] < vocabulary.size for prompt in prompts)
  assert len({prompt[0] for prompt in prompts}) == 36
  assert vocabulary.decode(vocabulary.prompt("th")).strip() == "<th>"


def test_a_model_without_language_pieces_spells_the_code(tmp_path):
  path = foreign_model(tmp_path / "mt5.model", pad_id=0, eos_id=1, unk_id=2, bos_id=-1, byte_fallback=False)
  vocabulary = Vocabulary(path)
  assert vocabulary.prompt("en") == vocabulary.encode("en")
  assert vocabulary.prompt("en") != vocabulary.prompt("de")


def test_prompt_of_an_unknown_language_is_refused(vocabulary):
  with pytest.raises(UsageError, match="unknown language 'xx'"):
    vocabulary.prompt("xx")


@pytest.mark.parametrize("size, rows", [(250_100, 250_112), (4_096, 4_096), (4_097, 4_224)])
def test_rows_are_a_multiple_of_128(vocabulary, monkeypatch, size, rows):
  monkeypatch.setattr(Vocabulary, "size", size)
  assert vocabulary.rows == rows


def test_train_vocabulary_is_deterministic(text_file, tmp_path, vocabulary):
  train_vocabulary(text_file, str(tmp_path / "deep" / "again.model"), size=450)
  with open(vocabulary.path, "rb") as file:
    assert (tmp_path / "deep" / "again.model").read_bytes() == file.read()
  assert [path.name for path in (tmp_path / "deep").iterdir()] == ["again.model"]


def test_seqio_gives_the_same_ids(vocabulary):
  other = seqio.SentencePieceVocabulary(vocabulary.path)
  assert other.vocab_size == vocabulary.size
  for text in SENTENCES:
    assert list(other.encode(text)) == vocabulary.encode(text)
    assert other.encode_tf(text).numpy().tolist() == vocabulary.encode(text)


def test_vocabulary_pickles_as_its_path(vocabulary):
  data = pickle.dumps(vocabulary)
  assert len(data) < 1000
  assert pickle.loads(data).encode("a red apple") == vocabulary.encode("a red apple")


@pytest.mark.parametrize("content", [None, b"", b"no model", b"\x0a\xff\xff\xff\xff", b"PK\x03\x04" * 50])
def test_missing_or_invalid_sentencepiece_model_is_refused(tmp_path, content):
  path = tmp_path / "bad.model"
  if content is not None:
    path.write_bytes(content)
  message = "bad.model.*No such file" if content is None else "bad.model: not a SentencePiece model"
  with pytest.raises(UsageError, match=message) as error:
    Vocabulary(str(path))
  assert "\n" not in str(error.value)


def test_vocabulary_over_256_mib_is_refused(tmp_path):
  path = tmp_path / "large.model"
  with open(path, "wb") as file:
    file.truncate((256 << 20) + 1)
  with pytest.raises(UsageError, match="large.model: 268,435,457 bytes; .* at most 268,435,456") as error:
    Vocabulary(str(path))
  assert "\n" not in str(error.value)


def test_other_special_ids_are_refused(tmp_path):
  path = foreign_model(tmp_path / "other.model")  # SentencePiece's own: unknown 0, begin 1, end 2
  with pytest.raises(UsageError, match="other.model: the ids of padding, EOS and unknown are"):
    Vocabulary(path)


@pytest.mark.parametrize(
  ("content", "size", "message"),
  [
    (b"good\nbad \xff\n", 400, "text.txt, line 2: not UTF-8"),
    (b"", 400, "text.txt: no text"),
    (b"\n \n", 400, "text.txt: no text"),
    (None, 400, "text.txt: cannot be read"),
    ("\n".join(SENTENCES * 5).encode(), 100, "cannot train a vocabulary of 100 pieces"),
  ],
)
def test_train_vocabulary_refuses_unusable_text(tmp_path, content, size, message):
  if content is not None:
    (tmp_path / "text.txt").write_bytes(content)
  with pytest.raises(UsageError, match=message):
    train_vocabulary(str(tmp_path / "text.txt"), str(tmp_path / "v.model"), size=size)
  assert not (tmp_path / "v.model").exists()


def test_train_vocabulary_refuses_an_unwritable_folder(text_file, tmp_path):
  (tmp_path / "file").write_text("in the way")
  with pytest.raises(XmcapError, match="cannot make the folder .*file: "):
    train_vocabulary(text_file, str(tmp_path / "file" / "v.model"), size=450)


def test_vocabulary_is_read_from_a_bucket(vocabulary, store):
  with open(vocabulary.path, "rb") as file:
    (store.folder / "spiece.model").write_bytes(file.read())
  remote = Vocabulary("gs://bucket/spiece.model")
  assert remote.encode("a red apple") == vocabulary.encode("a red apple")
  with pytest.raises(UsageError, match="gs://bucket/none.model: the vocabulary cannot be read") as error:
    Vocabulary("gs://bucket/none.model")
  assert "\n" not in str(error.value)
