"""The EMA of a run's weights: its update, its place in checkpoints, and which weights are read from them."""

import dataclasses
import json
import pathlib
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.make import models
from tests.make.command import xmcap
from tests.training.test_loop import OPTIMIZER, assert_same, run
from tests.training.toy import ToyStream
from xmcap.errors import UsageError
from xmcap.evaluation import image_features
from xmcap.training.checkpoints import read, weights
from xmcap.training.checkpoints.retention import CheckpointPolicy
from xmcap.training.checkpoints.train_state import Ema
from xmcap.training.checkpoints.write import Checkpoints
from xmcap.training.optimizer import Optimizer, adam
from xmcap.training.step import create_state

AVERAGED = dataclasses.replace(OPTIMIZER, ema_decay=0.9)
GOLDEN = json.loads((pathlib.Path(__file__).parent / "goldens/schedules.json").read_text())[
  "ExponentialMovingAverage"
]


def averaged(model_dir, total_steps=8, **arguments):
  return run(model_dir, total_steps, **{"optimizer": AVERAGED, **arguments})


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
  """The folder and the state of a run of 8 steps with an EMA."""
  folder = tmp_path_factory.mktemp("undisturbed")
  return folder, averaged(folder)[0].state


def test_ema_equals_tensorflow_2_21():
  optimizer = Optimizer(adam, ema_decay=GOLDEN["decay"])
  ema, averages = Ema(jnp.zeros((), jnp.int32), {"kernel": jnp.float32(GOLDEN["first"])}), []
  for value in GOLDEN["values"]:
    ema = optimizer.average(ema, {"kernel": jnp.float32(value)})
    averages.append(float(ema.params["kernel"]))
  np.testing.assert_allclose(averages, GOLDEN["averages"], rtol=1e-6)


def test_ema_of_equal_weights_stays_what_they_are():
  # 1 - 0.9999 in float32 and its complement must sum to 1, or 100,000 updates would shrink the weights.
  ema = Ema(jnp.int32(10**6), {"kernel": jnp.float32(0.3)})
  for decay in (0.5, 0.999, 0.9999, 0.99999):
    made = Optimizer(adam, ema_decay=decay).average(ema, {"kernel": jnp.float32(0.3)})
    assert float(made.params["kernel"]) == pytest.approx(0.3, rel=1e-7)


@pytest.mark.parametrize("decay", [1, 1.5, -0.1, "0.99", True, float("nan")])
def test_ema_decay_out_of_range_is_refused(decay):
  with pytest.raises(
    UsageError, match=r"Optimizer.ema_decay \(EMA_DECAY\) is .*: give a number above 0 and below 1"
  ):
    Optimizer(adam, ema_decay=decay)


def test_resumed_run_with_an_ema_has_the_same_bits(tmp_path, undisturbed):
  averaged(tmp_path, 5)
  resumed, _ = averaged(tmp_path)
  assert int(resumed.state.ema.count) == 8
  assert_same(resumed.state, undisturbed[1])


def test_weights_are_the_same_with_and_without_an_ema(tmp_path, undisturbed):
  state = run(tmp_path, 8)[0].state
  assert state.ema is None and not (tmp_path / "checkpoints/8/ema").exists()
  assert_same(state.params, undisturbed[1].params)
  assert_same(state.weights, state.params)


@pytest.mark.parametrize("kind", ["ema", "raw", None])
def test_read_weights_are_the_ema_unless_raw_is_asked_for(undisturbed, kind, capsys):
  folder, state = undisturbed
  expected = jax.device_get(state.params if kind == "raw" else state.weights)
  assert_same(read.load_params(folder, weights=kind), expected)
  assert ("the raw weights" if kind == "raw" else "the EMA of the weights") in capsys.readouterr().err
  opened = weights.open_weights(folder, kind)
  assert_same({name: tensor.read() for name, tensor in opened.tensors.items()}, expected)
  assert opened.is_ema == (kind != "raw")


def test_evaluators_see_the_ema(tmp_path):
  class Looks:
    def run(self, params, step):
      self.params = jax.device_get(params)
      yield "", "cider", 0.5

  looks = Looks()
  result, _ = averaged(tmp_path, 4, evaluators=[looks])
  assert_same(looks.params, jax.device_get(result.state.weights))
  assert not np.array_equal(looks.params["wi"], result.state.params["wi"])


def test_ema_skips_non_finite_steps(tmp_path):
  result, _ = averaged(tmp_path, 6, stream=ToyStream(bad_steps=[2, 5]))
  assert int(result.state.ema.count) == 4
  assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(result.state.ema))


def test_ema_holds_only_parameters_that_learn(tmp_path):
  result, _ = averaged(tmp_path, 4, optimizer=dataclasses.replace(AVERAGED, frozen=["wi"]))
  assert sorted(result.state.ema.params) == ["bias", "wo"]
  assert_same(read.load_params(tmp_path), jax.device_get(result.state.weights))


def test_ema_begins_at_the_weights_of_a_checkpoint_without_one(tmp_path):
  params = run(tmp_path, 5)[0].state.params
  result, lines = averaged(tmp_path, 5)
  assert lines[0].endswith("has no EMA of the weights: it begins at the weights of this step")
  assert int(result.state.ema.count) == 0
  assert_same(result.state.ema.params, params)
  assert int(averaged(tmp_path, 6)[0].state.ema.count) == 1


def test_ema_begins_at_pretrained_weights_which_are_anothers_ema(tmp_path, undisturbed):
  folder, state = undisturbed
  sources = {"scratch": (), "whole": str(folder), "part": [(str(folder), "wo")]}
  for name, pretrained in sources.items():
    # One step with the learning rate 0.
    optimizer = dataclasses.replace(AVERAGED, schedule=lambda step, total: jnp.float32(0))
    result, lines = averaged(tmp_path / name, 1, optimizer=optimizer, pretrained=pretrained)
    jax.tree.map(
      lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6), result.state.ema.params, result.state.params
    )
    if pretrained:
      assert f"{folder}/checkpoints/8 (the EMA of its weights)" in lines[0]
      np.testing.assert_array_equal(result.state.params["wo"], state.ema.params["wo"])


def test_run_does_not_lose_its_ema_unasked(tmp_path, undisturbed):
  shutil.copytree(undisturbed[0], tmp_path / "run")
  with pytest.raises(
    UsageError, match=r"checkpoints/8: has an EMA .*give --gin.Optimizer.ema_decay=DECAY again, or"
  ):
    run(tmp_path / "run", 9)
  assert read.steps_in(tmp_path / "run/checkpoints")[-1] == 8
  # As the message advises.
  options = {"initial_checkpoint": str(tmp_path / "run/checkpoints/8")}
  result, lines = run(tmp_path / "other", 9, **options)
  assert "its EMA of the weights is left out" in lines[0] and result.state.ema is None
  result, _ = averaged(tmp_path / "third", 9, **options)
  assert int(result.state.ema.count) == 9


def test_ema_that_was_not_copied_is_damage(tmp_path, undisturbed, caplog):
  shutil.copytree(undisturbed[0], tmp_path / "run")
  checkpoint = tmp_path / "run/checkpoints/8"
  shutil.rmtree(checkpoint / "ema")
  for reads in (read.load_params, weights.open_weights):
    with pytest.raises(
      read.CheckpointDamaged, match=r"ema: the EMA of the weights is missing: .*--weights=raw"
    ):
      reads(checkpoint)
  assert_same(read.load_params(checkpoint, weights="raw"), jax.device_get(undisturbed[1].params))
  resumed, lines = averaged(tmp_path / "run")
  assert any("resuming from step 7" in line for line in lines)
  assert "the EMA of the weights is missing" in caplog.text
  assert_same(resumed.state, undisturbed[1])


def test_changed_bit_of_an_ema_is_damage(tmp_path, undisturbed):
  shutil.copytree(undisturbed[0], tmp_path / "run")
  ema = tmp_path / "run/checkpoints/8/ema"
  file = max((path for path in ema.rglob("*") if "/d/" in str(path)), key=lambda path: path.stat().st_size)
  data = bytearray(file.read_bytes())
  data[len(data) // 2] ^= 1
  file.write_bytes(data)
  assert_same(read.load_params(tmp_path / "run", 8, "raw"), jax.device_get(undisturbed[1].params))
  with pytest.raises(read.CheckpointDamaged, match="has changed since it was written"):
    read.load_params(tmp_path / "run", 8)
  assert int(averaged(tmp_path / "run", 7)[0].state.step) == 7


@pytest.fixture(scope="module")
def captioner(tmp_path_factory):
  """A captioner that writes other captions by its raw weights than by its EMA, which is that of `models.captioner`."""
  folder = models.captioner(tmp_path_factory.mktemp("averaged") / "run")
  plain = read.load_params(folder)
  state = create_state(jax.tree.map(jnp.asarray, plain), Optimizer(adam, ema_decay=0.5))
  shutil.rmtree(folder / "checkpoints")
  checkpoints = Checkpoints(folder, CheckpointPolicy(asynchronous=False))
  checkpoints.save(models.STEP, state.replace(params=jax.tree.map(lambda leaf: -leaf[...], state.params)))
  checkpoints.close()
  return folder, plain


def test_commands_take_the_ema_or_the_raw_weights(captioner, tmp_path):
  folder, _ = captioner
  plain = models.captioner(tmp_path / "plain")
  image = models.image(tmp_path)
  options = ["--languages=en,th", "--json", image]
  expected = xmcap("caption", f"--model_dir={plain}", *options).succeeded()
  assert "EMA" not in expected.err
  made = xmcap("caption", f"--model_dir={folder}", *options).succeeded(
    "the EMA of the weights (--weights=raw"
  )
  assert made.out == expected.out
  raw = xmcap("caption", f"--model_dir={folder}", "--weights=raw", *options).succeeded("the raw weights")
  assert raw.out != expected.out
  features = [tmp_path / f"{name}.safetensors" for name in ("plain", "ema", "raw")]
  for model, out, more in zip((plain, folder, folder), features, ((), (), ("--weights=raw",)), strict=True):
    xmcap("features", f"--model_dir={model}", f"--out={out}", *more, image).succeeded()
  by_name = [out.read_bytes()[-64:] for out in features]
  assert by_name[0] == by_name[1] != by_name[2]


def test_weights_of_a_run_are_exported_and_converted(captioner, tmp_path):
  from safetensors.numpy import load_file

  folder, plain = captioner
  xmcap("export", f"--model_dir={folder}", "--to=hf", f"--out={tmp_path / 'ema'}").succeeded()
  manifest = json.loads((tmp_path / "ema/captioner.json").read_text())
  assert manifest["weights"] == "ema"
  converted = xmcap("convert", f"--input={folder}", "--to=hf", f"--out={tmp_path / 'converted'}")
  converted.succeeded("(the EMA of its weights)")
  xmcap("convert", f"--input={folder}", "--to=hf", f"--out={tmp_path / 'raw'}", "--weights=raw").succeeded()
  arrays = {
    name: load_file(tmp_path / name / "projection.safetensors")["weight"]
    for name in ("ema", "converted", "raw")
  }
  kernel = plain["projection"]["kernel"].T
  for name, expected in (("ema", kernel), ("converted", kernel), ("raw", -kernel)):
    np.testing.assert_array_equal(arrays[name], expected)


def test_weights_that_are_not_there_are_refused(tmp_path):
  plain = models.captioner(tmp_path / "plain")
  image = models.image(tmp_path)
  caption = ("caption", f"--model_dir={plain}", image)
  xmcap(*caption, "--weights=ema").refused(
    "checkpoints/3: has no EMA of the weights: leave --weights=ema out"
  )
  xmcap(*caption, "--weights=best").refused("--weights")
  with pytest.raises(UsageError, match="weights='best': give one of ema, raw"):
    image_features.which_weights(str(plain), None, "best")
  assert image_features.which_weights(str(plain), None, None) == {}
  convert = ("convert", f"--input={plain}", f"--out={tmp_path / 'out'}", "--weights=raw")
  xmcap(*convert).refused("--weights is for the weights of a run")
