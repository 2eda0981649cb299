"""What the tokenizer files beside a pretrained text tower say: which tokenizer, its padding, its end, its longest text.

They are those of transformers (tokenizer.json, tokenizer_config.json, special_tokens_map.json) and models of
SentencePiece.
"""

import contextlib
import dataclasses
import pathlib
from collections.abc import Iterator
from typing import Any

import msgspec
import sentencepiece

from xmcap import quiet
from xmcap.data.vocabulary import read_model
from xmcap.errors import UsageError, XmcapError, one_line
from xmcap.families.dual import odd_json
from xmcap.files import strict_json
from xmcap.terminal import shown

TOKENIZER = "tokenizer.json"
"""File name of a transformers tokenizer, such as CLIP's and XLM-R's."""
CONFIG = "tokenizer_config.json"
SIGLIP = "spiece.model"
"""File name of SigLIP's SentencePiece model, which expects lower-case text without punctuation."""
MODELS = (SIGLIP, "tokenizer.model", "gemma_tokenizer.model")
"""File names of SentencePiece models: SigLIP's, and Gemma's on the hub and at big_vision."""
_MAP = "special_tokens_map.json"
_LARGEST = 2**26  # limit for a file in bytes; XLM-R's tokenizer.json has 9 million, NLLB's 17, Gemma's 34
_LONGEST = 2**20  # transformers writes 10**30 for a tokenizer without a limit
_FLAGS = ("add_bos_token", "add_eos_token")
_GEMMA_ROWS = 256_000  # embeddings of SigLIP 2's published text towers


@dataclasses.dataclass(frozen=True)
class Described:
  """A tokenizer by its files.

  Attributes:
    files: those that xmcap reads.
    kind: `tokenizer_class` without `Fast`; "" if it is not said.
    gemma: whether the pieces are Gemma's (SigLIP 2) by that name or, if it is not said, by their model.
    pad_id, end_id: ids of the tokens that pad and that end a text; None if unknown.
    left: whether it pads at the left.
    most: largest number of tokens of a text; None if unlimited.
    lower: the value of `do_lower_case`; True if it is not said.
    template: the tokens before and after a text, by `add_bos_token` and `add_eos_token`; None if they are not said.
  """

  files: tuple[pathlib.Path, ...] = ()
  kind: str = ""
  gemma: bool = False
  pad_id: int | None = None
  end_id: int | None = None
  left: bool = False
  most: int | None = None
  lower: bool = True
  template: tuple[str, str] | None = None

  def model(self) -> pathlib.Path | None:
    """The SentencePiece model to read the texts with, or None; SigLIP's class reads no tokenizer.json."""
    model = next((file for file in self.files if file.name in MODELS), None)
    has_json = any(file.name == TOKENIZER for file in self.files)
    return None if has_json and self.kind not in ("", "SiglipTokenizer") else model

  def has_gemmas_pieces(self, vocab_size: int) -> bool:
    """Whether the pieces are Gemma's (SigLIP 2): by the files or, without any, by the rows of the embedding."""
    return self.gemma if self.files else vocab_size == _GEMMA_ROWS

  def siglip_ids(self, vocab_size: int) -> tuple[int, int]:
    """The ids that pad and that end SigLIP's texts; if the files do not say so, SigLIP 1 pads with the end, 1."""
    usual = 0 if self.has_gemmas_pieces(vocab_size) else 1
    return usual if self.pad_id is None else self.pad_id, 1 if self.end_id is None else self.end_id


def describe(folder: pathlib.Path) -> Described:
  """Describes the tokenizer in a folder; UsageError if its files are damaged or contradict each other."""
  files = tuple(folder / name for name in (TOKENIZER, *MODELS, CONFIG, _MAP) if (folder / name).is_file())
  about = {**_object(folder / _MAP), **_object(folder / CONFIG)}
  kind = str(about.get("tokenizer_class") or "").removesuffix("Fast")
  most = about.get("model_max_length")
  described = Described(
    files, kind, kind in ("GemmaTokenizer", "Siglip2Tokenizer"), left=about.get("padding_side") == "left",
    most=int(most) if isinstance(most, int | float) and 0 < most < _LONGEST else None,
    lower=bool(about.get("do_lower_case", True)),
  )  # fmt: skip
  pad, end, begin = (_token(about.get(f"{name}_token")) for name in ("pad", "eos", "bos"))
  if any(about.get(name) is not None for name in _FLAGS):
    shown_flags = [token if about.get(flag) else "" for token, flag in zip((begin, end), _FLAGS, strict=True)]
    described = dataclasses.replace(described, template=(shown_flags[0], shown_flags[1]))
  model = described.model()
  if model is not None:
    return _of_model(described, read_pieces(model), pad)
  return _of_json(described, folder, about, pad, end) if (folder / TOKENIZER).is_file() else described


def _of_model(described: Described, pieces: Any, pad: str) -> Described:
  end_id, begin_id = pieces.eos_id(), pieces.bos_id()
  # Gemma's models begin texts, and pad with a token of their own; T5's do not begin them, and SigLIP pads with the end.
  gemma = described.gemma or (not described.kind and begin_id >= 0)
  pad_id = pieces.piece_to_id(pad) if pad else pieces.pad_id() if gemma else end_id
  return dataclasses.replace(described, gemma=gemma, pad_id=pad_id, end_id=end_id)


def _of_json(described: Described, folder: pathlib.Path, about: Any, pad: str, end: str) -> Described:
  path = folder / TOKENIZER
  tokenizer, padding = _read(path)
  pad_id = tokenizer.token_to_id(pad) if pad else None
  own = padding.get("pad_id")
  if pad_id is not None and own is not None and own != pad_id:
    raise UsageError(
      f"{path}: pads with id {own}, and {CONFIG} names {shown(pad, 40)}, id {pad_id}: fetch both again"
    )
  left = described.left if about.get("padding_side") else padding.get("direction") == "Left"
  gemma = described.gemma or (
    not described.kind and type(tokenizer.model).__name__ == "BPE" and tokenizer.model.byte_fallback
  )
  end_id = tokenizer.token_to_id(end) if end else None
  return dataclasses.replace(
    described, gemma=gemma, pad_id=own if pad_id is None else pad_id, end_id=end_id, left=left
  )


def read_tokenizer(path: pathlib.Path) -> Any:
  """A `tokenizers.Tokenizer` without padding and truncation; UsageError if the file holds none."""
  return _read(path)[0]


@contextlib.contextmanager
def one_line_for(message: str, silently: bool = True) -> Iterator[None]:
  """Turns the library's errors and panics, which Rust also prints unless `silently`, into a UsageError."""
  with quiet.silenced() if silently else contextlib.nullcontext():
    try:
      yield
    except XmcapError:
      raise
    except BaseException as error:  # a panic is no Exception; the library raises nothing more special
      if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
        raise
      raise UsageError(f"{message} ({one_line(error)}): fetch it again") from None


def _read(path: pathlib.Path) -> tuple[Any, dict[str, Any]]:
  """The same, and the padding that the file asks for."""
  import tokenizers

  try:
    size = path.stat().st_size
    text = path.read_text(encoding="utf-8") if size <= _LARGEST else ""
  except (OSError, UnicodeDecodeError) as error:
    raise UsageError(f"{path}: cannot be read ({one_line(error)}): fetch it again") from None
  if not text:
    raise UsageError(f"{path}: {size:,} bytes; a tokenizer has {_LARGEST:,} at most, and is not empty")
  with one_line_for(f"{path}: no tokenizer of Hugging Face"):
    if odd := odd_json.oddity(msgspec.json.decode(text)):
      raise UsageError(f"{path}: {odd}: fetch it again")
    tokenizer = tokenizers.Tokenizer.from_str(text)
  padding = dict(tokenizer.padding or {})
  tokenizer.no_padding()
  tokenizer.no_truncation()
  return tokenizer, padding | {"direction": str(padding.get("direction", "")).capitalize()}


def read_pieces(path: pathlib.Path) -> Any:
  """A `SentencePieceProcessor`; UsageError if the file is no model of SentencePiece."""
  processor = sentencepiece.SentencePieceProcessor()
  try:
    loaded = processor.LoadFromSerializedProto(read_model(str(path)))
  except (RuntimeError, ValueError, OSError):
    loaded = False
  if not loaded:
    raise UsageError(f"{path}: not a SentencePiece model: fetch it again")
  return processor


def _object(file: pathlib.Path) -> dict[str, Any]:
  if not file.is_file():
    return {}
  if file.stat().st_size > _LARGEST:
    raise UsageError(f"{file}: more than {_LARGEST:,} bytes: fetch it again")
  return strict_json.parse_object(file.read_bytes(), str(file))


def _token(value: Any) -> str:
  name = value.get("content") if isinstance(value, dict) else value
  return name if isinstance(name, str) else ""
