"""Word2VisualVec runs as their gin file configures them: training, killing, resuming, evaluating, embedding."""

import shutil

import gin
import jax
import numpy as np
import pytest

from tests import word_folders
from tests.make.tiny_corpus import NUM_PICTURES
from tests.ranked.tables import table
from xmcap import configuration, digests
from xmcap.cli import main
from xmcap.data import features, records
from xmcap.evaluation import model_dir
from xmcap.families.word2visualvec import words as words_lib
from xmcap.families.word2visualvec.evaluator import WordRetrievalEvaluator
from xmcap.families.word2visualvec.objective import Word2VisualVecObjective
from xmcap.families.word2visualvec.stream import WordStream
from xmcap.models import model_json
from xmcap.scoring.tables.signature import Signature
from xmcap.training import loop
from xmcap.training.checkpoints import read
from xmcap.training.run import Start

KEYS = tuple(f"{index:016x}" for index in range(NUM_PICTURES))
NUMBERS = [str(index) for index in range(NUM_PICTURES)]


@pytest.fixture(scope="module")
def place(tmp_path_factory, tiny_dir, register):
  """A folder with words and features, the options of a run, and the folder of the corpus."""
  root = tmp_path_factory.mktemp("runs")
  # The number in a caption names its picture; German lacks that of picture 3.
  word_folders.write(
    root / "words", width=4, en=["a", "dog", *NUMBERS], de=["hund", *NUMBERS[:3], *NUMBERS[4:]]
  )
  vectors = np.random.default_rng(0).normal(size=(NUM_PICTURES, 6)).astype(np.float32)
  features.write(root / "f.safetensors", features.Features(KEYS, vectors))
  corpus = register(tiny_dir, languages=("ar", "de", "en"))
  return root, [
    f"MIXTURE='{corpus.name}'", f"{corpus.name}.data_dir='{tiny_dir}'", f"FEATURES='{root}/f.safetensors'",
    f"WORDS='{root}/words'", "LANGUAGES=('en','de')", "VALIDATION='train'", "TEST='train'", "TOTAL_STEPS=6",
    "EVAL_EVERY=2", "BATCH_SIZE=8", "LEARNING_RATE=0.01", "RELU_OUTPUT=False", "ATTENTION=True",
    "LOSS='contrastive'", "Word2VisualVecConfig.rnn_width=5", "Word2VisualVecConfig.hidden=16",
    "Writers.tensorboard=False",
  ], tiny_dir  # fmt: skip


def configure(place, name, *more):
  root, common, _ = place
  gin.clear_config()
  out = [f"MODEL_DIR='{root / name}'", f"EVAL_DIR='{root / name}_eval'"]
  configuration.parse(["data/emoji36.gin", "runs/w2vv.gin"], [*common, *out, *more])
  return root / name


def train():
  return loop.train(start=Start(say=lambda line: None, begun=model_dir.write_model_dir))


@pytest.fixture(scope="module")
def trained(place):
  folder = configure(place, "whole")
  run = train()
  assert run.finished and {"validation/t2i_mrr", "validation/loss"} <= set(run.metrics)
  return folder, jax.device_get(run.state)


def test_word2visualvec_run_keeps_the_best_checkpoint_and_words(trained):
  folder, _ = trained
  notes = read.notes(read.checkpoints_dir(folder))
  assert {note.metric for note in notes.values()} == {"validation/t2i_mrr"}
  assert sorted(path.name for path in (folder / "words").iterdir()) == ["de.safetensors", "en.safetensors"]
  model = model_json.read(folder / "model.json")
  assert (
    model.languages == ("en", "de")
    and model.parts["words"]["attention"]
    and model.parts["words"]["output_dim"] == 6
  )


def test_killed_word2visualvec_run_resumes_bit_for_bit(place, trained, monkeypatch):
  folder = configure(place, "killed")
  batches = WordStream.batches

  def killed(self, start_step=0, rows=None, num_steps=None):
    for step, batch in enumerate(batches(self, start_step, rows, num_steps), start_step):
      if num_steps is None and step == 3:
        raise KeyboardInterrupt
      yield batch

  with monkeypatch.context() as patched:
    patched.setattr(WordStream, "batches", killed)
    with pytest.raises(KeyboardInterrupt):
      train()
  assert read.steps_in(read.checkpoints_dir(folder))[-1] < 6
  jax.tree.map(np.testing.assert_array_equal, jax.device_get(train().state), trained[1])


def test_word2visualvec_run_is_evaluated(place, trained, capsys):
  folder, _ = trained
  configure(place, "whole")
  model_dir.evaluate()
  assert "t2i_mrr" in capsys.readouterr().out
  assert {"table.csv", "report.html"} <= {path.name for path in (folder.parent / "whole_eval").iterdir()}


def test_word_retrieval_evaluator_of_zeros_ranks_by_chance(place, trained):
  configure(place, "whole")
  evaluator = WordRetrievalEvaluator(WordStream(split="train"), objective=Word2VisualVecObjective())
  options = dict(evaluator.options)
  rows = {
    (code, name): value
    for code, name, value in evaluator.run(jax.tree.map(np.zeros_like, trained[1].params), 0)
  }
  chance = sum(1 / rank for rank in range(1, NUM_PICTURES + 1)) / NUM_PICTURES
  assert rows["en", "t2i_mrr"] == pytest.approx(chance) == rows["mean", "t2i_mrr"]
  assert evaluator.options == options  # another run compares by the cosine again


def test_word_retrieval_evaluator_signs_the_keys_and_captions_of_the_records(place, trained, tmp_path):
  configure(place, "whole")
  signed = {}
  for split in ("train[:12]", "train[12:]"):
    stream = WordStream(split=split, languages=("de",))
    evaluator = WordRetrievalEvaluator(
      stream, objective=Word2VisualVecObjective(), out_dir=str(tmp_path / split)
    )
    list(evaluator.run(trained[1].params, None))
    held = list(records.RecordSource(place[2], split))
    captions = [(record.key, caption.text) for record in held for caption in record.captions
                if caption.language == "de"]  # fmt: skip
    signed[split] = Signature.parse(table(tmp_path / split)["signature"]).parts
    assert signed[split]["images"] == digests.of_images(key for key, _ in captions)
    assert signed[split]["captions"] == digests.of_texts(
      sorted(f"de\t{key}\t{text}" for key, text in captions)
    )
  assert signed["train[:12]"]["images"] != signed["train[12:]"]["images"]


def embed(place, trained, *options):
  return main(["embed", f"--model_dir={trained[0]}", *options])


def test_word2visualvec_embeddings_are_scored(place, trained, tmp_path, capsys):
  root, _, corpus = place
  out = tmp_path / "out"
  options = [f"--corpus={corpus}", "--languages=en,de", f"--features={root}/f.safetensors", f"--out={out}"]
  assert embed(place, trained, *options) == 0
  assert "have no known word" not in capsys.readouterr().err  # `hund` or the number is always there
  assert (out / "keys.txt").read_text().split() == list(KEYS)
  pictures, english = np.load(out / "pictures.npy"), np.load(out / "captions" / "en.npy")
  for vectors in (pictures, english):
    assert vectors.shape == (NUM_PICTURES, 6)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
  scores = [f"--candidates={out}/pictures.npy", f"--out={tmp_path}/cm.npy"]
  assert main(["retrieval", "scores", f"--queries={out}/captions/en.npy", *scores]) == 0
  assert (
    main(["score", "retrieval", f"--scores={tmp_path}/cm.npy", "--language=en", f"--out={tmp_path}/scores"])
    == 0
  )
  cosines = english @ pictures.T
  np.testing.assert_allclose(np.load(tmp_path / "cm.npy"), cosines, atol=1e-5)
  assert embed(place, trained, *options[:2], options[3]) == 2  # the same folder, without features
  assert "contains embeddings with" in capsys.readouterr().err


def test_word2visualvec_counts_captions_without_a_known_word(place, trained, tmp_path, capsys, monkeypatch):
  captions = tmp_path / "captions.jsonl"
  lines = ["a dog 1", "nothing of it", "?", "?", "a dog 1"]
  split, encode = [], words_lib.WordVectors.encode

  def spy(self, language, texts, tokenized=()):
    split.extend(texts)
    return encode(self, language, texts, tokenized)

  monkeypatch.setattr(words_lib.WordVectors, "encode", spy)
  captions.write_text(
    "".join(
      f'{{"image/key": "{KEYS[n]}", "language": "en", "caption": "{line}"}}\n' for n, line in enumerate(lines)
    )
  )
  assert embed(place, trained, f"--captions={captions}", f"--out={tmp_path}/out") == 0
  assert (
    "3 of 5 captions are empty or have no known word, and are embedded as empty texts"
    in capsys.readouterr().err
  )
  assert split == lines[:3]  # each once
  found = np.load(tmp_path / "out/captions/en.npy")
  np.testing.assert_array_equal(found[0], found[4])
  np.testing.assert_array_equal(found[1], found[2])
  assert not np.array_equal(found[0], found[1]) and np.isfinite(found).all()
  assert not (tmp_path / "out/pictures.npy").exists()


def test_word2visualvec_embeds_features_as_images(place, trained, tmp_path):
  assert embed(place, trained, f"--features={place[0]}/f.safetensors", f"--out={tmp_path}/out") == 0
  assert np.load(tmp_path / "out/pictures.npy").shape == (NUM_PICTURES, 6)


@pytest.mark.parametrize(
  ("options", "message"),
  [
    (["--images=."], "a Word2VisualVec sees no pictures: give their stored --features, not --images"),
    (
      ["--corpus={corpus}", "--features={root}/few.safetensors"],
      "no vectors of 21 pictures of 24 in the pictures",
    ),
    (
      ["--corpus={corpus}", "--features={root}/wide.safetensors"],
      "vectors of 9 numbers, but the model predicts 6",
    ),
    (["--corpus={corpus}", "--languages=ar"], "has no caption in 'ar'"),
    (["--labels={root}/labels.json"], "no words in 'ar', only in en, de"),
    (["--labels={root}/labels.json", "--adapters={root}/adapters"], "a Word2VisualVec takes no adapter"),
  ],
)
def test_word2visualvec_embed_errors_are_one_line(place, trained, tmp_path, capsys, options, message):
  root, _, corpus = place
  features.write(root / "few.safetensors", features.Features(KEYS[:3], np.ones((3, 6), np.float32)))
  features.write(root / "wide.safetensors", features.Features(KEYS, np.ones((NUM_PICTURES, 9), np.float32)))
  (root / "labels.json").write_text('{"AR": [[0, 1], ["a", "b"]]}')
  (root / "adapters" / "ar").mkdir(parents=True, exist_ok=True)
  filled = [option.format(corpus=corpus, root=root) for option in options]
  assert embed(place, trained, f"--out={tmp_path}/out", *filled) == 2
  errors = [line for line in capsys.readouterr().err.splitlines() if "error" in line]
  assert len(errors) == 1 and message in errors[0], errors


def test_word2visualvec_words_of_another_run_are_refused(place, trained, tmp_path, capsys):
  copy = tmp_path / "copy"
  shutil.copytree(trained[0], copy)
  word_folders.write(copy / "words", width=4, de=["hund", "katze"])
  options = [f"--corpus={place[2]}", "--languages=en", f"--out={tmp_path}/out"]
  assert main(["embed", f"--model_dir={copy}", *options]) == 2
  assert "its words or model.json do not fit its parameters" in capsys.readouterr().err
