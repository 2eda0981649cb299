"""Streams of the tiny corpus, and what their batches hold."""

import numpy as np

from tests.make.tiny_corpus import SIDE
from xmcap.data.stream import CaptionStream


def captions(corpus, **options) -> CaptionStream:
  defaults = dict(
    batch_size=12, captions_per_image=2, prompt_length=2, target_length=24, image_size=SIDE, processes=False
  )
  return CaptionStream(corpus.name, **{**defaults, **options})


def texts(stream: CaptionStream, batch) -> list[list[tuple[str, str]]]:
  """(language, caption) of every slot, read back from the tokens."""
  by_prompt = {tuple(stream.vocabulary.prompt(code)): code for code in stream.languages}
  return [
    [
      (by_prompt[tuple(prompt[prompt != 0].tolist())], stream.vocabulary.decode(target))
      for prompt, target in zip(*row, strict=True)
    ]
    for row in zip(batch["prompt_tokens"], batch["target_tokens"], strict=True)
  ]


def equal(one, other) -> None:
  assert one.keys() == other.keys()
  for name in one:
    np.testing.assert_array_equal(one[name], other[name], err_msg=name)


def joined(parts):
  return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def dealt_out(stream, step, processes):
  """The batch of a step, read by processes that hold every so manieth row, as the hosts of a slice do."""
  shares = [np.arange(process, stream.num_images, processes) for process in range(processes)]
  batch = joined([stream.batch(step, rows) for rows in shares])
  order = np.argsort(np.concatenate(shares))
  return {name: array[order] for name, array in batch.items()}
