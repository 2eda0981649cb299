"""Which errors say that a device failed: a chip, its memory or its link, not the program that it ran."""

import re

import jax

from xmcap import terminal

_FAULTS = (
  # TPU: openxla.org/xla/errors (E0200), jax-ml/jax#9642, pytorch/xla#7138, AI-Hypercomputer/maxtext#2041
  "halted (?:prematurely|unexpectedly)",
  r"observed errors are: \[(?:Network|Power|Hardware)",
  "with a different launch id",
  r"SLICE_FAILURE_\w+",
  r"\bslice\b.{0,40}\b(?:unhealthy|health (?:check )?fail)",
  r"\bunhealthy (?:slice|chip|device|core|tpu|gpu)",
  r"uncorrectable.{0,20}\b(?:ECC|HBM\d?|memory|NVLink)\b",
  r"\b(?:ECC|HBM\d?)\b.{0,20}\b(?:uncorrectable|uncorrected|double[- ]bit)",
  # CUDA: docs.nvidia.com, CUresult and cudaError; jax-ml/jax#13951, vllm-project/vllm#5222
  "CUDA_ERROR_(?:ECC_UNCORRECTABLE|NVLINK_UNCORRECTABLE|HARDWARE_STACK_ERROR|ILLEGAL_(?:ADDRESS|INSTRUCTION)|LAUNCH_"
  "(?:FAILED|TIMEOUT)|MISALIGNED_ADDRESS|INVALID_(?:ADDRESS_SPACE|PC)|CONTAINED|EXTERNAL_DEVICE|DEVICE_UNAVAILABLE|"
  "UNKNOWN)",
  "(?:cuda|hip)Error(?:ECC|NvlinkUncorrectable|Illegal(?:Address|Instruction)|Launch(?:Failure|Timeout)|Hardware|"
  "Misaligned|Contained|Unknown)",
  r"illegal memory access|\b(?:illegal instruction|misaligned address) was encountered|\blaunch failure",
  "was already in an error state",
  # NCCL: NVIDIA/nccl#1935, jax-ml/jax#17399
  "ncclUnhandledCudaError|unhandled cuda error",
  # docs.nvidia.com/deploy/xid-errors
  r"\bXid\W{0,3}(?:\(PCI:[\w:.]+\)\W{0,3})?(?:48|63|64|74|79|94|95|119|120|140)\b",
  "fallen off the bus",
  r"\b(?:device|GPU|TPU|chip) (?:is |was )?lost\b",
)
_FAULT = re.compile("|".join(_FAULTS), re.IGNORECASE)
# A corrupt file says DATA_LOSS too, but not as an error of jax.
_DATA_LOSS = re.compile(r"(?:^|: )DATA_LOSS: ")
_STATUS = re.compile("[A-Z_]{5,}: ")
# What another start does not mend.
_PROGRAM = re.compile(
  r"RESOURCE_EXHAUSTED|out[ _]of[ _]memory|\b(?:INVALID_ARGUMENT|UNIMPLEMENTED): |'invalid argument'",
  re.IGNORECASE,
)
_NAME = re.compile(
  r"tpu\d+:pe\d+:\d+|\b(?:TPU|GPU|Cuda|Tpu|Rocm)(?:Device)?_?\d*\((?:[^()]|\([^()]*\))*\)|PCI:[\da-f]+:[\da-f]+:[\da-f.]+|"
  r"\bGPU-[\da-f-]{8,}|\b(?:device ordinal|device|GPU|TPU|chip|replica|node) ?[:#]? ?\d+\b",
  re.IGNORECASE,
)


def fault(error: BaseException) -> str:
  """Returns what `error`, or what caused it, says of a device that failed, as one line; "" if it is not about that."""
  cause: BaseException | None = error
  while cause is not None:
    text = " ".join(str(cause).split())
    # Dispatching a program raises ValueError.
    is_of_runtime = isinstance(cause, RuntimeError) or (isinstance(cause, ValueError) and _STATUS.match(text))
    if is_of_runtime and not _PROGRAM.search(text):
      of_jax = isinstance(cause, jax.errors.JaxRuntimeError)
      if match := _FAULT.search(text) or (of_jax and _DATA_LOSS.search(text)):
        name = _NAME.search(text)
        # The telling words may come late in a long message.
        before = " ".join(text[: match.start()].split(" ")[-4:])[-60:]
        begin = match.start() - len(before) if match.end() > 180 else 0
        said = terminal.shown(text[begin:], limit=200)
        return said if name is None or name[0] in said else f"{said} ({terminal.shown(name[0], limit=60)})"
    cause = cause.__cause__ or cause.__context__
  return ""
