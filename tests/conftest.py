"""For the whole suite: no deadlines, Ctrl-C works in what the tests start, and what measures is left in peace.

A shell that starts a command in the background makes it ignore SIGINT, and children inherit that; with a handler of our
own in place they start with the default again.
"""

import signal

import pytest
from hypothesis import settings

signal.signal(signal.SIGINT, signal.default_int_handler)

# Timing is never asserted absolutely: a busy machine is no fault of the code.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

_ALONE = frozenset(
    {"test_bench", "test_broken_servers", "test_calibrate_command", "test_crash", "test_llm_run", "test_prove"}
    | {"test_measurement_live", "test_reproduce", "test_stopping", "test_survey", "test_tune", "test_verify"}
    | {"test_compare_command", "test_external_bench", "test_external_tune"}
)
"""Files whose tests measure a real engine and believe what they measured. `make unit` runs all others side by side."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.stem in _ALONE:
            item.add_marker(pytest.mark.alone)
