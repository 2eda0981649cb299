"""`xmcap export --to=stablehlo`: a `jax.export` program, which needs only jax, and its parameters as .npz."""

import pathlib
from collections.abc import Callable

import jax
import numpy as np
from jax import export

from xmcap.convert.importing import check_free
from xmcap.export.program import MANIFEST, PLATFORMS, ExportedProgram
from xmcap.files import files, outputs

PROGRAM, PARAMS = "captioner.stablehlo", "params.npz"


def exported(program: ExportedProgram) -> export.Exported:
  """The program (params, image, prompt_tokens[, seed]) for any number of images b and languages l."""
  b, l = export.symbolic_shape("b, l")  # noqa: E741
  side, length = program.image_size, len(next(iter(program.prompts.values())))
  shapes = [
    {path: jax.ShapeDtypeStruct(array.shape, array.dtype) for path, array in program.params.items()},
    jax.ShapeDtypeStruct((b, side, side, 3), np.uint8),
    jax.ShapeDtypeStruct((l, length), np.int32),
  ]
  if program.seeded:
    shapes.append(jax.ShapeDtypeStruct((), np.int32))
  return export.export(jax.jit(program.__call__), platforms=PLATFORMS)(*shapes)


def write(program: ExportedProgram, folder: pathlib.Path, say: Callable[[str], None]) -> None:
  """Writes the program, its parameters, the vocabulary and the manifest; UsageError if one already exists."""
  check_free(folder, PROGRAM, PARAMS, MANIFEST)
  made = exported(program)
  with outputs.together(folder):
    files.write_bytes(folder / PROGRAM, bytes(made.serialize()))
    with files.whole(folder / PARAMS) as file:
      np.savez(file, **program.params)  # pyright: ignore[reportArgumentType]
    program.write_beside(
      folder,
      platforms=list(made.platforms),
      calling_convention_version=made.calling_convention_version,
      inputs=["params", "image", "prompt_tokens", *(["seed"] if program.seeded else [])],
      outputs=["tokens", "scores"],
    )
  say(
    f"{folder / PROGRAM}: for {', '.join(made.platforms)}; calling convention {made.calling_convention_version}"
  )
