"""Scrape: a server's metrics, read once."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from tools.targets.control import ControlClient, ControlError

__all__ = ["scraped"]


def scraped(client: ControlClient, path: str = "/metrics") -> list[Sample]:
    """Every sample of the server's metrics, at `path`.

    Raises:
        ControlError: no answer, or no Prometheus text.
    """
    text = client.text(path)
    try:
        return [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    except (ValueError, KeyError) as error:
        raise ControlError(f"{client.base_url}{path}: expected Prometheus text, found {error}") from error
