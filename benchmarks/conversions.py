"""How far converted weights are from the models that they come from.

Makes small models of transformers with random weights, in the shapes that are published and in others, converts them,
and compares logits (T5) or unit embeddings of pictures and texts (dual towers).

usage: python benchmarks/conversions.py     (needs torch and transformers)
"""

import contextlib
import importlib.metadata
import io
import pathlib
import sys
import tempfile

import numpy as np
import report

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
_T5 = {
  "mT5, logits apart": ("MT5", {}),
  "mT5, 4 heads of 8, 1 + 1 layers": ("MT5", {"num_heads": 4, "d_kv": 8, "d_ff": 44, "num_layers": 1,
                                              "num_decoder_layers": 1}),
  "mT5 without a head": ("MT5", {"tied": True}),
  "T5.1.1": ("T5", {"tie_word_embeddings": False}),
  "T5.1.1, `gated-silu`": ("T5", {"tie_word_embeddings": False, "feed_forward_proj": "gated-silu"}),
  "T5 of 2019: `relu`, tied": ("T5", {"head": False, "feed_forward_proj": "relu"}),
  "tied, and a head stored": ("T5", {"tie_word_embeddings": True}),
}  # fmt: skip


def convert(source: pathlib.Path, *options: str) -> pathlib.Path:
  """Converts into a folder beside the source, and returns it."""
  from xmcap import cli

  out = source.with_name(f"{source.name}_ours")
  with contextlib.redirect_stdout(io.StringIO()):
    if cli.main(["convert", f"--input={source}", f"--out={out}", *options]):
      raise SystemExit(f"{source}: not converted")
  return out


def of_t5(folder: pathlib.Path, kind: str, variant: dict) -> float:
  """The largest difference of the logits of a T5."""
  from tests.convert import test_hf_t5 as t5

  source = (t5.write_mt5 if kind == "MT5" else t5.write_t5)(folder, **variant)
  return float(np.abs(t5.our_logits(convert(source)) - t5.their_logits(source, kind)).max())


def of_dual(folder: pathlib.Path, model) -> float:
  """The largest difference of the embeddings of random pictures and texts by a dual tower."""
  import torch

  from tests.convert.conftest import embedded
  from xmcap.models import model_json

  ours = convert(folder, "--part=dual")
  held = model_json.read(ours / "model.json")
  text, vit = held.config("text"), held.config("vit")
  rng = np.random.default_rng(0)
  ids = rng.integers(3, text.vocab_size - 3, (4, min(text.max_length, 9 if text.pool != "last" else 64)))
  if text.pool == "end":
    ids[:, -1] = text.end_id
  pixels = rng.integers(0, 256, (3, vit.image_size, vit.image_size, 3)).astype(np.uint8)
  normal = ((pixels / 255 - vit.image_mean) / vit.image_std).transpose(0, 3, 1, 2)
  with torch.no_grad():
    out = model(input_ids=torch.tensor(ids), pixel_values=torch.tensor(normal, dtype=torch.float32))
  image, found, _ = embedded(ours, pixels, ids)
  return float(
    max(np.abs(image - out.image_embeds.numpy()).max(), np.abs(found - out.text_embeds.numpy()).max())
  )


def rows() -> list[tuple[str, str, float]]:
  """(conversion, shape, difference) of all."""
  from tests.convert import multilingual_towers as towers
  from tests.convert import test_hf_dual

  found, unusual = [], towers.UNUSUAL
  with tempfile.TemporaryDirectory() as temporary:
    for number, (shape, (kind, variant)) in enumerate(_T5.items()):
      folder = pathlib.Path(temporary, f"t5_{number}")
      found.append((f"`{kind}ForConditionalGeneration`", shape, of_t5(folder, kind, variant)))
    duals = [
      ("`CLIPModel`", "usual", lambda folder: test_hf_dual.write_dual(folder, "CLIP")),
      ("`CLIPModel`", "padded vocabulary", lambda folder: test_hf_dual.write_dual(folder, "CLIP", vocab_size=64)),
      ("`AltCLIPModel`", "usual", lambda folder: test_hf_dual.write_dual(folder, "AltCLIP")),
      ("`SiglipModel`", "usual", lambda folder: test_hf_dual.write_dual(folder, "Siglip", max_position_embeddings=64)),
      ("`SiglipModel`: SigLIP 2", "usual", lambda folder: towers.siglip2(folder)[0]),
      ("`SiglipModel`: SigLIP 2", "texts narrower, sizes as pairs", lambda folder: towers.siglip2(folder, unusual)[0]),
      ("`MetaClip2Model`", "XLM-V, end 2", lambda folder: towers.metaclip2(folder)[0]),
      ("`MetaClip2Model`", "mT5, end 1, 12 of 16 positions", lambda folder: towers.metaclip2(folder, unusual)[0]),
    ]  # fmt: skip
    for number, (name, shape, write) in enumerate(duals):
      folder = pathlib.Path(temporary, f"dual_{number}")
      found.append((name, shape, of_dual(folder, write(folder))))
  return found


def main() -> None:
  """Writes the result, and prints it."""
  table = [(name, shape, f"{difference:.0e}") for name, shape, difference in rows()]
  for row in table:
    print(*row, sep="  ")
  versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("transformers", "torch"))
  report.write(
    "conversions",
    "Converted weights compared with their source",
    table,
    columns=("conversion", "shape", "largest difference"),
    notes=[
      f"Small models of transformers with random weights: logits of T5s, unit embeddings of dual towers. {versions}."
    ],
  )


if __name__ == "__main__":
  main()
