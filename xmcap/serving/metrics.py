"""Prometheus metrics of a server."""

import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_PICTURES = (1, 2, 4, 8, 16, 32, 64)

CONTENT_TYPE = prometheus_client.CONTENT_TYPE_LATEST


class Metrics:
  """The metrics of one server."""

  def __init__(self):
    registry = self._registry = CollectorRegistry()
    self.requests = Counter(
      "xmcap_requests", "Requests for captions, by HTTP status", ["status"], registry=registry
    )
    self.seconds = Histogram(
      "xmcap_request_seconds",
      "Time from the request's head to the last caption",
      buckets=_SECONDS,
      registry=registry,
    )
    self.queue = Gauge("xmcap_queue", "Requests for captions in progress", registry=registry)
    self.captions = Counter("xmcap_captions", "Captions decoded", registry=registry)
    self.pictures = Histogram(
      "xmcap_call_pictures", "Pictures per call of the model", buckets=_PICTURES, registry=registry
    )
    self.calls = Histogram(
      "xmcap_call_seconds", "Time of a call of the model", buckets=_SECONDS, registry=registry
    )

  def observe_call(self, images: int, captions: int, seconds: float) -> None:
    """Counts a call of the model."""
    self.pictures.observe(images)
    self.captions.inc(captions)
    self.calls.observe(seconds)

  def text(self) -> bytes:
    """All metrics in Prometheus' text format."""
    return prometheus_client.generate_latest(self._registry)
