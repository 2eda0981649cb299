"""The numbers of a run, by their names in `metrics.jsonl` and TensorBoard. Capitals stand for parts of names."""

from xmcap.training.reporting import goodput

NAMES = {
  "train/loss": "with z-loss and label smoothing; mean over the finite steps since the last report, as the next seven",
  "train/cross_entropy": "in nats",
  "train/accuracy": "share of tokens (tagger: tags; labels: pictures) predicted as most likely",
  "train/labels_loss": "tagger: loss of which tags are present",
  "train/exact": "tagger: share of pictures with all tags right",
  "train/similarity": "dual tower: cosine of a caption and its picture",
  "train/scale, train/bias": "dual tower: scale and bias of the cosines",
  "train/weight": "tokens of a batch without padding (tagger, labels: pictures; dual tower: captions)",
  "train/grad_norm, train/learning_rate": "of the last step; L2 norm of the gradient before clipping",
  "train/skipped, train/skipped_in_a_row": "non-finite steps since the run began; the most in a row",
  "grad_norm/PART, update_norm/PART, param_norm/PART": "L2 norms of parts such as `vit`, of the last step",
  "speed/step_seconds, speed/step_seconds_p50, speed/step_seconds_p95": "mean, percentiles; with waiting for data",
  "speed/steps_per_second": "of all devices, as the next three",
  "speed/pictures_per_second, speed/captions_per_second, speed/tokens_per_second": "tokens without padding",
  "speed/mfu": "the model's matrix products, without recomputation, relative to the devices' bfloat16 peak",
  "memory/peak_bytes, memory/peak_share": "of process 0's fullest device",
  "time/waiting_for_data, time/evaluating, time/saving, time/compiling, time/profiling": "shares of the time since the "
  "last report",
  "compile_seconds/LENGTH": "compiling for targets of LENGTH tokens (`compile_seconds/step`: other objectives)",
  goodput.SECONDS: "wall time since the first start",
  **{f"goodput/{kind}": f"its share: {text}" for kind, text in goodput.KINDS.items()},
  "eval/NAME, eval/NAME/LANGUAGE": "results of evaluators",
}
"""Names, separated by commas -> what they mean."""
