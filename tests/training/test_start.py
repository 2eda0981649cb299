import jax
import jax.numpy as jnp
import pytest

from tests.training.test_checkpoints import OPTIMIZER, assert_same, begin, fresh, lib, write
from xmcap.errors import UsageError, XmcapError
from xmcap.training.step import create_state


def test_starts_1_from_its_own_checkpoint(tmp_path):
  write(tmp_path / "own", [4])
  write(tmp_path / "other", [9])
  state, origin = begin(tmp_path / "own", initial_checkpoint=str(tmp_path / "other"))
  assert int(state.step) == 4 and origin.startswith("resuming from step 4")


def test_starts_2_from_a_given_checkpoint_with_its_step_and_optimizer(tmp_path):
  write(tmp_path / "other", [8, 9])
  state, origin = begin(tmp_path / "own", initial_checkpoint=str(tmp_path / "other"))
  assert_same(state, fresh(seed=9, step=9))
  assert "going on from" in origin and "checkpoints/9" in origin


def test_starts_3_from_pretrained_parts_and_leaves_the_rest(tmp_path):
  def tower(seed):
    return {"kernel": jnp.full((2, 3), float(seed)), "bias": jnp.full(3, float(seed))}

  checkpoints = lib.Checkpoints(tmp_path / "tags")
  checkpoints.save(
    6, create_state({"vit": tower(1), "vitality": jnp.ones(1), "head": jnp.ones(4)}, OPTIMIZER)
  )
  checkpoints.close()
  mine = create_state({"vit": tower(2), "decoder": jnp.zeros(5)}, OPTIMIZER)
  state, origin = begin(tmp_path / "own", mine, pretrained=[(str(tmp_path / "tags"), "vit")])
  assert_same(state, mine.replace(params={"vit": tower(1), "decoder": jnp.zeros(5)}))
  assert "vit from" in origin


def test_starts_3_with_all_parameters_of_another_run(tmp_path):
  write(tmp_path / "other", [9])
  state, _ = begin(tmp_path / "own", pretrained=[(str(tmp_path / "other"), "")])
  assert int(state.step) == 0
  assert_same(state.params, fresh(seed=9).params)


def test_starts_4_from_scratch(tmp_path):
  state, origin = begin(tmp_path)
  assert_same(state, fresh())
  assert origin == "starting from scratch"


@pytest.mark.parametrize(
  "mine, prefix, message",
  [({"vit": {"kernel": (2, 4)}}, "vit", r"vit/kernel has shape \(2, 3\), and this model's has \(2, 4\)"),
   ({"vit": {"kernel": (2, 3), "extra": (1,)}}, "vit", r"no vit/extra, which this model has \(1,\)"),
   ({"vit": {"kernel": (2, 3)}}, "decoder", "lies below 'decoder'; its parts are vit")],
)  # fmt: skip
def test_pretrained_parts_that_do_not_fit(tmp_path, mine, prefix, message):
  checkpoints = lib.Checkpoints(tmp_path / "tags")
  checkpoints.save(1, create_state({"vit": {"kernel": jnp.ones((2, 3))}}, OPTIMIZER))
  checkpoints.close()
  params = jax.tree.map(jnp.zeros, mine, is_leaf=lambda x: isinstance(x, tuple))
  with pytest.raises(XmcapError, match=message):
    begin(tmp_path / "own", create_state(params, OPTIMIZER), pretrained=[(str(tmp_path / "tags"), prefix)])


def test_given_checkpoint_and_pretrained_parts_exclude_each_other(tmp_path):
  with pytest.raises(UsageError, match="not both"):
    begin(tmp_path, initial_checkpoint="a", pretrained=[("b", "vit")])
