"""20 steps of the tiny captioner by xmcap's loop and by t5x's trainer, on 8 devices: `python -m tests.t5x.compare`.

Arguments: a folder with `three.gin`, and a folder for the run. Prints {"xmcap": losses, "t5x": losses}.
"""

import json
import sys

import flax
import jax
from t5x import adafactor, trainer, utils

from tests.t5x import corpus
from xmcap import configuration, gin_files
from xmcap.data.stream import CaptionStream
from xmcap.models.t5 import T5Config
from xmcap.models.vit import ViTConfig
from xmcap.t5x import adapter as t5x_adapter
from xmcap.training import loop
from xmcap.training import optimizer as optimizer_lib
from xmcap.training.checkpoints.write import CheckpointPolicy
from xmcap.training.hooks import hooks
from xmcap.training.metrics import TrainingProgress
from xmcap.training.objectives import CaptionObjective
from xmcap.training.reporting.writers import Writers
from xmcap.training.run import Start
from xmcap.training.schedule import ConstantThenRsqrt
from xmcap.training.sharding import Partitioning
from xmcap.training.state import plan_state

STEPS = 20
SCHEDULE = ConstantThenRsqrt(learning_rate=2e-2, constant_steps=10)


def xmcap_losses(objective, stream, optimizer, run):
  losses = []
  report = TrainingProgress.report

  def noted(self, step):
    measured = report(self, step)
    losses.append(measured["loss"])
    return measured

  TrainingProgress.report = noted
  loop.train(run, objective, stream, STEPS, optimizer, checkpoint=CheckpointPolicy(every=0),
             hooks=hooks(log_every=1), partitioning=Partitioning(data=4, model=2), writers=Writers(tensorboard=False),
             start=Start(say=lambda line: None))  # fmt: skip
  return losses[:STEPS]


def t5x_losses(objective, stream, optimizer):
  model = t5x_adapter.CaptionerModel(
    t5x_adapter.captioner(), "three", adafactor.Adafactor(logical_factor_rules=t5x_adapter.factor_rules())
  )
  partitioner = t5x_adapter.Partitioner(num_partitions=2, logical_axis_rules=t5x_adapter.logical_axis_rules())
  assert dict(partitioner.mesh.shape) == {"data": 4, "model": 2}
  first = corpus.from_stream(stream.batch(0))
  initializer = utils.TrainStateInitializer(
    model.optimizer_def, model.get_initial_variables, {name: array.shape for name, array in first.items()},
    partitioner, input_types={name: array.dtype for name, array in first.items()},
  )  # fmt: skip
  state = initializer.from_scratch(jax.random.PRNGKey(0))
  partitioning = Partitioning(data=4, model=2)
  numbers = {name: array for name, array in stream.batch(0).items() if name != "key"}
  plan = plan_state(objective, optimizer, numbers, partitioning.mesh(), partitioning.logical_rules())
  state = state.replace_params(flax.core.freeze(jax.device_get(plan.create().params)))
  with trainer.Trainer(
    model, state, partitioner, [], None, initializer.train_state_axes, jax.random.PRNGKey(0),
    t5x_adapter.learning_rate(STEPS, SCHEDULE), None,
  ) as training:  # fmt: skip
    batches = (corpus.from_stream(stream.batch(step)) for step in range(STEPS))
    return [float(training.train(batches, 1).result()["loss"].value) for _ in range(STEPS)]


def main(data_dir, run):
  configuration.parse(
    ["models/tiny.gin", f"{data_dir}/three.gin"], search=gin_files.Search(allow_import=True)
  )
  objective = CaptionObjective(ViTConfig(), T5Config())
  stream = CaptionStream(batch_size=16, prompt_length=4)
  optimizer = optimizer_lib.Optimizer(optimizer_lib.adafactor, SCHEDULE, clip_norm=None)
  theirs = t5x_losses(objective, stream, optimizer)
  ours = xmcap_losses(objective, stream, optimizer, run)
  print(json.dumps({"xmcap": [float(loss) for loss in ours], "t5x": theirs}))


if __name__ == "__main__":
  main(*sys.argv[1:])
