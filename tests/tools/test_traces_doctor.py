"""The doctor names what is wrong, and nothing where nothing is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.tools.traces_faults import FAULTS, SOUND, Shop, conversation_log, faulty_log, token_log
from tests.tools.traces_logs import agents, bursty_days, chat_tenants
from tools.errors import UserError
from tools.traces.doctor import diagnose
from tools.traces.doctor.looks import looks_of, masked


@pytest.mark.parametrize("name", FAULTS)
def test_each_fault_is_found_and_mending_it_helps(tmp_path: Path, name: str) -> None:
    make, fault, looks = FAULTS[name]
    found = diagnose(faulty_log(tmp_path / "log", make, seed=5), prefill_s_per_token=1e-3)
    assert [finding.fault for finding in found.findings] == [fault]
    finding = found.findings[0]
    assert looks in finding.sentence
    assert finding.requests > finding.of_requests / 2
    assert finding.hit_rate_after > finding.hit_rate_before + 0.05
    # The mended prompts share almost as much as prompts that never had the fault.
    sound = diagnose(faulty_log(tmp_path / "sound", SOUND["sound"], seed=5))
    assert found.hit_rate_mended > sound.hit_rate - 0.12
    saved = finding.uncached_before - finding.uncached_after
    assert finding.ttft_saved_s == pytest.approx(saved * 1e-3) and saved > 0


def test_where_a_field_stands_is_told_exactly(tmp_path: Path) -> None:
    make = FAULTS["counter"][0]
    finding = diagnose(faulty_log(tmp_path / "log", make, seed=2)).findings[0]
    # <system>, line end, "You are the assistant of a shop. This is call": five marks of the role, the rest words
    assert finding.position < 24
    assert finding.length == 2  # four digits are two pieces
    assert "9999" in finding.looks and "1000" not in finding.sentence


@pytest.mark.parametrize("seed", range(2))
def test_sound_logs_have_no_findings(tmp_path: Path, seed: int) -> None:
    logs = [
        faulty_log(tmp_path / "sound", SOUND["sound"], seed),
        conversation_log(tmp_path / "conversations", seed, keep=None),
        token_log(tmp_path / "tokens", seed, varying=False),
        chat_tenants(tmp_path / "tenants", seed, conversations=60),
        agents(tmp_path / "agents", seed, tasks=12),
    ]
    for log in logs:
        found = diagnose(log)
        assert found.findings == ()
        assert found.hit_rate == found.hit_rate_mended


def test_a_sliding_window_is_found_in_its_conversations(tmp_path: Path) -> None:
    found = diagnose(conversation_log(tmp_path / "log", 4, keep=6))
    assert [finding.fault for finding in found.findings] == ["sliding_window"]
    # Turns 1 to 3 fit the window; of 14 turns in 8 conversations, 11 slide.
    assert found.findings[0].requests == 8 * 11
    assert "6 messages" in found.findings[0].sentence


def test_token_ids_alone_are_enough_for_a_field(tmp_path: Path) -> None:
    finding = diagnose(token_log(tmp_path / "log", 1, varying=True)).findings[0]
    assert (finding.fault, finding.position, finding.length) == ("varying_field", 10, 6)


def test_faults_are_mended_from_the_top_down(tmp_path: Path) -> None:
    """A timestamp hides the shuffled tools below it, and the other way round: both are named."""

    def both(shop: Shop, number: int) -> dict[str, Any]:
        body = FAULTS["shuffled lines"][0](shop, number)
        body["tools"] = []
        system = body["messages"][0]
        system["content"] = system["content"].replace("Be brief.", f"It is 2026-11-30 10:{number % 60:02d} now.")
        return body

    found = diagnose(faulty_log(tmp_path / "log", both, seed=3))
    assert [finding.fault for finding in found.findings] == ["varying_field", "shuffled_list"]
    first, second = found.findings
    assert first.position < second.position
    assert first.hit_rate_after == second.hit_rate_before
    assert found.hit_rate_mended == second.hit_rate_after > found.hit_rate + 0.5


def test_a_field_above_a_sliding_window(tmp_path: Path) -> None:
    path = conversation_log(tmp_path / "log", 3, keep=6)
    lines = []
    for number, line in enumerate(path.read_text().splitlines()):
        data = json.loads(line)
        system = data["request"]["messages"][0]
        system["content"] = (
            f"It is 2026-11-{1 + number % 28:02d} {number % 24:02d}:{number % 60:02d}. {system['content']}"
        )
        data["request"]["tools"] = []
        lines.append(json.dumps(data))
    path.write_text("\n".join(lines) + "\n")
    found = diagnose(path)
    assert [finding.fault for finding in found.findings] == ["varying_field", "sliding_window"]


def test_applications_are_told_apart(tmp_path: Path) -> None:
    one = faulty_log(tmp_path / "one", FAULTS["uuid"][0], seed=1).read_text()
    two = faulty_log(tmp_path / "two", SOUND["sound"], seed=2).read_text()
    lines = [line for pair in zip(one.splitlines(), two.splitlines(), strict=True) for line in pair]
    path = tmp_path / "both"
    path.write_text("\n".join(lines) + "\n")
    found = diagnose(path)
    assert [len(app.members) for app in found.apps] == [60, 60]
    assert [finding.fault for finding in found.findings] == ["varying_field"]
    assert found.findings[0].of_requests == 60


def test_a_log_without_prompts_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="expected prompts"):
        diagnose(bursty_days(tmp_path / "bursty.csv", 1, days=1))


def test_nothing_of_a_prompt_is_shown(tmp_path: Path) -> None:
    found = diagnose(faulty_log(tmp_path / "log", FAULTS["name"][0], seed=5))
    assert not any(name in str(found.to_json()) for name in ("Anna", "Berg", "Nagy", "shop"))


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("2026-11-30 10:00:01", "a timestamp-like field"),
        ("10:00", "a timestamp-like field"),
        ("1764496800", "a timestamp-like field"),
        ("30.11.2026", "a date-like field"),
        ("Monday 30 Nov 2026", "a date-like field"),
        ("3f2504e0-4f89-11d3-9a0c-0305e82c3301", "a UUID-like field"),
        ("req_8f14e45fce", "an id-like field"),
        ("anna@example.org", "an address-like field"),
        ("10.0.0.17", "an address-like field"),
        ("#42", "a counter-like field"),
        ("Anna Berg", "a name-like field"),
        ("blue and round", "a varying text"),
    ],
)
def test_looks(text: str, kind: str) -> None:
    assert looks_of([text]) == kind


def test_masks_keep_the_shape_alone() -> None:
    assert masked("Anna  12:30") == "aaaa 99:99"
    assert len(masked("x" * 500)) == 40
