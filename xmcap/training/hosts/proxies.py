"""Proxies of HTTP, which many clusters set for the network outside.

gRPC, and with it jax, would send through them what the processes of a run say to each other; no proxy passes that on.
"""

import os
import re

_PROXY = re.compile(r"(?!no_)\w*_proxy", re.IGNORECASE)


def proxies() -> list[str]:
  """The names of the variables that name a proxy, such as `http_proxy` and `HTTPS_PROXY`."""
  return [name for name, value in os.environ.items() if value and _PROXY.fullmatch(name)]


def go_past(host: str, variable: str) -> None:
  """Adds a host to those that this process reaches without a proxy.

  `variable` is `no_grpc_proxy`, which gRPC alone reads, in place of `no_proxy`; or `no_proxy`, for Python.
  """
  listed = next(filter(None, map(os.environ.get, (variable, "no_proxy", "NO_PROXY"))), "")
  # For Python, `*` alone means all hosts; for gRPC it means none.
  if proxies() and not (variable == "no_proxy" and listed.strip() == "*"):
    os.environ[variable] = f"{listed},{host}" if listed else host
