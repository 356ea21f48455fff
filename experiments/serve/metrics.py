"""Counters of the server, in Prometheus' text format."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.process_collector import ProcessCollector

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
_SECONDS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)
_SIZES = (1, 2, 4, 8, 16, 32, 64)


class Metrics:
    """The metrics of one application, in a registry of its own."""

    def __init__(self) -> None:
        registry = self._registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        self.requests = Counter(
            "http_requests", "Requests answered.", ("route", "method", "status"), registry=registry
        )
        self.seconds = Histogram(
            "http_request_seconds",
            "From request to answer.",
            ("route",),
            buckets=_SECONDS,
            registry=registry,
        )
        self.batches = Histogram(
            "device_batch_queries",
            "Queries computed together.",
            ("model",),
            buckets=_SIZES,
            registry=registry,
        )
        self.waiting = Gauge(
            "device_waiting_queries", "Queries in the queue.", ("model",), registry=registry
        )
        self.ready = Gauge("ready", "1 once everything is compiled.", registry=registry)

    def text(self) -> bytes:
        """All of them, in Prometheus' text format."""
        return generate_latest(self._registry)
