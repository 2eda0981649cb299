"""Captions equal, token for token, to those of transformers 5.23.0 (torch 2.13.0) with the same random weights.

`generate` in float32 over 80 prompts of 1 to 12 tokens, and over pictures before prompts. Equal but for ties: two
hypotheses whose scores differ by less than float32 rounds to; these weights give none.
"""

import functools
from unittest import mock

import jax
import numpy as np
import pytest

from tests import drawn_params
from tests.convert.conftest import params_of
from tests.make.command import xmcap
from xmcap.models import stacking
from xmcap.models.captioner import Captioner
from xmcap.models.decoding.beam_search import Beam
from xmcap.models.decoding.generator import Generator
from xmcap.models.decoding.search import Greedy
from xmcap.models.t5 import Decoder, Encoder, T5Config, TokenEmbedder
from xmcap.models.vit import ViTConfig

# A vocabulary that is searched by its blocks (see search.top_tokens).
VOCABULARY, MAX_LENGTH = 2112, 14
T5 = T5Config(VOCABULARY, 16, 2, 12, 2, 3, 20, dtype="float32")


@pytest.fixture(scope="module")
def mt5():
  torch = pytest.importorskip("torch")
  transformers = pytest.importorskip("transformers")
  torch.manual_seed(0)
  model = transformers.MT5ForConditionalGeneration(
    transformers.MT5Config(
      vocab_size=VOCABULARY, d_model=16, d_kv=12, d_ff=20, num_layers=2, num_decoder_layers=3, num_heads=2,
      dropout_rate=0.0, feed_forward_proj="gated-gelu", tie_word_embeddings=False,
    )
  ).eval()  # fmt: skip
  with torch.no_grad():
    for p in model.parameters():
      p += 0.3 * torch.randn_like(p)
    # Softer logits, and EOS often among the likely tokens, so that hypotheses of many lengths compete.
    model.lm_head.weight *= 0.5
    model.lm_head.weight[1] *= 4
  return model


@pytest.fixture(scope="module")
def params(mt5, tmp_path_factory):
  folder = tmp_path_factory.mktemp("mt5")
  mt5.save_pretrained(folder / "theirs")
  xmcap("convert", f"--input={folder / 'theirs'}", f"--out={folder / 'ours'}").succeeded()
  return stacking.stack(params_of(folder / "ours"))


@pytest.fixture(scope="module")
def prompts():
  rng = np.random.RandomState(0)
  lengths = rng.randint(1, 13, 80)
  return np.where(np.arange(12) < lengths[:, None], rng.randint(2, VOCABULARY, (80, 12)), 0).astype(np.int32)


def _until_eos(rows):
  """Lists of tokens, EOS included: what stands behind it differs (padding here, EOS again there)."""
  rows = np.asarray(rows).tolist()
  return [row[: row.index(1) + 1] if 1 in row else row for row in rows]


def _theirs(mt5, mask, options, **inputs):
  import torch

  options = {"max_new_tokens": MAX_LENGTH, "do_sample": False, "num_beams": 4, **options}
  # Its cache takes the encoder's depth for the decoder's.
  with torch.inference_mode(), mock.patch.object(mt5.config, "num_layers", 3):
    found = mt5.generate(attention_mask=torch.tensor(mask).long(), **inputs, **options)
  return _until_eos(found[:, 1:])


@functools.partial(jax.jit, static_argnames="search")
def _search(params, prompts, search):
  """A search over text alone."""
  mask = prompts != 0
  decoder = {"params": stacking.unstack(params["decoder"])}
  stepwise = Decoder(T5, stepwise=True)
  embed = lambda tokens: TokenEmbedder(T5).apply({"params": params["token_embedder"]}, tokens)  # noqa: E731
  encoded = Encoder(T5).apply({"params": params["encoder"]}, embed(prompts), mask)
  cross, cache = stepwise.apply(decoder, encoded, mask, MAX_LENGTH, search.beams, method="start")

  def step(tokens, position, cross, cache):
    hidden, cache = stepwise.apply(decoder, embed(tokens), position, cross, cache, method="step")
    return stepwise.apply(decoder, hidden, method="logits"), cache

  return search.run(step, cross, cache, MAX_LENGTH, np.zeros(len(prompts)))


SEARCHES = {
  "greedy": (Greedy(), {"num_beams": 1}),
  # The canonical one, where nothing is missed, and transformers' defaults.
  "beam4-never": (Beam(4, 1.0, "transformers"), {"length_penalty": 1.0, "early_stopping": "never"}),
  "beam4-default": (Beam(4, 1.0, "transformers", False), {"length_penalty": 1.0, "early_stopping": False}),
  "beam4-early": (Beam(4, 1.0, "transformers", True), {"length_penalty": 1.0, "early_stopping": True}),
  "beam4-long": (Beam(4, 2.0, "transformers", False), {"length_penalty": 2.0, "early_stopping": False}),
  "beam4-plain": (Beam(4, 0.0, "transformers"), {"length_penalty": 0.0, "early_stopping": False}),
}
# Daily, the default is compared after pictures, and greedy search with that of exported models (tests/export).
RARE = ("greedy", "beam4-default", "beam4-long", "beam4-plain", "beam4-never")
DAILY = tuple(name for name in SEARCHES if name not in RARE)


@pytest.mark.parametrize("name", [*DAILY, *(pytest.param(name, marks=pytest.mark.full) for name in RARE)])
def test_tokens_equal_transformers_generate(mt5, params, prompts, name):
  import torch

  search, options = SEARCHES[name]
  tokens, _ = _search(params, prompts, search)
  expected = _theirs(mt5, prompts != 0, options, input_ids=torch.tensor(prompts).long())
  assert _until_eos(tokens) == expected
  # Of many lengths, some cut: else much of what is compared would never be met.
  lengths = [len(tokens) for tokens in expected]
  assert len(set(lengths)) >= 8 and max(lengths) == MAX_LENGTH


@pytest.mark.full
def test_decoding_settings_differ_on_these_weights(params, prompts):
  names = (*DAILY, "beam4-default")
  found = {name: _until_eos(_search(params, prompts, SEARCHES[name][0])[0]) for name in names}
  found["t5x"] = _until_eos(_search(params, prompts, Beam(4, 1.0))[0])
  for one in found:
    assert all(found[one] != found[other] for other in found if other != one), one


@pytest.mark.parametrize("name", ["beam4-default", pytest.param("greedy", marks=pytest.mark.full)])
def test_tokens_after_images_equal_transformers_generate(mt5, params, name):
  import torch

  search, options = SEARCHES[name]
  vit = ViTConfig(16, 1, 24, 2, 4, 12, pool="none", dtype="float32")
  captioner = Captioner(vit, T5)
  rng = np.random.RandomState(0)
  image = rng.randint(0, 256, (7, 12, 12, 3)).astype(np.uint8)
  prompt = rng.randint(2, VOCABULARY, (12, 3)).astype(np.int32)
  prompt[::2, 2] = 0
  params = {**drawn_params.of(functools.partial(captioner.init, method="encode_image"), image), **params}
  tokens, _ = Generator(captioner, search, MAX_LENGTH)(params, image, prompt)

  encode = jax.jit(functools.partial(captioner.apply, method="encode_image"))
  features = torch.tensor(np.asarray(encode({"params": params}, image)))
  features, prompt = features.repeat_interleave(12, dim=0), np.tile(prompt, (7, 1))
  mask = np.concatenate([np.ones((len(prompt), features.shape[1]), bool), prompt != 0], axis=1)
  with torch.inference_mode():
    embedded = torch.cat([features, mt5.shared(torch.tensor(prompt).long())], dim=1)
    encoded = mt5.encoder(inputs_embeds=embedded, attention_mask=torch.tensor(mask).long())
  expected = _theirs(mt5, mask, options, encoder_outputs=encoded)
  assert _until_eos(np.asarray(tokens).reshape(7 * 12, -1)) == expected
