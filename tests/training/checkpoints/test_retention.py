import pytest

from xmcap.errors import UsageError
from xmcap.training.checkpoints.retention import CheckpointPolicy, Note, Retention


def superfluous(steps, scores=None, pending=(), **policy):
  notes = {step: Note("cider", score, score) for step, score in (scores or {}).items()}
  return Retention(CheckpointPolicy(**policy), notes, set(pending)).superfluous(steps)


@pytest.mark.parametrize(
  "policy, known, expected",
  [({"keep": 2}, {}, [2, 4, 6]),
   ({"keep": 1, "keep_every": 4}, {}, [2, 6, 10]),
   ({"keep": 1, "best_metric": "cider"}, {"scores": {2: 0.5, 6: 0.7}}, [2, 4, 8, 10]),
   ({"keep": 1, "best_metric": "cider"}, {"scores": {2: 0.7, 6: 0.7}}, [2, 4, 8, 10]),
   ({"keep": 1}, {"pending": {4}}, [2, 6, 8, 10]),
   ({"keep": 9}, {}, [])],
)  # fmt: skip
def test_superfluous_checkpoints_by_policy(policy, known, expected):
  steps = [2, 4, 6, 8, 10, 12] if expected != [2, 4, 6] else [2, 4, 6, 8, 10]
  assert superfluous(steps, **known, **policy) == expected


def test_checkpoint_policy_due_steps():
  policy = CheckpointPolicy(every=4, keep_every=6)
  assert [step for step in range(1, 13) if policy.due(step)] == [4, 6, 8, 12]
  assert not any(CheckpointPolicy(every=0).due(step) for step in range(1, 9))


def test_checkpoint_policy_copies_on_disk():
  assert CheckpointPolicy(keep=2).copies(100) == 3
  assert CheckpointPolicy(keep=2, best_metric="cider", keep_every=30).copies(100) == 7


@pytest.mark.parametrize("bad", [{"keep": 0}, {"every": -1}, {"minutes": -0.5}, {"keep_every": -3}])
def test_checkpoint_policy_refuses_numbers_out_of_range(bad):
  with pytest.raises(UsageError, match="give keep >= 1, and the others >= 0"):
    CheckpointPolicy(**bad)


def test_checkpoint_policy_refuses_an_unknown_best_mode():
  with pytest.raises(UsageError, match="best_mode is 'most': give 'max' or 'min'"):
    CheckpointPolicy(best_mode="most")
