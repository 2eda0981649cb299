"""transformers' side of train_step.py: MT5ForConditionalGeneration and transformers' Adafactor, on the CPU.

Both relative settings of its Adafactor are as T5 wants them: scaled by the parameter, a given rate, no momentum. Its
loss has no z-loss. The number of torch's threads is the best of those tried before the first turn.
"""

import argparse
import os
import time

import torch
import transformers
import turns
from transformers.optimization import Adafactor


def main():
  parser = argparse.ArgumentParser()
  turns.add_options(parser)
  shape = turns.shape_of(parser.parse_args())
  config = transformers.MT5Config(
    vocab_size=shape.vocabulary, d_model=shape.width, d_kv=shape.head_dim, d_ff=shape.mlp,
    num_layers=shape.encoder_layers, num_decoder_layers=shape.decoder_layers, num_heads=shape.heads,
    dropout_rate=0.0, tie_word_embeddings=False, use_cache=False,
  )  # fmt: skip
  torch.manual_seed(0)
  model = transformers.MT5ForConditionalGeneration(config)
  # This version ties the logits to the embedding whatever the configuration says; mT5's are not tied.
  model.lm_head.weight = torch.nn.Parameter(torch.empty_like(model.shared.weight))
  model = model.to(getattr(torch, shape.dtype)).train()
  with torch.no_grad():
    for name, parameter in model.named_parameters():
      # As xmcap's and t5x's in size, not in value: the time of a step does not depend on it.
      if "norm" in name:
        parameter.fill_(1.0)
      else:
        parameter.normal_(0.0, 1.0 if "shared" in name else parameter.shape[-1] ** -0.5)
      if name.endswith(".q.weight"):
        parameter.mul_(shape.head_dim**-0.5)
  optimizer = Adafactor(
    model.parameters(), lr=1e-3, scale_parameter=True, relative_step=False, warmup_init=False
  )
  given = turns.tokens(shape)
  inputs, targets = (torch.from_numpy(given[name]).long() for name in ("inputs", "targets"))
  labels = targets.masked_fill(targets == 0, -100)

  def step() -> torch.Tensor:
    loss = model(input_ids=inputs, attention_mask=inputs != 0, labels=labels).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return loss.detach()

  threads = best_threads(step)
  torch.set_num_threads(threads)

  def steps(count: int):
    for _ in range(count):
      loss = step()
    return lambda: float(loss)

  turns.serve(
    f"transformers {transformers.__version__}, torch {torch.__version__}, {threads} threads",
    {"torch": steps},
    {"parameters": sum(parameter.numel() for parameter in model.parameters())},
  )


def best_threads(step) -> int:
  """Of 1, half and all cores, and twice as many: that with the fastest of two steps."""
  cores = os.cpu_count() or 1
  times = {}
  step()
  for threads in sorted({1, max(1, cores // 2), cores, 2 * cores}):
    torch.set_num_threads(threads)
    for _ in range(2):
      began = time.perf_counter()
      step()
      times[threads] = min(times.get(threads, float("inf")), time.perf_counter() - began)
  return min(times, key=times.get)


if __name__ == "__main__":
  main()
