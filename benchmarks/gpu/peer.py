"""The training step of the best peer that installs anywhere: transformers' ViT and mT5 in PyTorch.

usage: python benchmarks/gpu/peer.py --json=FILE [--captions 128 512] [--ks 1 8] [--tiny]
bfloat16 by autocast over float32 parameters (as xmcap and t5x have it), SDPA, torch.compile, torch's Adafactor; the
shapes, the loss and the dropout are those of training.py. transformers has no captioner whose captions share a picture:
  K = 1    the usual way: each caption comes with its picture, so K captions of a picture encode it K times
  K > 1    shared by hand: the picture's vector is repeated for its K captions
Where a batch does not fit the memory, that is said. Needs torch and transformers alone; xmcap is not imported.
"""

import functools
import statistics
import time
from collections.abc import Callable
from typing import Any

import recipe
import torch
import transformers

_PROMPT = 4
_GPU = torch.cuda.is_available()
_DEVICE = "cuda" if _GPU else "cpu"


class Captioner(torch.nn.Module):
  """A picture's vector before the embedded prompt, into mT5: (pixels, prompts, targets) -> loss []."""

  def __init__(self, tiny: bool):
    super().__init__()
    width, depth, heads, rows, side = (32, 1, 2, 512, 32) if tiny else (768, 12, 12, 250_112, 224)
    self.vit = transformers.ViTModel(
      transformers.ViTConfig(
        hidden_size=width, num_hidden_layers=depth, num_attention_heads=heads, intermediate_size=4 * width,
        image_size=side, patch_size=16, attn_implementation="sdpa",
      ),
      add_pooling_layer=False,
    )  # fmt: skip
    self.mt5 = transformers.MT5ForConditionalGeneration(
      transformers.MT5Config(
        vocab_size=rows, d_model=width, d_kv=width // heads, d_ff=64 if tiny else 2_048, num_layers=depth,
        num_decoder_layers=depth, num_heads=heads, dropout_rate=0.1, feed_forward_proj="gated-gelu",
        tie_word_embeddings=False, decoder_start_token_id=0,
      )
    )  # fmt: skip
    # Some versions tie the logits to the embedding whatever the configuration says; mT5's are not tied.
    self.mt5.lm_head.weight = torch.nn.Parameter(torch.randn(rows, width) * width**-0.5)
    self.projection = torch.nn.Linear(width, width)
    self.side, self.rows = side, rows

  def forward(self, pixels: torch.Tensor, prompts: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    vectors = self.projection(self.vit(pixel_values=pixels).last_hidden_state[:, :1])
    vectors = vectors.repeat_interleave(prompts.shape[0] // pixels.shape[0], 0)
    embedded = torch.cat([vectors, self.mt5.shared(prompts).to(vectors.dtype)], 1)
    shifted = torch.nn.functional.pad(targets, (1, 0))[:, :-1]
    logits = self.mt5(inputs_embeds=embedded, decoder_input_ids=shifted, use_cache=False).logits.float()
    log_z = torch.logsumexp(logits, -1)
    losses = log_z - logits.gather(-1, targets[..., None])[..., 0] + 1e-4 * log_z**2
    return losses.mean()


def main() -> None:
  parser = recipe.options(__doc__)
  parser.add_argument("--captions", type=int, nargs="+", default=[128, 512], help="of a step")
  parser.add_argument("--ks", type=int, nargs="+", default=[1, 8], help="captions a picture")
  parser.add_argument("--steps", type=int, default=5, help="of which the time is taken together")
  arguments = parser.parse_args()
  torch.manual_seed(0)
  torch.set_float32_matmul_precision("high")
  model = Captioner(arguments.tiny).to(_DEVICE).train()
  # Each shape is compiled for itself. A rehearsal traces without making kernels, which takes a compiler minutes.
  compiled = torch.compile(model, dynamic=False, backend="aot_eager" if arguments.tiny else "inductor")
  optimizer = torch.optim.Adafactor(model.parameters(), lr=1e-4, foreach=_GPU)
  cases = []
  for captions in arguments.captions:
    for captions_per_image in arguments.ks:
      names = {
        "way": "usual" if captions_per_image == 1 else "shared by hand", "captions": captions,
        "captions_per_image": captions_per_image, "attention": model.mt5.config._attn_implementation,
      }  # fmt: skip
      run = functools.partial(step, compiled, optimizer, *batch(model, captions, captions_per_image))
      with recipe.turn(alone=False):
        cases.append((run, {**names, **guarded(functools.partial(first, run), optimizer)}))
      print(cases[-1][1], flush=True)
  found = []
  for run, case in cases:
    # If it did not fit beside others, it may fit alone.
    case.pop("error", None)
    with recipe.turn(alone=True):
      case |= guarded(functools.partial(measure, run, case["captions"], arguments.steps), optimizer)
    found.append(case)
    recipe.write(arguments.json, found)
    print(case, flush=True)


def guarded(measure: Callable[[], dict[str, Any]], optimizer: torch.optim.Optimizer) -> dict[str, Any]:
  """What `measure` returns, or that the memory does not suffice; leaves the memory free."""
  try:
    found = measure()
  except torch.OutOfMemoryError as error:
    found = {"error": str(error).partition("\n")[0][:300]}
    optimizer.zero_grad(set_to_none=True)
  torch.cuda.empty_cache()
  return found


def batch(model: Captioner, captions: int, captions_per_image: int) -> tuple[torch.Tensor, ...]:
  """Random pixels [C / K, 3, H, W], prompts [C, P] and targets [C, T] for C captions."""
  pixels = torch.randn(captions // captions_per_image, 3, model.side, model.side, device=_DEVICE)
  prompts, targets = (
    torch.randint(2, model.rows, (captions, length), device=_DEVICE) for length in (_PROMPT, recipe.TOKENS)
  )
  return pixels, prompts, targets


def step(model, optimizer, pixels, prompts, targets) -> torch.Tensor:
  """One step of training; the loss."""
  with torch.autocast(_DEVICE, torch.bfloat16):
    loss = model(pixels, prompts, targets)
  loss.backward()
  optimizer.step()
  optimizer.zero_grad(set_to_none=True)
  return loss.detach()


def first(run: Callable[[], torch.Tensor]) -> dict[str, float]:
  """Seconds of the first step, in which the program is compiled, and its loss."""
  began = time.perf_counter()
  loss = float(run())
  return {"compile_seconds": time.perf_counter() - began, "loss": loss}


def measure(run: Callable[[], torch.Tensor], captions: int, steps: int) -> dict[str, Any]:
  """The median time of a step, and the peak of the memory."""
  run()
  _wait()
  if _GPU:
    torch.cuda.reset_peak_memory_stats()
  times = []
  for _ in range(5):
    began = time.perf_counter()
    for _ in range(steps):
      run()
    _wait()
    times.append((time.perf_counter() - began) / steps)
  seconds = statistics.median(times)
  return {
    "step_ms": seconds * 1e3, "spread_ms": (max(times) - min(times)) * 1e3, "captions_per_second": captions / seconds,
    "peak_bytes": torch.cuda.max_memory_allocated() if _GPU else None,
  }  # fmt: skip


def _wait() -> None:
  if _GPU:
    torch.cuda.synchronize()


if __name__ == "__main__":
  main()
