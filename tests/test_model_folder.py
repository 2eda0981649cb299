"""Model folders: hostile files run no code, and invalid folders are one-line errors."""

import itertools
import json
import random
import shutil
import sys

import gin
import pytest

from tests.make import models
from tests.make.command import xmcap
from tests.make.tiny_corpus import tiny_record, write_corpus
from xmcap import configuration
from xmcap.commands import base
from xmcap.data.vocabulary import Vocabulary, train_vocabulary
from xmcap.errors import UsageError
from xmcap.evaluation import model_dir
from xmcap.models import model_json
from xmcap.models.t5 import T5Config
from xmcap.models.vit import ViTConfig
from xmcap.training.reporting import metrics_file


@pytest.fixture(scope="module")
def made(tmp_path_factory):
  return models.captioner(tmp_path_factory.mktemp("made") / "model")


@pytest.fixture
def folder(made, tmp_path):
  return shutil.copytree(made, tmp_path / "model")


@pytest.fixture
def ran(tmp_path, monkeypatch):
  """A file that hostile gin makes; and `hostile_module` can be imported, should anything import it."""
  monkeypatch.syspath_prepend(str(tmp_path))
  yield tmp_path / "ran"
  sys.modules.pop("hostile_module", None)


def failed(*arguments):
  """The one line of a command that exits 1 or 2."""
  result = xmcap(*arguments)
  assert result.code in (1, 2), result
  return result.refused(code=result.code).err.splitlines()[-1]


def references(folder):
  """Captions of the picture, in the layout of XM3600's release."""
  (folder / "images").mkdir()
  models.image(folder / "images")
  row = {"image/key": "picture", "image/locale": "", "en": {"caption": ["a wall"]}}
  (folder / "captions.jsonl").write_text(json.dumps(row) + "\n")
  return folder / "captions.jsonl"


KINDS = ("a program for an argument", "a module", "an include")


def write_hostile_gin(folder, ran, tmp_path):
  """Files with all that gin would run, each of which would do by itself."""
  texts = models.hostile_gin(ran, tmp_path)
  for name in ("config.gin", "model.gin"):
    (folder / name).write_text("".join(texts[kind] for kind in KINDS))


def test_hostile_gin_of_a_model_folder_does_nothing(folder, ran, tmp_path):
  write_hostile_gin(folder, ran, tmp_path)
  picture = models.image(tmp_path)
  said = xmcap("caption", f"--model_dir={folder}", "--json", picture).succeeded()
  assert json.loads(said.out.splitlines()[-1])["language"] == "en"
  given = [f"--gin.REFERENCES={references(tmp_path)}", f"--gin.EVAL_DIR={tmp_path / 'eval'}"]
  xmcap("eval", f"--model_dir={folder}", "--gin_file=runs/eval.gin", *given).succeeded()
  assert (tmp_path / "eval/table.json").exists()
  for command in (["caption", picture], ["eval"]):
    xmcap(*command, f"--model_dir={folder}", "--explain").succeeded()
  for source in (folder, folder / "checkpoints/3"):
    xmcap("convert", "--to=hf", f"--input={source}", f"--out={tmp_path / f'hf-{source.name}'}").succeeded()
  assert not ran.exists() and "hostile_module" not in sys.modules


@pytest.mark.parametrize("kind", KINDS)
def test_hostile_gin_runs_if_the_user_names_it(folder, ran, tmp_path, kind):
  """Or the test above would prove nothing."""
  (folder / "config.gin").write_text(models.hostile_gin(ran, tmp_path)[kind])
  picture = models.image(tmp_path)
  xmcap("caption", f"--model_dir={folder}", f"--gin_file={folder}/config.gin", "--allow_import", picture)
  assert ran.exists()


def test_hostile_gin_beside_converted_weights_does_nothing(folder, ran, tmp_path):
  theirs, ours = tmp_path / "theirs", tmp_path / "ours"
  xmcap("convert", "--to=hf", f"--input={folder}", f"--out={theirs}").succeeded()
  xmcap("convert", f"--input={theirs}/t5", f"--out={ours}").succeeded()
  assert sorted(path.name for path in ours.iterdir()) == ["model.json", "params.safetensors"]
  write_hostile_gin(ours, ran, tmp_path)
  xmcap("convert", "--to=hf", f"--input={ours}", f"--out={tmp_path / 'back'}").succeeded()
  assert (tmp_path / "back/model.safetensors").read_bytes() == (theirs / "t5/model.safetensors").read_bytes()
  assert not ran.exists()


def test_gin_file_option_wins_over_the_model_folder(folder, tmp_path):
  (tmp_path / "mine.gin").write_text("Predictor.max_length = 2\n")
  picture = models.image(tmp_path)
  options = [f"--gin_file={tmp_path}/mine.gin", "--gin.Predictor.search=@Beam()", "--explain"]
  said = xmcap("caption", f"--model_dir={folder}", *options, picture)
  said.succeeded("Predictor.max_length = 2\n", "Predictor.search = @Beam()\n")


def test_captions_of_a_folder_of_pictures_can_be_scored(folder, tmp_path, monkeypatch):
  pictures = references(tmp_path).with_name("images")
  out = tmp_path / "ours.jsonl"
  options = [f"--model_dir={folder}", "--search=beam", "--gin.Beam.beams=2", str(pictures)]
  xmcap("caption", *options, "--explain").succeeded("Predictor.search = @Beam()\n")
  # Its random parameters say nothing of use, so its words are given.
  monkeypatch.setattr(Vocabulary, "decode", lambda self, tokens: "a\nwall")
  xmcap("caption", *options, "-o", out).succeeded()
  assert out.read_text() == '{"image/key": "picture", "language": "en", "caption": "a\\nwall"}\n'
  said = xmcap("caption", *options, "--json", "--keys=path").succeeded()
  assert json.loads(said.out)["image/key"] == str(pictures / "picture.png")
  assert xmcap("caption", *options).succeeded().out.splitlines()[1].endswith("a\\nwall")
  given = ["-r", tmp_path / "captions.jsonl", "-p", out, "-o", tmp_path / "scores"]
  xmcap("score", *given, "-m", "exact", "--only_tables", "--no_health").succeeded("100.0%")


def test_model_folder_of_an_earlier_release(folder, tmp_path):
  lines = ["import xmcap.models.captioner"]
  model = model_json.read(folder / "model.json")
  (folder / "model.json").unlink()
  for name, given in (("ViTConfig", model.parts["vit"]), ("T5Config", model.parts["t5"])):
    lines += [f"{name}.{field} = {value!r}" for field, value in given.items()]
  (folder / "config.gin").write_text("\n".join(lines))
  picture = models.image(tmp_path)
  line = failed("caption", f"--model_dir={folder}", picture)
  assert "not a model folder (model.json is missing)" in line and f"--gin_file={folder}/config.gin" in line
  line = failed("convert", "--to=hf", f"--input={folder}", f"--out={tmp_path / 'x'}")
  assert "model.json, which describes the weights, is missing" in line
  # As that line says.
  xmcap(
    "caption", f"--model_dir={folder}", f"--gin_file={folder}/config.gin", "--allow_import", picture
  ).succeeded()


def test_a_folder_of_a_tagger_is_no_captioner(folder, tmp_path):
  model = json.loads((folder / "model.json").read_text())
  del model["t5"]
  (folder / "model.json").write_text(json.dumps(model))
  line = failed("caption", f"--model_dir={folder}", models.image(tmp_path))
  assert "no captioner is configured" in line
  line = failed("convert", "--to=hf", f"--input={folder}", f"--out={tmp_path / 'x'}")
  assert "its model.json does not describe a t5" in line


@pytest.mark.parametrize(
  "change, says",
  [
    (lambda path: path.unlink(), "cannot be read"),
    (lambda path: path.write_bytes(b""), "not a SentencePiece model"),
    (lambda path: path.write_bytes(b"\xff" * 100_000), "not a SentencePiece model"),
    (lambda path: path.write_bytes(path.read_bytes()[:-2000]), "model.vocabulary.model: "),
    (lambda path: path.open("r+b").truncate(2**30), "bytes; a SentencePiece model"),
    (
      lambda path: path.write_bytes(path.read_bytes().replace(b"<de>", b"<d\xff>")),
      "not a SentencePiece model",
    ),
  ],
)
def test_invalid_vocabulary_of_a_model_folder_is_one_line(folder, tmp_path, change, says):
  change(folder / "vocabulary.model")
  line = failed("caption", f"--model_dir={folder}", models.image(tmp_path))
  assert says.replace("model.v", "model/v") in line


@pytest.mark.parametrize(
  "part, field, value, says",
  [
    ("vit", "width", 32, "has shape"),
    ("vit", "depth", 2, "has shape (1, "),
    ("t5", "mlp_dim", 24, "has shape"),
    ("t5", "vocab_size", 2**24, "pieces do not fit the model's 16,777,216 rows"),
    ("vit", "image_size", 16, "vit/position_embedding has shape (9, 16), but (16, 16) in this model"),
  ],
)
def test_model_json_sizes_unlike_the_weights_are_refused(folder, tmp_path, part, field, value, says):
  model = json.loads((folder / "model.json").read_text())
  model[part][field] = value
  (folder / "model.json").write_text(json.dumps(model))
  assert says in failed("caption", f"--model_dir={folder}", models.image(tmp_path))


def changed_metadata(change):
  def mutate(params):
    text = json.loads((params / "_METADATA").read_text())
    change(text)
    (params / "_METADATA").write_text(json.dumps(text))

  return mutate


def outside(metadata):
  """An array whose name leads out of the folder, kept as a folder of its own."""
  metadata["use_ocdbt"] = False
  _, entry = metadata["tree_metadata"].popitem()
  entry["key_metadata"][-1]["key"] = "../../../../other"
  metadata["tree_metadata"]["other"] = entry


def claim(shape, chunks):
  """An array that claims so many numbers, of which none is there."""

  def mutate(params):
    import tensorstore

    spec = {
      "driver": "zarr",
      "kvstore": {"driver": "ocdbt", "base": f"file://{params}/", "path": "vit.patch_embedding.bias/"},
      "metadata": {
        "shape": shape,
        "chunks": chunks,
        "dtype": "<f4",
        "compressor": {"id": "zstd", "level": 1},
      },
      "create": True,
      "delete_existing": True,
    }
    tensorstore.open(spec).result()

  return mutate


@pytest.mark.parametrize(
  "mutate, says",
  [
    (changed_metadata(outside), "is not a valid parameter name"),
    (claim([10**12], [10**6]), "claims 4,000,000,121,696 bytes of arrays"),
    (claim([16], [10**12]), "claims 4,000,000,121,696 bytes of arrays"),
    (lambda params: (params / "_METADATA").open("r+b").truncate(2**28), "_METADATA: 268,435,456 bytes"),
    (lambda params: (params / "_METADATA").write_text("[" * 100_000), "cannot be read"),
    (lambda params: (params / "manifest.ocdbt").write_bytes(bytes(100)), "cannot be read"),
  ],
  ids=["outside", "shape", "chunk", "large", "deep", "manifest"],
)
def test_hostile_checkpoint_metadata_are_refused(folder, tmp_path, mutate, says):
  params = folder / "checkpoints/3/params"
  (params / "crc32.json").unlink()  # made anew by whoever lies
  mutate(params)
  line = failed("convert", "--to=hf", f"--input={params.parent}", f"--out={tmp_path / 'x'}")
  assert says in line
  failed("caption", f"--model_dir={folder}", models.image(tmp_path))


def test_randomly_changed_vocabulary_is_refused_or_works(made, tmp_path):
  """It is refused, or every piece of it can be written."""
  draw, good = random.Random(2), (made / "vocabulary.model").read_bytes()
  used = 0
  for _ in range(300):
    data = bytearray(good)
    for _ in range(draw.randint(1, 6)):
      data[draw.randrange(len(data))] = draw.randrange(256)
    (tmp_path / "a.model").write_bytes(data)
    try:
      vocabulary = Vocabulary(tmp_path / "a.model")
    except UsageError as error:
      assert "\n" not in str(error)
      continue
    vocabulary.encode("hello ไทย")
    for piece in range(vocabulary.size):
      vocabulary.decode([piece])
    used += 1
  assert 10 < used < 290


def test_pretrained_embedding_of_another_vocabulary_is_refused(folder, tmp_path):
  text = tmp_path / "text.txt"
  text.write_text("a wall and a house\n" * 9 + "".join(f"word{n} " for n in range(300)), encoding="utf-8")
  other = train_vocabulary(str(text), str(tmp_path / "other.model"), size=500)
  own = Vocabulary(str(folder / "vocabulary.model"))
  checkpoint = str(folder / "checkpoints" / "3")
  for pretrained in (str(folder), [(str(folder), "")], [checkpoint], [(str(folder), "token_embedder")]):
    model_dir.check_pretrained(own, pretrained)
    with pytest.raises(
      UsageError, match="another vocabulary than .*other.model: give --gin.VOCABULARY=.*model or"
    ):
      model_dir.check_pretrained(other, pretrained)
  model_dir.check_pretrained(other, [(str(folder), "vit"), str(tmp_path)])


@pytest.mark.parametrize(
  "order", itertools.permutations(("models/tiny.gin", "model.json", "data/folder.gin"))
)
def test_fine_tuning_takes_model_json_and_gin_files_in_any_order(folder, tmp_path, order):
  (tmp_path / "data").mkdir()
  write_corpus(tmp_path / "data", [tiny_record(0)], train_vocabulary=False)
  (tmp_path / "data" / "languages.txt").write_text("ar\nde\nen\n")
  files = [str(folder / name) if name.endswith(".json") else name for name in order]
  configuration.parse(
    base.with_models([*files, "runs/folder.gin"]),
    [f"DATA_DIR={tmp_path / 'data'}", f"VOCABULARY={folder / 'vocabulary.model'}"],
  )
  model = model_json.read(folder / "model.json")
  assert T5Config().vocab_size == model.config("t5").vocab_size
  assert (configuration.macro("MIXTURE"), model.mixture) == ("folder", "emoji36")
  assert gin.get_bindings("Predictor")["max_length"] == 64  # the corpus's, not the model's 5
  if order.index("model.json") > order.index("models/tiny.gin"):
    assert (T5Config().emb_dim, ViTConfig().width) == (16, 16)


def test_eval_prints_the_command_that_serves_the_model(folder, tmp_path):
  moved = folder.rename(tmp_path / "my model")
  (moved / metrics_file.FILE).write_text(metrics_file.line(3, 1.0, {"event": "started", "total_steps": 9}))
  refs = references(moved)
  command = [
    "eval",
    f"--model_dir={moved}",
    f"--gin.REFERENCES={refs}",
    f"--gin.EVAL_DIR={tmp_path / 'eval'}",
  ]
  for more, step in (([], ""), (["--step=3"], " --step=3")):
    said = xmcap(*command, "--gin_file=runs/eval.gin", *more).succeeded()
    assert said.out.splitlines()[-1] == f"serve the model: xmcap serve --model_dir='{moved}'{step}"
    assert "the run has done 3 of its 9 steps" in said.err
