"""The peak bfloat16 rate of each kind of chip, from which model-flops utilisation (MFU) is computed."""

PEAK_FLOPS = {
  # cloud.google.com/tpu/docs, the pages v4, v5e, v5p, v6e, tpu7x. A jax device is a whole chip, of tpu7x half of one.
  "TPU v4": 275e12,
  "TPU v5 lite": 197e12,
  "TPU v5e": 197e12,
  "TPU v5": 459e12,
  "TPU v5p": 459e12,
  "TPU v6 lite": 918e12,
  "TPU v6e": 918e12,
  "TPU7x": 2307e12 / 2,
  # Data sheets at nvidia.com, half of the figures "with sparsity": A100, H100, H200, L4, L40S, B200 (an eighth of HGX
  # B200), GB200 (a 72nd of GB200 NVL72).
  "NVIDIA A100-SXM4-40GB": 312e12,
  "NVIDIA A100-SXM4-80GB": 312e12,
  "NVIDIA A100-PCIE-40GB": 312e12,
  "NVIDIA A100 80GB PCIe": 312e12,
  "NVIDIA H100 80GB HBM3": 989.5e12,
  "NVIDIA H100 NVL": 835.5e12,
  "NVIDIA H100 PCIe": 756e12,
  "NVIDIA H200": 989.5e12,
  "NVIDIA H200 NVL": 835.5e12,
  "NVIDIA L4": 121e12,
  "NVIDIA L40S": 362e12,
  "NVIDIA B200": 2250e12,
  "NVIDIA GB200": 2500e12,
}
"""bfloat16 operations per second, by jax's `device_kind`."""
