"""Formats: results of other benchmarks read into our Measurement, ours written as theirs, raw records as lines.

A reader keeps apart what the file's requests say, which our definitions apply to, and what the tool itself printed,
with a note wherever it defines a number otherwise. What a file doesn't tell is absent, never 0.
"""

from tools.formats.detect import read
from tools.formats.llmd_writer import llmd_json, llmd_yaml
from tools.formats.parquet_file import read_parquet, write_parquet
from tools.formats.reading import ForeignSummary, Reading
from tools.formats.records_file import read_records, reading_from_measurement, write_records
from tools.formats.vllm_writer import vllm_json

__all__ = [
    "ForeignSummary",
    "Reading",
    "llmd_json",
    "llmd_yaml",
    "read",
    "read_parquet",
    "read_records",
    "reading_from_measurement",
    "vllm_json",
    "write_parquet",
    "write_records",
]
