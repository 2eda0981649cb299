"""Ids of text towers' tokenizers: those of transformers 5.23.0, of names in many scripts.

The tokenizers are small and trained here on the names: SentencePiece as SigLIP has it and as XLM-R and NLLB
have it, WordPiece as BERT has it, and CLIP's pairs of bytes.
"""

import json
import pathlib
import re
import xml.etree.ElementTree as ElementTree

import pytest

from tests.convert.test_hf_dual import NAMES, clip_tokenizer
from xmcap.errors import UsageError
from xmcap.families.dual import nllb_languages, text_input
from xmcap.files.files import cache_folder
from xmcap.languages import LANGUAGES

LENGTH = 12  # pieces; some names are longer, and are cut


def cldr_names():
  """The names out of the Debian package or the npm package, whichever there is."""
  caches = [cache_folder(corpus) for corpus in ("emoji36", "emoji100")]
  roots = [pathlib.Path("/"), *(cache / "debian" for cache in caches)]
  for folder in (root / "usr/share/unicode/cldr/common/annotations" for root in roots):
    if files := sorted(folder.glob("*.xml")):
      nodes = [node for file in files for node in ElementTree.parse(file).iter("annotation")]
      return [node.text for node in nodes if node.get("type") == "tts"]
  for folder in (cache / "npm/cldr-annotations-full/annotations" for cache in caches):
    if files := sorted(folder.glob("*/annotations.json")):
      contents = [json.loads(file.read_text(encoding="utf-8"))["annotations"] for file in files]
      return [
        entry["tts"][0] for one in contents for entry in one["annotations"].values() if entry.get("tts")
      ]
  pytest.skip("no CLDR here: install unicode-cldr-core, or run `xmcap data build emoji36`")


@pytest.fixture(scope="module", params=["languages", pytest.param("CLDR", marks=pytest.mark.full)])
def names(request):
  """Names of the languages in their scripts, and texts that tokenizers treat in their own ways; or all of CLDR's."""
  pytest.importorskip("transformers")
  if request.param == "languages":
    return [
      *NAMES[:-1],
      "q x " * 40,
      *(f"{one.native_name} {one.english_name}" for one in LANGUAGES.values()),
    ]
  found = list(dict.fromkeys(name for name in cldr_names() if name and name != "↑↑↑"))
  assert len(found) > 50_000
  return found


@pytest.fixture(scope="module")
def pieces(names, tmp_path_factory):
  """A SentencePiece model of some of the names, as SigLIP's is numbered, and [(piece, score)] of it."""
  sentencepiece = pytest.importorskip("sentencepiece")
  few = names[:: len(names) // 3000 + 1]
  prefix = tmp_path_factory.mktemp("pieces") / "spiece"
  sentencepiece.SentencePieceTrainer.train(
    sentence_iterator=iter(few), model_prefix=str(prefix), vocab_size=3000, hard_vocab_limit=False, pad_id=0,
    eos_id=1, unk_id=2, bos_id=-1, character_coverage=0.999, minloglevel=2, num_threads=1,
  )  # fmt: skip
  model = prefix.with_suffix(".model")
  processor = sentencepiece.SentencePieceProcessor(model_file=str(model))
  scores = [(processor.id_to_piece(n), processor.get_score(n)) for n in range(3, len(processor))]
  return model, scores


def same_ids(ours, theirs, names, language=""):
  found, cut = ours.encode_all(names, language)
  assert found == theirs(names, truncation=True, max_length=LENGTH)["input_ids"]
  assert 0 < cut < len(names)


def test_siglip_token_ids_equal_transformers(names, pieces):
  pytest.importorskip("google.protobuf")
  import transformers

  same_ids(text_input.SiglipPieces(pieces[0], LENGTH), transformers.SiglipTokenizer(str(pieces[0])), names)


def test_xlm_roberta_token_ids_equal_transformers(names, pieces, tmp_path):
  import transformers

  vocabulary = [(name, 0.0) for name in ("<s>", "<pad>", "</s>", "<unk>")] + [*pieces[1], ("<mask>", 0.0)]
  theirs = transformers.XLMRobertaTokenizer(vocab=vocabulary)
  theirs.save_pretrained(tmp_path)
  ours = text_input.TokenizerJson(tmp_path / "tokenizer.json", LENGTH, 1)
  same_ids(ours, theirs, names)
  assert ours.encode_all(["?"])[0][0][0] == 0 and ours.encode_all(["?"])[0][0][-1] == 2


@pytest.mark.parametrize("language, code", [("de", "deu_Latn"), ("no", "nno_Latn"), ("br", "eng_Latn")])
def test_nllb_token_ids_equal_transformers(names, tmp_path, language, code):
  import tokenizers
  import transformers

  trained = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token="<unk>"))
  trained.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
  special = ["<s>", "<pad>", "</s>", "<unk>"]
  trainer = tokenizers.trainers.BpeTrainer(vocab_size=500, special_tokens=special, show_progress=False)
  trained.train_from_iterator(names[:: len(names) // 3000 + 1], trainer)
  merges = [tuple(pair) for pair in json.loads(trained.to_str())["model"]["merges"]]
  theirs = transformers.NllbTokenizer(vocab=trained.get_vocab(), merges=merges, src_lang=code)
  theirs.save_pretrained(tmp_path)
  ours = text_input.NllbPieces(tmp_path / "tokenizer.json", LENGTH, 1)
  same_ids(ours, theirs, names, language)
  assert ours.encode_all(names[:1], language)[0][0][0] == theirs.convert_tokens_to_ids(code)


def test_bert_token_ids_equal_transformers(names, tmp_path):
  import tokenizers
  import transformers

  trained = tokenizers.BertWordPieceTokenizer(lowercase=False)
  trained.train_from_iterator(names[:: len(names) // 3000 + 1], vocab_size=500, show_progress=False)
  theirs = transformers.BertTokenizer(vocab=trained.get_vocab(), do_lower_case=False)
  theirs.save_pretrained(tmp_path)
  same_ids(text_input.TokenizerJson(tmp_path / "tokenizer.json", LENGTH, 0), theirs, names)


def test_clip_token_ids_equal_transformers(names, tmp_path):
  theirs = clip_tokenizer(tmp_path)
  same_ids(text_input.TokenizerJson(tmp_path / "tokenizer.json", LENGTH, 0), theirs, names)


def test_siglip_tokenizer_json_of_open_clip_reads_plain_texts(names, pieces, tmp_path):
  """OpenCLIP publishes SigLIP's tokenizer so; it takes away case and punctuation before."""
  import transformers

  vocabulary = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), *pieces[1]]
  transformers.T5Tokenizer(vocab=vocabulary, extra_ids=0).save_pretrained(tmp_path)
  ours = text_input.TokenizerJson(tmp_path / "tokenizer.json", LENGTH, 1, "canonical", True)
  other = text_input.TokenizerJson(tmp_path / "tokenizer.json", LENGTH, 1)
  assert ours.encode_all(["A_Big, red  Dog!"])[0] == other.encode_all(["a big red dog"])[0]
  assert ours.fixed and ours.encode_all(["dog"])[0][0][-1] == 1


def test_nllb_language_codes_are_known_to_transformers():
  codes = pytest.importorskip("transformers.models.nllb.tokenization_nllb").FAIRSEQ_LANGUAGE_CODES
  known = frozenset(codes)
  table = nllb_languages._TABLE
  assert set(table.values()) <= known
  assert {len(code) for code in table} == {2, 3}
  assert (
    nllb_languages.find("ast", known) == "ast_Latn" and nllb_languages.find("zho_Hans", known) == "zho_Hans"
  )
  assert nllb_languages.find("ace", known) == "eng_Latn"  # in two scripts
  assert nllb_languages.find("", known) == "eng_Latn"


def test_nllb_refuses_another_tokenizer(names, tmp_path):
  clip_tokenizer(tmp_path)
  with pytest.raises(UsageError, match=re.escape("not NLLB's tokenizer: it has no eng_Latn")):
    text_input.NllbPieces(tmp_path / "tokenizer.json", LENGTH, 1)
