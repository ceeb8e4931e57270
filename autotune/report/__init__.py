"""Reports: a run as Markdown, as JSON and as one HTML page. Every number comes from the ledger and its raw records."""

from autotune.report.facts import Facts, read_facts
from autotune.report.write import Written, write

__all__ = ["Facts", "Written", "read_facts", "write"]
