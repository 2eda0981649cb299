"""Tables, tokenizers and requests as strangers have them, whole and small."""

import io
import json
import pathlib

import pyarrow as pa
import pyarrow.parquet as pq
import sentencepiece

from tests.corpora import release_pictures
from tests.serving import servers

TABLES = (
  *("stream.arrow", "file.arrow", "zstd.arrow", "lz4.arrow", "nested.arrow"),
  *("plain.parquet", "groups.parquet", "zstd.parquet", "bytes.parquet", "nested.parquet"),
)
TOWERS = ("words", "bpe", "unigram", "pieces", "sentencepiece")
REQUESTS = ("captions.http", "stream.http", "page.http")


def make(folder: pathlib.Path) -> None:
  """Writes tables, tokenizers and requests."""
  for name in ("tables", "towers", "requests"):
    (folder / name).mkdir(parents=True)
  _write_tables(folder / "tables")
  for name in TOWERS:
    (folder / "towers" / name).mkdir()
    _write_tower(folder / "towers" / name, name)
  picture = servers.picture()
  for name, target in zip(
    REQUESTS, ("/v1/captions?languages=en,th", "/v1/captions?languages=all&stream=true", "/"), strict=True
  ):
    body = picture if "captions" in target else b""
    head = f"{'POST' if body else 'GET'} {target} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
    (folder / "requests" / name).write_bytes(head.encode() + body)


def _write_tables(folder: pathlib.Path) -> None:
  features = {"label": {"names": ["cat", "dog"], "_type": "ClassLabel"}, "image": {"_type": "Image"}}
  pictures = [{"bytes": release_pictures.photo(number), "path": f"{number}.jpg"} for number in range(6)]
  table = pa.table(
    {
      "image": pictures,
      "caption": [f"a red ball, {number}" for number in range(6)],
      "language": pa.array(["en", "th"] * 3).dictionary_encode(),
      "label": [0, 1, None, 0, 1, 7],
    }
  ).replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})})
  turns = [
    [{"from": "human", "value": "?"}, {"from": "gpt", "value": f"ball {number}"}] for number in range(6)
  ]
  nested = table.append_column("conversations", pa.array(turns)).append_column(
    "tags", pa.array([["a"], [], None] * 2)
  )
  flat = table.set_column(0, "image", pa.array([picture["bytes"] for picture in pictures], pa.large_binary()))
  for name in TABLES:
    stem, _, ending = name.partition(".")
    of = nested if stem == "nested" else flat if stem == "bytes" else table
    if ending == "arrow":
      packed = stem if stem in ("zstd", "lz4") else None
      new = pa.ipc.new_file if stem in ("file", "lz4") else pa.ipc.new_stream
      with new(folder / name, of.schema, options=pa.ipc.IpcWriteOptions(compression=packed)) as writer:
        writer.write_table(of, max_chunksize=4)
    else:
      options = (
        {"row_group_size": 2} if stem == "groups" else {"compression": stem if stem == "zstd" else "none"}
      )
      pq.write_table(of, folder / name, **options)


def _write_tower(folder: pathlib.Path, name: str) -> None:
  letters = {
    letter: number for number, letter in enumerate(("[UNK]", "</s>", *"abcdefghijklmnopqrstuvwxyz ▁"))
  }
  model = {
    "words": {"type": "WordLevel", "vocab": letters, "unk_token": "[UNK]"},
    "bpe": {"type": "BPE", "vocab": letters | {"do": 40, "dog": 41}, "merges": ["d o", "do g"], "unk_token": "[UNK]"},
    "unigram": {"type": "Unigram", "unk_id": 0, "vocab": [[letter, -1.0 - place] for letter, place in letters.items()]},
    "pieces": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
               "max_input_chars_per_word": 100, "vocab": letters | {"##o": 40, "##og": 41}},
  }.get(name)  # fmt: skip
  if model is None:
    held = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
      sentence_iterator=iter(["a red ball", "two dogs", "the quick brown fox"] * 5), model_writer=held, vocab_size=60,
      hard_vocab_limit=False, pad_id=0, eos_id=1, unk_id=2, bos_id=-1, minloglevel=2,
    )  # fmt: skip
    (folder / "spiece.model").write_bytes(held.getvalue())
  else:
    parts = dict.fromkeys(("truncation", "padding", "normalizer", "post_processor", "decoder"))
    values = {
      "version": "1.0",
      **parts,
      "added_tokens": [],
      "pre_tokenizer": {"type": "Whitespace"},
      "model": model,
    }
    (folder / "tokenizer.json").write_text(json.dumps(values))
  config = {"model_max_length": 16, "padding_side": "right", "pad_token": "[UNK]"}
  (folder / "tokenizer_config.json").write_text(json.dumps(config if model else config | {"pad_token": None}))
