"""The peer of benchmarks/decoding.py: ViTModel and MT5ForConditionalGeneration of transformers, with our weights."""

import time

import numpy as np
import torch
import transformers
from transformers.core_model_loading import revert_weight_conversion
from transformers.modeling_outputs import BaseModelOutput

from xmcap.convert import hf_t5, hf_vit
from xmcap.convert.source import parameter_shapes
from xmcap.models import stacking
from xmcap.models.decoding.beam_search import Beam
from xmcap.models.t5 import EOS_ID, T5Config
from xmcap.models.vit import ViTConfig


def same_caption(ours, theirs) -> bool:
  """Whether two rows of tokens are the same up to their EOS, behind which each side pads as it likes."""

  def caption(row):
    row = [int(token) for token in row]
    return row[: row.index(EOS_ID) + 1] if EOS_ID in row else row

  return caption(ours) == caption(theirs)


class Peer:
  """Captions by transformers.

  Args:
    vit, t5: the sizes; the ViT as ViTModel is (class token, exact GELU).
    params: of a captioner of ours; copied.
    search: `Greedy()`, or a `Beam` of the convention `transformers`.
    max_length: tokens, at most.
    static_cache: a cache of full length from the beginning, for which `generate` compiles the step.

  It is on the GPU, if torch has one, and in the dtype of `t5`.
  """

  def __init__(
    self, vit: ViTConfig, t5: T5Config, params, search, max_length: int, static_cache: bool = False
  ):
    self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    self.dtype = getattr(torch, t5.dtype)
    flat = stacking.flatten(stacking.unstack(params))
    with torch.device("meta"):
      self.vit = transformers.ViTModel(
        transformers.ViTConfig(
          hidden_size=vit.width, num_hidden_layers=vit.depth, num_attention_heads=vit.num_heads,
          intermediate_size=vit.mlp_dim, image_size=vit.image_size, patch_size=vit.patch_size, hidden_act="gelu",
          layer_norm_eps=vit.norm_epsilon,
        ),
        add_pooling_layer=False,
      )  # fmt: skip
      self.mt5 = transformers.MT5ForConditionalGeneration(
        transformers.MT5Config(
          vocab_size=t5.vocab_size, d_model=t5.emb_dim, d_kv=t5.head_dim, d_ff=t5.mlp_dim,
          num_layers=t5.num_encoder_layers, num_decoder_layers=t5.num_decoder_layers, num_heads=t5.num_heads,
          feed_forward_proj="gated-gelu", tie_word_embeddings=False,
        )
      )  # fmt: skip
      self.projection = torch.nn.Linear(vit.width, t5.emb_dim)
    family = next(family for family in hf_vit.FAMILIES if family.model == "ViTModel")
    _load(self.vit, hf_vit.vit_pairs(family, vit, parameter_shapes(vit)), flat)
    _load(self.mt5, hf_t5.t5_pairs(parameter_shapes(t5)), flat)
    with torch.device("cpu"):
      weight, bias = (np.array(flat[f"projection/{name}"]) for name in ("kernel", "bias"))
    self.projection.load_state_dict(
      {"weight": torch.from_numpy(weight).T.contiguous(), "bias": torch.from_numpy(bias)}, assign=True
    )
    for module in (self.vit, self.mt5, self.projection):
      module.to(self.device, self.dtype)
    self.options = {"max_new_tokens": max_length, "do_sample": False, "num_beams": search.beams}
    if static_cache:
      self.options["cache_implementation"] = "static"
    if isinstance(search, Beam):
      self.options |= {"length_penalty": search.length_penalty, "early_stopping": search.early_stopping}

  @torch.inference_mode()
  def encode_images(self, images: np.ndarray) -> torch.Tensor:
    """[B, H, W, 3] -> [B, 1, E]."""
    pixels = torch.from_numpy(images).to(self.device).permute(0, 3, 1, 2).float() / 127.5 - 1
    return self.projection(self.vit(pixel_values=pixels.to(self.dtype)).last_hidden_state[:, :1])

  @torch.inference_mode()
  def caption(self, features: torch.Tensor, prompts: np.ndarray) -> torch.Tensor:
    """Features [rows, 1, E] before prompts [rows, P] -> tokens [rows, T]."""
    tokens = torch.from_numpy(prompts).long().to(self.device)
    embedded = torch.cat([features, self.mt5.shared(tokens)], dim=1)
    mask = torch.nn.functional.pad(
      (tokens != 0).long(), (1, 0), value=1
    )  # of the picture, then of the prompt
    encoded = self.mt5.encoder(inputs_embeds=embedded, attention_mask=mask).last_hidden_state
    found = self.mt5.generate(
      encoder_outputs=BaseModelOutput(last_hidden_state=encoded), attention_mask=mask, **self.options
    )
    return found[:, 1:].cpu()

  def best(self, images: np.ndarray, prompts: np.ndarray) -> np.ndarray:
    """Every picture encoded once, and one call for all pictures and languages."""
    features = self.encode_images(images).repeat_interleave(len(prompts), dim=0)
    return self.caption(features, np.tile(prompts, (len(images), 1))).numpy()

  def usual(self, images: np.ndarray, prompts: np.ndarray) -> list[np.ndarray]:
    """A call for each language, each with the pictures."""
    return [
      self.caption(self.encode_images(images), np.tile(prompt[prompt != 0], (len(images), 1))).numpy()
      for prompt in prompts
    ]

  def choose_threads(self, images: np.ndarray, prompts: np.ndarray) -> int:
    """Sets the number of threads with which `best` is fastest over a few tokens, and returns it."""
    options, self.options = self.options, self.options | {"max_new_tokens": 3}
    candidates = sorted({1, torch.get_num_threads(), torch.get_num_threads() * 2})
    seconds = dict.fromkeys(candidates, float("inf"))
    # In turns, the best of some tries: other work on the machine can slow any one down.
    for _ in range(3):
      for threads in candidates:
        torch.set_num_threads(threads)
        began = time.perf_counter()
        self.best(images, prompts)
        seconds[threads] = min(seconds[threads], time.perf_counter() - began)
    self.options = options
    fastest = min(seconds, key=seconds.get)
    torch.set_num_threads(fastest)
    return fastest


def _load(model: torch.nn.Module, pairs, flat) -> None:
  """Puts our parameters into a model of transformers that has been made without memory."""
  # The names on disk, which the table of pairs has, to those in memory.
  shapes = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
  names = {}
  for name, tensor in model.state_dict().items():
    (on_disk,) = revert_weight_conversion(model, {name: tensor})
    names[on_disk] = name
  state = {}
  for pair in pairs:
    targets = [names[name] for name in pair.theirs]
    arrays = pair.kind.to_theirs(
      [np.asarray(flat[name]) for name in pair.ours], [shapes[name] for name in targets]
    )
    for name, array in zip(targets, arrays, strict=True):
      state[name] = torch.from_numpy(np.array(array, order="C"))
  for name in ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight"):
    if name in shapes:
      state[name] = state["shared.weight"]
  model.load_state_dict(state, assign=True)
  model.eval()
