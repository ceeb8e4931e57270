"""Importing: what people already have (a command line, a compose file, a chart's values, a unit) as a deployment.

Nothing is run, and nothing is dropped silently: what a deployment has no place for is named in it and on stderr.
"""

from autotune.importing.imported import Imported, LeftOut, imported
from autotune.importing.source import Source, source_at, source_of
from autotune.importing.written import written

__all__ = ["Imported", "LeftOut", "Source", "imported", "source_at", "source_of", "written"]
