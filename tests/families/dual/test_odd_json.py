"""Untrusted tokenizer.json files: a panic of Rust or an endless text is one line."""

import io
import json

import pytest
import sentencepiece
import tokenizers

from xmcap.errors import UsageError
from xmcap.families.dual import odd_json, text_input, tokenizer_files

_VOCABULARY = {"[UNK]": 0, "a": 1, "b": 2, "</s>": 3}


def described(**parts):
  """A tokenizer.json of words, with some parts replaced."""
  model = {"type": "WordLevel", "unk_token": "[UNK]", "vocab": _VOCABULARY} | parts.pop("model", {})
  names = ("truncation", "padding", "normalizer", "post_processor", "decoder")
  values = {"version": "1.0", "added_tokens": [], "pre_tokenizer": {"type": "Whitespace"}, "model": model}
  return dict.fromkeys(names) | values | parts


def template(ids=(3,), known=("</s>",)):
  tokens = {name: {"id": name, "ids": list(ids), "tokens": ["x"] * len(ids)} for name in known}
  single = [{"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "</s>", "type_id": 0}}]
  pair = [*single, {"Sequence": {"id": "B", "type_id": 0}}]
  return {"type": "TemplateProcessing", "single": single, "pair": pair, "special_tokens": tokens}


def replace(pattern, content, kind="String"):
  return {"type": "Replace", "pattern": {kind: pattern}, "content": content}


def read(tmp_path, values):
  path = tmp_path / tokenizer_files.TOKENIZER
  path.write_text(json.dumps(values))
  return tokenizer_files.read_tokenizer(path)


def guarded(tmp_path, values, length=8):
  read(tmp_path, values)
  inner = text_input.TokenizerJson(tmp_path / tokenizer_files.TOKENIZER, length, 0)
  return text_input.Guarded(inner, tmp_path)


@pytest.mark.parametrize(
  ("parts", "why"),
  [
    ({"model": {"unk_token": "zzz"}}, "its token for unknown pieces, zzz, is not in its vocabulary"),
    ({"model": {"type": "BPE", "dropout": 0.5, "merges": []}}, "at random (dropout 0.5)"),
    ({"post_processor": template(known=())}, "its template adds </s>, which it does not define"),
    (
      {"post_processor": {"type": "Sequence", "processors": [template(known=())]}},
      "its template adds </s>, which it does not define",
    ),
    ({"normalizer": replace("a", "a" * 100)}, "up to 100 times as long"),
    (
      {"normalizer": {"type": "Sequence", "normalizers": [replace("a", "a" * 10)] * 5}},
      "up to 100,000 times",
    ),
    ({"normalizer": replace("x*", "y" * 80, "Regex")}, "up to 81 times"),
    ({"normalizer": {"type": "Prepend", "prepend": "p" * 100}}, "up to 101 times"),
    (
      {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Whitespace"}] * 3000}},
      "its pre_tokenizer has 3,001 steps",
    ),
    ({"post_processor": template([3] * 600)}, "its template adds 1,200 tokens to a text"),
    (
      {"normalizer": {"type": "Precompiled", "precompiled_charsmap": "////////////"}},
      "no tokenizer of Hugging Face",
    ),
    ({"model": {"type": "Unheard"}}, "no tokenizer of Hugging Face"),
  ],
)
def test_malformed_tokenizer_json_is_refused(tmp_path, capfd, parts, why):
  with pytest.raises(UsageError) as error:
    read(tmp_path, described(**parts))
  assert why in str(error.value) and "\n" not in str(error.value)
  assert capfd.readouterr().err == ""


def test_tokenizer_json_over_the_size_limit_is_refused(tmp_path):
  path = tmp_path / "tokenizer.json"
  with open(path, "wb") as file:
    file.truncate(2**26 + 1)
  with pytest.raises(
    UsageError, match="tokenizer.json: 67,108,865 bytes; a tokenizer has 67,108,864 at most"
  ):
    tokenizer_files.read_tokenizer(path)


def test_tokenizer_json_that_cannot_encode_is_refused(tmp_path, capfd):
  values = described(model={"type": "Unigram", "unk_id": None, "vocab": [["x", 0.0]]})
  values["model"].pop("unk_token")
  with pytest.raises(UsageError, match="its tokenizer cannot split texts .*fetch it again"):
    guarded(tmp_path, values)
  assert capfd.readouterr().err == ""


def test_valid_tokenizer_json_is_read(tmp_path):
  assert guarded(tmp_path, described()).encode_all(["a b", "b"]) == ([[1, 2], [2]], 0)


def test_tokenizer_special_tokens_count_towards_the_length(tmp_path):
  many = guarded(tmp_path, described(post_processor=template([3] * 6)), length=4)
  assert [len(ids) for ids in many.encode_all(["a b", "b"])[0]] == [4, 4]


@pytest.mark.parametrize(
  "normalizer",
  [
    tokenizers.normalizers.Sequence([tokenizers.normalizers.NFKC(), tokenizers.normalizers.Lowercase()]),
    tokenizers.normalizers.Replace(" ", "▁"),
    tokenizers.normalizers.Sequence(
      [tokenizers.normalizers.NFC(), tokenizers.normalizers.Replace(tokenizers.Regex(r"\s+"), " ")]
    ),
  ],
)
def test_tokenizer_normalizers_of_published_towers_are_accepted(normalizer):
  made = tokenizers.Tokenizer(tokenizers.models.WordLevel(_VOCABULARY, "[UNK]"))
  made.normalizer = normalizer
  assert odd_json.oddity(json.loads(made.to_str())) == ""


def test_sentencepiece_model_without_eos_is_refused(tmp_path):
  """Its id would be -1, the last row of the embedding."""
  held = io.BytesIO()
  sentencepiece.SentencePieceTrainer.train(
    sentence_iterator=iter(["a red ball", "two dogs"] * 5), model_writer=held, vocab_size=40, eos_id=-1,
    hard_vocab_limit=False, minloglevel=2,
  )  # fmt: skip
  (tmp_path / "spiece.model").write_bytes(held.getvalue())
  with pytest.raises(UsageError, match="spiece.model: has no token that ends a text: fetch it again"):
    text_input.SiglipPieces(tmp_path / "spiece.model", 8)


def test_tokenizer_encodes_long_texts_in_small_batches(tmp_path, monkeypatch):
  """Each of them may become 64 times as long."""
  tokenizer = guarded(tmp_path, described())
  sizes, encode_all = [], tokenizer._tokenizer.encode_all
  monkeypatch.setattr(
    tokenizer._tokenizer,
    "encode_all",
    lambda texts, language: (sizes.append(len(texts)), encode_all(texts, language))[1],
  )
  texts = ["a", "a b a b a b a b a b", "b" * 40_000, "a b " * 3000, "b " * 10_000, ""]
  assert tokenizer.encode_all(texts) == ([[1], [1, 2] * 4, [0], [1, 2] * 4, [2] * 8, []], 3)
  assert sizes == [2, 1, 3]
