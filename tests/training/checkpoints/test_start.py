import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import save_file

from tests.training.checkpoints.test_write import OPTIMIZER, assert_same, begin, cut_short, fresh, write
from tests.training.toy import ToyObjective, ToyStream
from xmcap.errors import UsageError, XmcapError
from xmcap.training.checkpoints.write import CheckpointPolicy, Checkpoints
from xmcap.training.sharding import Partitioning
from xmcap.training.state import plan_state
from xmcap.training.step import create_state


def test_starts_1_from_its_own_checkpoint(tmp_path):
  write(tmp_path / "own", [4])
  write(tmp_path / "other", [9])
  state, origin = begin(tmp_path / "own", initial_checkpoint=str(tmp_path / "other"))
  assert int(state.step) == 4 and origin.startswith("resuming from step 4")


def damaged(folder):
  """A run none of whose checkpoints can be read: moved aside, and refused."""
  write(folder, [4, 9])
  for step in "49":
    cut_short(folder / "checkpoints" / step)
  with pytest.raises(XmcapError, match=refusal(folder)) as error:
    begin(folder)
  assert "\n" not in str(error.value)
  return folder


def refusal(folder):
  return rf"none of the checkpoints \[4, 9\] can be read; they are in {folder}/damaged: .*--from_scratch"


@pytest.mark.parametrize("given", ["nothing", "initial_checkpoint", "pretrained"])
def test_starts_2_refuses_when_all_checkpoints_are_damaged(tmp_path, given):
  own = damaged(tmp_path / "own")
  write(tmp_path / "other", [2])
  arguments = {} if given == "nothing" else {given: str(tmp_path / "other")}
  for _ in range(2):  # again and again
    with pytest.raises(XmcapError, match=refusal(own)):
      begin(own, **arguments)
  assert int(begin(own, **arguments, from_scratch=True)[0].step) == (
    2 if given == "initial_checkpoint" else 0
  )
  # Asked for once, it is not given up for ever: until a checkpoint is written, the next start asks again.
  with pytest.raises(XmcapError, match=refusal(own)):
    begin(own, **arguments)
  (own / "damaged").rename(tmp_path / "seen")
  begin(own, **arguments)


def test_starts_2_refuses_when_orbax_cannot_list_checkpoints(tmp_path):
  write(tmp_path, [4, 9])
  for step in "49":
    (tmp_path / "checkpoints" / step / "_CHECKPOINT_METADATA").write_text("[" * 100_000)
  with pytest.raises(XmcapError, match=refusal(tmp_path)):
    begin(tmp_path)
  assert begin(tmp_path, from_scratch=True)[1] == "starting from scratch"


def test_starts_1_from_a_checkpoint_written_after_damage(tmp_path):
  own = damaged(tmp_path / "own")
  write(own, [5])
  assert begin(own)[1].startswith("resuming from step 5")
  assert begin(own, from_scratch=True)[1].startswith("resuming from step 5")


def test_starts_3_from_a_given_checkpoint_with_its_step_and_optimizer(tmp_path):
  write(tmp_path / "other", [8, 9])
  state, origin = begin(tmp_path / "own", initial_checkpoint=str(tmp_path / "other"))
  assert_same(state, fresh(seed=9, step=9))
  assert "continuing from" in origin and "checkpoints/9" in origin


def test_starts_4_from_pretrained_parts_and_leaves_the_rest(tmp_path):
  def tower(seed):
    return {"kernel": jnp.full((2, 3), float(seed)), "bias": jnp.full(3, float(seed))}

  checkpoints = Checkpoints(tmp_path / "tags")
  checkpoints.save(
    6, create_state({"vit": tower(1), "vitality": jnp.ones(1), "head": jnp.ones(4)}, OPTIMIZER)
  )
  checkpoints.close()
  mine = create_state({"vit": tower(2), "decoder": jnp.zeros(5)}, OPTIMIZER)
  state, origin = begin(tmp_path / "own", mine, pretrained=[(str(tmp_path / "tags"), "vit")])
  assert_same(state, mine.replace(params={"vit": tower(1), "decoder": jnp.zeros(5)}))
  assert "vit from" in origin


def test_starts_4_from_converted_weights_in_a_bucket(tmp_path, store):
  folder = store.folder / "vit"
  folder.mkdir()
  save_file({"vit/kernel": np.ones((2, 3), np.float32)}, folder / "params.safetensors")
  mine = create_state({"vit": {"kernel": jnp.zeros((2, 3))}, "decoder": jnp.zeros(5)}, OPTIMIZER)
  state, origin = begin(tmp_path / "own", mine, pretrained=[("gs://bucket/vit", "vit")])
  assert_same(state, mine.replace(params={"vit": {"kernel": jnp.ones((2, 3))}, "decoder": jnp.zeros(5)}))
  assert "vit from gs://bucket/vit" in origin
  (folder / "params.safetensors").write_bytes(b"\xff" * 40)
  with pytest.raises(UsageError, match="gs://bucket/vit/params.safetensors: not a safetensors file"):
    begin(tmp_path / "another", mine, pretrained=[("gs://bucket/vit", "vit")])


@pytest.mark.parametrize("parts", [(), ("",)], ids=["a folder", "a folder and all its parts"])
def test_starts_4_with_all_parameters_of_another_run(tmp_path, parts):
  write(tmp_path / "other", [9])
  other = str(tmp_path / "other")
  state, origin = begin(tmp_path / "own", pretrained=[(other, *parts) if parts else other])
  assert int(state.step) == 0 and "randomly initialized" not in origin
  assert_same(state.params, fresh(seed=9).params)


def test_starts_4_with_the_best_checkpoint_of_a_run_that_has_one(tmp_path):
  policy = CheckpointPolicy(best_metric="cider", keep=1)
  write(tmp_path / "other", [3, 6, 9], policy, metrics=[0.1, 0.3, 0.2])
  state, origin = begin(tmp_path / "own", pretrained=str(tmp_path / "other"))
  assert_same(state.params, fresh(seed=6).params)
  assert f"from {tmp_path}/other/checkpoints/6" in origin
  # One checkpoint is named by its own folder.
  state, _ = begin(tmp_path / "another", pretrained=str(tmp_path / "other/checkpoints/9"))
  assert_same(state.params, fresh(seed=9).params)


def test_starts_5_from_scratch(tmp_path):
  state, origin = begin(tmp_path)
  assert_same(state, fresh())
  assert origin == "starting from scratch"


@pytest.mark.parametrize(
  "mine, prefix, message",
  [({"vit": {"kernel": (2, 4)}}, "vit", r"vit/kernel has shape \(2, 3\), but \(2, 4\) in this model"),
   ({"vit": {"kernel": (2, 3), "extra": (1,)}}, "vit", r"vit/extra \(1,\) of this model is missing"),
   ({"vit": {"kernel": (2, 3)}}, "decoder", "no parameters below 'decoder'; its parts are vit")],
)  # fmt: skip
def test_mismatched_pretrained_parts_are_refused(tmp_path, mine, prefix, message):
  checkpoints = Checkpoints(tmp_path / "tags")
  checkpoints.save(1, create_state({"vit": {"kernel": jnp.ones((2, 3))}}, OPTIMIZER))
  checkpoints.close()
  params = jax.tree.map(jnp.zeros, mine, is_leaf=lambda x: isinstance(x, tuple))
  with pytest.raises(XmcapError, match=message):
    begin(tmp_path / "own", create_state(params, OPTIMIZER), pretrained=[(str(tmp_path / "tags"), prefix)])


def test_given_checkpoint_and_pretrained_parts_exclude_each_other(tmp_path):
  with pytest.raises(UsageError, match="not both"):
    begin(tmp_path, initial_checkpoint="a", pretrained=[("b", "vit")])


# ---- folders of converted weights ----------------------------------------------------------------


def write_converted(folder, flat):
  """A folder as `xmcap convert` leaves it."""
  folder.mkdir()
  save_file(flat, folder / "params.safetensors")
  return str(folder)


def positions(side, seed=0):
  return np.random.RandomState(seed).standard_normal((side * side, 4)).astype(np.float32)


def layers(stack, number, seed=0):
  """{path: array} of layers one by one."""
  return {
    f"{stack}/layers_{n}/kernel": np.random.RandomState(seed + n).standard_normal((2, 3)).astype(np.float32)
    for n in range(number)
  }


def model_of(tree):
  return create_state(jax.tree.map(jnp.asarray, tree), OPTIMIZER)


def test_converted_folder_initializes_its_parameters_and_names_the_rest(tmp_path):
  folder = write_converted(tmp_path / "vit", {"vit/norm/scale": np.full(3, 7.0, np.float32)})
  mine = model_of(
    {
      "vit": {"norm": {"scale": np.zeros(3)}, "head": {"kernel": np.ones(2)}},
      "decoder": {"a": {"b": np.ones(1)}},
    }
  )
  state, origin = begin(tmp_path / "own", mine, pretrained=folder)
  assert_same(state.params, mine.params | {"vit": mine.params["vit"] | {"norm": {"scale": jnp.full(3, 7.0)}}})
  assert_same(state.opt_state, mine.opt_state)
  assert origin == f"starting with vit from {folder}; randomly initialized: decoder, vit/head"


def test_pretrained_takes_a_list_of_folders_and_pairs(tmp_path):
  one = write_converted(tmp_path / "one", {"vit/a": np.full(2, 1.0, np.float32)})
  two = write_converted(
    tmp_path / "two", {"encoder/a": np.full(2, 2.0, np.float32), "left": np.zeros(9, np.float32)}
  )
  mine = model_of({"vit": {"a": np.zeros(2)}, "encoder": {"a": np.zeros(2)}})
  state, origin = begin(tmp_path / "own", mine, pretrained=[one, (two, "encoder")])
  assert_same(state.params, {"vit": {"a": jnp.full(2, 1.0)}, "encoder": {"a": jnp.full(2, 2.0)}})
  assert origin == f"starting with vit from {one}, encoder from {two}"


def test_weights_are_cast_to_the_models_dtype(tmp_path):
  numbers = np.random.RandomState(0).standard_normal(5).astype(ml_dtypes.bfloat16)
  folder = write_converted(tmp_path / "vit", {"vit/a": numbers})
  state, _ = begin(tmp_path / "own", model_of({"vit": {"a": np.zeros(5, np.float32)}}), pretrained=folder)
  assert state.params["vit"]["a"].dtype == jnp.float32
  assert_same(state.params["vit"]["a"], numbers.astype(np.float32))


def test_positions_of_another_grid_are_resized_and_that_is_said(tmp_path):
  """2 x 2 to 3 x 3 by hand: corners stay, edges are means of two, the middle is the mean of all."""
  folder = write_converted(tmp_path / "vit", {"vit/position_embedding": positions(2)})
  mine = model_of({"vit": {"position_embedding": np.zeros((9, 4), np.float32)}})
  state, origin = begin(tmp_path / "own", mine, pretrained=folder)
  (a, b), (c, d) = positions(2).reshape(2, 2, 4)
  expected = [a, (a + b) / 2, b, (a + c) / 2, (a + b + c + d) / 4, (b + d) / 2, c, (c + d) / 2, d]
  np.testing.assert_allclose(state.params["vit"]["position_embedding"], np.stack(expected), rtol=0, atol=1e-6)
  assert "vit/position_embedding resized from 2 x 2 to 3 x 3 patches" in origin


def test_positions_of_no_square_are_not_resized(tmp_path):
  folder = write_converted(tmp_path / "vit", {"vit/position_embedding": np.zeros((5, 4), np.float32)})
  mine = model_of({"vit": {"position_embedding": np.zeros((9, 4), np.float32)}})
  with pytest.raises(XmcapError, match=r"has shape \(5, 4\), but \(9, 4\) in this model"):
    begin(tmp_path / "own", mine, pretrained=folder)


def stacked(flat):
  stack = next(iter(flat)).split("/")[0]
  return {stack: {"layers": {"kernel": np.stack(list(flat.values()))}}}


def test_single_layers_are_stacked(tmp_path):
  flat = layers("encoder", 3)
  folder = write_converted(tmp_path / "t5", flat)
  mine = model_of({"encoder": {"layers": {"kernel": np.zeros((3, 2, 3), np.float32)}}})
  state, _ = begin(tmp_path / "own", mine, pretrained=folder)
  assert_same(state.params, jax.tree.map(jnp.asarray, stacked(flat)))


@pytest.mark.parametrize(
  "flat, message",
  [
    ({"vit/a": np.zeros((2, 3), np.float32)}, r"vit/a has shape \(2, 3\), but \(4,\) in this model: give --gin"),
    ({"vit/a": np.zeros(4, np.float32), "head/b": np.zeros(2, np.float32)}, r"head/b \(2,\) \(and 0 more\) is not in"),
    ({"vit/a": np.zeros(4, np.int32)}, r"vit/a \(4,\) is int32"),
  ],
)  # fmt: skip
def test_mismatched_converted_folders_are_refused(tmp_path, flat, message):
  folder = write_converted(tmp_path / "vit", flat)
  with pytest.raises(XmcapError, match=message):
    begin(tmp_path / "own", model_of({"vit": {"a": np.zeros(4)}}), pretrained=folder)


def test_pretrained_parameter_in_two_folders_is_refused(tmp_path):
  folders = [write_converted(tmp_path / name, {"vit/a": np.zeros(4, np.float32)}) for name in "ab"]
  with pytest.raises(UsageError, match="vit/a is in .*/b and in an earlier one"):
    begin(tmp_path / "own", model_of({"vit": {"a": np.zeros(4)}}), pretrained=folders)


def test_truncated_safetensors_file_is_refused(tmp_path):
  folder = write_converted(tmp_path / "vit", {"vit/a": np.zeros(4, np.float32)})
  file = tmp_path / "vit/params.safetensors"
  file.write_bytes(file.read_bytes()[:-3])
  with pytest.raises(UsageError, match="params.safetensors: not a complete safetensors file"):
    begin(tmp_path / "own", model_of({"vit": {"a": np.zeros(4)}}), pretrained=folder)


@pytest.mark.parametrize("item", [3, ("a", "b", "c"), ("a", 1)])
def test_pretrained_item_that_is_no_folder_or_pair_is_refused(tmp_path, item):
  with pytest.raises(UsageError, match="is neither a folder nor a"):
    begin(tmp_path / "own", pretrained=[item])


def test_missing_pretrained_folder_is_refused(tmp_path):
  with pytest.raises(UsageError, match="no checkpoint found"):
    begin(tmp_path / "own", pretrained=str(tmp_path / "absent"))


def test_plan_state_initializes_only_parameters_not_replaced():
  partitioning = Partitioning()
  batch = {name: array for name, array in ToyStream().batch(0).items() if name != "key"}
  plan = plan_state(
    ToyObjective(), OPTIMIZER, batch, partitioning.mesh(jax.devices()[:1]), partitioning.logical_rules()
  )
  all_fresh, some = plan.create(), plan.create(["wo"])
  assert np.any(all_fresh.params["wo"]) and not np.any(some.params["wo"])
  for name in ("wi", "bias"):
    np.testing.assert_array_equal(all_fresh.params[name], some.params[name])
