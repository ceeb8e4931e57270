from __future__ import annotations

import pytest

from agents import Playbook, View, load_playbook
from tests.agents.views import make_view, trial


@pytest.fixture(scope="session")
def playbook() -> Playbook:
    return load_playbook("interactive-latency")


@pytest.fixture
def view() -> View:
    """A poor baseline, measured once."""
    return make_view({"max_num_seqs": 2, "enable_prefix_caching": False}, trial("t0", {}, 1000.0, source="baseline"))
