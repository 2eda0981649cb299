"""The evaluators that gin files name: `import xmcap.evaluation.evaluators`.

An evaluator is a small class with a constructor and `run()`, used during training and after it. `run(params, step)`
yields rows (language, name, value); the language `mean` is the mean over all languages. In place of rows that need no
device it may yield a `Deferred`, which a run computes while it trains. An evaluator that decodes may have `samples`,
images with captions from the last `run` (see `samples.of_predictions`). If it has `small(pictures)`, which returns an
evaluator of a few images, `xmcap train --dry_run` runs that.
"""

from xmcap.evaluation.baselines import Baselines
from xmcap.evaluation.caption_evaluator import CaptionEvaluator
from xmcap.evaluation.image_features import ImageEncoder  # of Baselines, which imports it late
from xmcap.evaluation.loss_evaluator import LossEvaluator
from xmcap.evaluation.predictor import Predictor

__all__ = ["Baselines", "CaptionEvaluator", "ImageEncoder", "LossEvaluator", "Predictor"]
