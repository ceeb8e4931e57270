"""Hardware: stable facts, and one fingerprint of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tools.profile import hardware


def test_the_machine_has_one_fingerprint_and_any_change_another() -> None:
    machine = hardware()
    assert machine == hardware() and machine.fingerprint == hardware().fingerprint
    assert 1 <= machine.cores <= (os.cpu_count() or 1)
    assert machine.memory_bytes > 100 << 20
    assert any(package.startswith("torch ") for package in machine.packages)
    assert replace(machine, packages=("torch 1.0",)).fingerprint != machine.fingerprint
    assert json.loads(json.dumps(machine.to_json()))["cores"] == machine.cores


def test_asking_for_the_hardware_does_not_import_torch() -> None:
    story = (
        "import sys; sys.path.insert(0, sys.argv[1]); import tools.profile; tools.profile.hardware()\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", story, Path(__file__).parents[2]], check=True)


def test_gpus_are_listed_as_the_driver_tells_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\necho 'NVIDIA H200, 143771 MiB, 580.1'\necho 'NVIDIA H200, 143000 MiB, 580.1'\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    machine = hardware()
    assert len(machine.gpus) == 2 and machine.gpu_memory_bytes == 143000 << 20
