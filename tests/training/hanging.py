"""A small run, as one of several processes or alone, that hangs where it is told to; for tests.

python -m tests.training.hanging MODEL_DIR WHERE WHO [PORT INDEX]: WHERE is `evaluator`, `data` or `step`, where the
process of number WHO hangs; `nowhere`; `scratch`, the same with that asked for; or `slow`: the evaluation of step 4
takes longer than any test.
"""

import os
import sys
import threading
import time

import jax
import numpy as np
from jax.experimental import multihost_utils

from tests.training.toy import ToyObjective, ToyStream
from xmcap.errors import RestartError, XmcapError
from xmcap.training import sharding
from xmcap.training.checkpoints.retention import CheckpointPolicy
from xmcap.training.hooks import hooks
from xmcap.training.hosts import join as hosts
from xmcap.training.hosts import stopping, watch
from xmcap.training.loop import train
from xmcap.training.optimizer import Optimizer, adam
from xmcap.training.reporting.writers import Writers
from xmcap.training.run import Start
from xmcap.training.schedule import ConstantThenRsqrt

STEPS, LIMIT = 6, 8.0


def hang():
  threading.Event().wait()


class Evaluator:
  """Batches in which all processes work together."""

  def __init__(self, where, hangs):
    self.batches = 1000 if where == "slow" else 4
    self.seconds = 0.1 if where == "slow" else 0
    self.hangs = hangs and where == "evaluator"

  def run(self, params, step):
    for number in range(1, self.batches + 1):
      stopping.evaluation_batch(f"batch {number} of the slow evaluator")
      if self.hangs and number == 3:
        hang()
      total = multihost_utils.process_allgather(np.array([number])).sum()
      time.sleep(self.seconds)
      print(f"evaluated batch {number} of step {step}", flush=True)
    yield "", "total", float(total)


def run(model_dir, where, hangs):
  stream = ToyStream(on_batch=lambda step: hangs and where == "data" and step == 4 and hang())
  if hangs and where == "step":
    put_batch, steps = sharding.put_batch, []

    def hang_at_5(*arguments):
      steps.append(1)
      return put_batch(*arguments) if len(steps) < 5 else hang()

    sharding.put_batch = hang_at_5
  optimizer = Optimizer(adam, ConstantThenRsqrt(learning_rate=1e-2, constant_steps=None))
  seconds = LIMIT if where == "data" else 600
  return train(model_dir, ToyObjective(), stream, STEPS, optimizer, checkpoint=CheckpointPolicy(every=3),
               hooks=hooks(log_every=1, evaluators=[Evaluator(where, hangs)], eval_every=4), data_timeout=seconds,
               writers=Writers(tensorboard=False),
               start=Start(from_scratch=where == "scratch"))  # fmt: skip


def main(model_dir, where, who, port="", index="0"):
  # A run in which nothing hangs has the limits of any run.
  hangs = where not in ("nowhere", "scratch", "slow")
  limits = watch.HangLimits(step=LIMIT, evaluation=LIMIT) if hangs else watch.HangLimits()
  place = (f"localhost:{port}", 2, int(index)) if port else (None, 1, None)
  try:
    with hosts.joined(*place, limits=limits):
      result = run(model_dir, where, hangs=hangs and index == who)
    code = 0 if result.finished else RestartError.exit_code
  except XmcapError as error:
    print(f"xmcap: {error}", file=sys.stderr, flush=True)
    code = error.exit_code
  sys.stdout.flush()
  os._exit(code)


if __name__ == "__main__":
  jax.config.update("jax_platforms", "cpu")
  main(*sys.argv[1:])
