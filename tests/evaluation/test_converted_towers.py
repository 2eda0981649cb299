"""`xmcap eval` of a dual tower that `xmcap convert` wrote: scores of the embeddings of `xmcap embed`.

Those equal transformers' (tests/convert/test_hf_dual.py).
"""

import json
import shutil

import numpy as np
import pytest

from tests.convert.test_hf_dual import clip_tokenizer, converted, write_dual
from tests.make import files
from tests.make.command import xmcap
from tests.make.images import encode
from tests.make.tiny_corpus import write_corpus
from tests.ranked.tables import table
from xmcap.data import images, records
from xmcap.data.stream import TagStream
from xmcap.errors import UsageError
from xmcap.evaluation import embed
from xmcap.families.dual import embedder
from xmcap.ranked import retrieval, zero_shot

LABELS = {"EN": [[0, 1, 2], ["a dog", "a cat", "an owl!"]], "DE": [[0, 2], ["Hund", "Eule"]]}

CONFIG = """
include 'data/folder.gin'
import xmcap.evaluation.model_dir
import xmcap.families.dual.retrieval_evaluator
import xmcap.families.dual.zero_shot_evaluator
LABELS = ''
evaluate.model_dir = %MODEL_DIR
evaluate.evaluators = [@RetrievalEvaluator(), @ZeroShotEvaluator()]
RetrievalEvaluator.stream = @CaptionStream()
CaptionStream.languages = ('ar',)
CaptionStream.image_size = %IMAGE_SIZE
ZeroShotEvaluator.stream = @TagStream()
ZeroShotEvaluator.labels = %LABELS
ZeroShotEvaluator.vocabulary = %VOCABULARY
TagStream.mixture = %MIXTURE
TagStream.num_slots = 1
TagStream.batch_size = 7
TagStream.image_size = %IMAGE_SIZE
"""


@pytest.fixture
def tower(tmp_path):
  """A CLIP with a `tokenizer.json`, which crops pictures, as `xmcap convert` writes it."""
  tokenizer = clip_tokenizer(tmp_path / "tokenizer")
  write_dual(
    tmp_path / "theirs", "CLIP", vocab_size=len(tokenizer), max_position_embeddings=16,
    eos_token_id=tokenizer.eos_token_id,
  )  # fmt: skip
  shutil.copy(tmp_path / "tokenizer" / "tokenizer.json", tmp_path / "theirs")
  return converted(tmp_path)


@pytest.fixture
def corpus(tmp_path, tiny_dir):
  """A corpus with a vocabulary of its own, which is not that of the tower."""
  shutil.copytree(tiny_dir, tmp_path / "corpus")
  (tmp_path / "corpus" / "languages.txt").write_text("ar\nde\nen\n")
  (tmp_path / "labels.json").write_text(json.dumps(LABELS))
  (tmp_path / "mine.gin").write_text(CONFIG)
  return tmp_path / "corpus"


def evaluate(tower, corpus, *more):
  return xmcap(
    "eval", f"--model_dir={tower}", f"--gin_file={corpus.parent / 'mine.gin'}", f"--gin.DATA_DIR={corpus}",
    f"--gin.LABELS={corpus.parent / 'labels.json'}", *more,
  )  # fmt: skip


def embed_pictures(tower, folder, of_records, texts):
  """Embeds the pictures of records and texts by `xmcap embed`; returns the folder of embeddings."""
  folder.mkdir()
  for record in of_records:
    (folder / f"{record.key}.png").write_bytes(record.image)
  out = folder.with_suffix(".embedded")
  xmcap("embed", f"--model_dir={tower}", f"--images={folder}", texts, f"--out={out}").succeeded()
  return out


def test_eval_of_a_converted_tower_equals_scores_of_embeddings(tower, corpus):
  lines = evaluate(tower, corpus).succeeded().out.splitlines()
  printed = dict(line.split("  ") for line in lines if "  " in line)

  made = embed.load(str(tower))
  assert isinstance(made, embedder.DualEmbedder)
  held = list(records.RecordSource(str(corpus), "train"))
  pictures = made.pictures(
    [str(number) for number in range(len(held))], lambda number: held[int(number)].image
  )
  texts = {number: caption.text for number, record in enumerate(held) for caption in record.captions
           if caption.language == "ar"}  # fmt: skip
  rows = list(texts)
  embedded = made.texts.all(list(texts.values()), "ar")
  captions = {"ar": retrieval.CaptionRows(np.arange(len(rows)), ("",) * len(rows))}
  keys = [str(row) for row in rows]
  table = retrieval.score_retrieval(pictures[rows], keys, captions, {"ar": lambda: embedded}).table
  for name in ("t2i_r5", "t2i_mrr", "i2t_r5", "i2t_mrr"):
    assert float(printed[name]) == pytest.approx(table.rows["ar"][name], abs=6e-5), name

  names = ["dog", "cat", "owl"]
  tagged = [number for number, record in enumerate(held) if record.tags]
  targets = np.array([names.index(held[number].tags[0]) for number in tagged])
  read = zero_shot.read_labels(corpus.parent / "labels.json")
  of_labels = {code: made.texts.ensemble(found.names, ("{}",), code) for code, found in read.items()}
  result = zero_shot.score_zero_shot(
    pictures[tagged], targets, read, {code: lambda found=found: found for code, found in of_labels.items()},
    fixed_classes=0,
  )  # fmt: skip
  assert float(printed["top1"]) == pytest.approx(result.table.mean["top1"], abs=6e-5)


def test_eval_and_scored_embeddings_have_one_signature(tower, corpus, tmp_path):
  """By `xmcap eval`, and by `xmcap embed` and `xmcap score`: what was evaluated is signed, and compared."""
  out = {f"{name}Evaluator.out_dir": tmp_path / f"eval/{name}" for name in ("Retrieval", "ZeroShot")}
  evaluate(tower, corpus, *(f"--gin.{name}={path}" for name, path in out.items())).succeeded()

  held = list(records.RecordSource(str(corpus), "train"))
  captioned, tagged = held[::2], [record for record in held if record.tags]
  rows = [{"image/key": record.key, "ar": {"caption": [record.captions[-1].text]}} for record in captioned]
  captions = files.jsonl(tmp_path / "captions.jsonl", *rows)
  embedded = embed_pictures(tower, tmp_path / "captioned", captioned, f"--captions={captions}")
  texts = f"--captions={captions}", f"--texts={embedded}/captions"
  xmcap(
    "score", "retrieval", f"--pictures={embedded}/pictures.npy", *texts, f"--out={tmp_path}/retrieval"
  ).succeeded()
  labels = f"--labels={corpus.parent / 'labels.json'}"
  embedded = embed_pictures(tower, tmp_path / "tagged", tagged, labels)
  names = ["dog", "cat", "owl"]
  targets = files.lines(tmp_path / "targets.txt", *(names.index(record.tags[0]) for record in tagged))
  texts = f"--targets={targets}", labels, f"--texts={embedded}/labels", "--fixed_classes=0"
  xmcap(
    "score", "zero-shot", f"--pictures={embedded}/pictures.npy", *texts, f"--out={tmp_path}/zero_shot"
  ).succeeded()

  for evaluated, scored in (("Retrieval", "retrieval"), ("ZeroShot", "zero_shot")):
    theirs, ours = table(tmp_path / "eval" / evaluated), table(tmp_path / scored)
    assert ours["signature"] == theirs["signature"] and ours["notes"] == theirs["notes"]
    folders = f"eval={tmp_path}/eval/{evaluated}", f"embed={tmp_path}/{scored}"
    xmcap("compare", *folders, "--resamples=20").succeeded()


def test_a_folder_without_its_tokenizer_is_one_line(tower, corpus):
  (tower / "tokenizer.json").unlink()
  evaluate(tower, corpus).refused("no tokenizer of its text tower")


def test_tag_stream_resizes_images_as_the_tower(tmp_path, register):
  pixels = np.random.default_rng(0).integers(0, 256, (20, 31, 3)).astype(np.uint8)
  record = records.Record("a", encode(pixels), [records.Caption("en", "a dog")], ["dog"])
  name = register(write_corpus(tmp_path, [record], train_vocabulary=False), languages=("en",)).name
  for resize, wanted in (
    ("bilinear", images.load(record.image, "a", 12)),
    ("bicubic_crop", images.load_exactly(record.image, "a", 12, crop=True)),
  ):
    stream = TagStream(name, batch_size=1, image_size=12, resize=resize)
    np.testing.assert_array_equal(stream.batch(0)["image"][0], wanted)
    assert stream.signature().get("resize", "bilinear") == resize
  with pytest.raises(UsageError, match="resize='bicubic' and augment: leave one out"):
    TagStream(name, resize="bicubic", augment=images.Augment())
