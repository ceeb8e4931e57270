"""Honest evidence: whole runs as an honest harness would have recorded them. Each attack tells one lie about one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from functools import cache, cached_property
from typing import Any

from tools.canonical import digest
from tools.deployment import Deployment, parse_deployment
from tools.errors import UserError
from tools.manifests.yaml_file import YamlFile
from tools.measure.measurement import Measurement
from tools.measure.summary import lower_is_better, summarise
from tools.measure.workload import materialise
from tools.service.load_spec import at_load
from tools.service.soak import soaking
from tools.standing import Standing
from tools.targets.knobs import Config, KnobSpace, Value
from tools.targets.target import Identity
from verifiers.digest import verifiers_digest
from verifiers.evidence import Change, Evidence, ManifestChange
from verifiers.gather import gather
from verifiers.gauntlet.desk import Desk
from verifiers.gauntlet.scene import RESOURCES, as_passed, file_text, history, judgement, passed, survey
from verifiers.gauntlet.story import BEGAN, DEPLOYMENT, FILE, MANIFEST, Story
from verifiers.gauntlet.tape import Tape
from verifiers.looking import paired
from verifiers.plan import Plan
from verifiers.statistics.blocks import LAUNCHES, BlockValues, noise_of_one
from verifiers.statistics.look import look
from verifiers.statistics.rail import rail
from verifiers.verdict import Verdict

__all__ = ["DEPLOYMENT", "Story", "tell", "usual"]

_HEAD = digest("the commit that the run began on")[:40]


def tell(story: Story) -> Evidence:
    """The evidence of the whole run, gathered from its ledger as the harness gathers it."""
    return _Run(story).told()


@cache
def usual() -> Evidence:
    """The run that most attacks lie about: an honest gain of a third in usual noise."""
    return tell(Story())


class _Run:
    """One run while it is written."""

    def __init__(self, story: Story) -> None:
        self.story = story
        self.tape = Tape(BEGAN)
        self.text = file_text(story)
        file = parse_deployment(YamlFile.parse(FILE, self.text))
        self.deployment: Deployment = file.deployment
        self.managed = file.managed
        self.space = KnobSpace({knob.name: knob for knob in story.knobs})
        self.baseline = self.space.resolve(self.deployment.config)
        self.candidate = self.baseline.patched(story.patch)
        self.desk = Desk(story, self.deployment.model, self.space, self.baseline)
        self.measured: dict[str, tuple[str, dict[str, float]]] = {}
        "Arm and summary by trial."

    def told(self) -> Evidence:
        self._start()
        drawn = int(digest([self.story.run, "search"])[:12], 16)
        seed = drawn if self.story.search_seed is None else self.story.search_seed
        for number in (1, 2):
            self._trial(f"b{number}", "baseline", "A", self.baseline, seed)
            self._judgement(f"b{number}")
        confirm_launches = 2 * self.deployment.acceptance.trials_per_arm
        budget = {"trials": 12, "confirm_launches": confirm_launches, "seconds": 420.0, "wall_s": 900.0}
        self.tape.write("budget", budget, "budget")
        self._explore(seed)
        self._confirm()
        confirmed = gather(self.tape.ledger)
        verdicts = as_passed(confirmed)
        self.tape.write("verdict", judgement(verdicts, score=0.3), "verdict")
        change = self._change(verdicts)
        return replace(confirmed, change=change, entries=tuple(self.tape.entries))

    def _start(self) -> None:
        story, write = self.story, self.tape.write
        started: dict[str, Any] = {
            "deployment": self.deployment.model_dump(mode="json", by_alias=True),
            "file": str(FILE),
            "file_text": self.text,
            "managed": sorted(self.managed),
            "knobs": self.space.to_json(),
            "manifest": {"file": str(MANIFEST), "text": story.manifest} if story.manifest else None,
            "base": {
                "root": ".",
                "file": str(FILE),
                "head": _HEAD,
                "object": _HEAD[::-1],
                "others": {str(MANIFEST): digest("the manifest")[:40]} if story.manifest else {},
            },
            "options": {
                "proposer": "llm",
                "llm": {"base_url": "http://127.0.0.1:9/v1", "model": "proposer", "api_key_env": None},
                "budget": {"wall_s": 900.0, "trials": 12, "requests": 100_000, "llm_tokens": 200_000},
                "commit": True,
            },
            "playbook": {"name": self.deployment.playbook, "digest": digest("playbook"), "verifiers": ["quality"]},
            "history": history(),
            "verifiers_digest": verifiers_digest(),
        }
        write("run.started", started, "run.started")
        write("survey", survey(), "survey", after_s=4.0)
        write("session", {"pid": 4100, "budget": started["options"]["budget"]})
        floor = {"send_lag_p99_ms": 0.4, "stamp_jitter_p99_ms": 0.2, "ttft_overhead_ms": 0.3}
        write("client", {**floor, "max_chunks_per_s": 90_000.0, "workers": 1}, "client", after_s=6.0)
        calibration = {
            "floor_ttft_ms": 1000 * story.baseline.ttft_s * 0.8,
            "floor_tpot_ms": 1000 * story.baseline.itl_s,
            "ceiling_rps": 14.0,
        }
        write("calibration", calibration, "calibrate", after_s=12.0)

    def _explore(self, seed: int) -> None:
        turn = 1
        if self.story.crash_log:
            self._turn(turn, {"block_size": 32}, "Larger blocks need fewer look-ups.")
            config = self.baseline.patched({"block_size": 32})
            self._crashed(f"t{turn}", config, seed, self.story.crash_log)
            turn += 1
        if self.story.repeats:
            self._turn(turn, self.story.patch, "It may help.")
            self._trial(f"t{turn}", "search", "B", self.candidate, seed)
            self._judgement(f"t{turn}")
            turn += 1
        self._turn(turn, self.story.patch, self.story.hypothesis)
        self._trial(f"t{turn}", "search", "B", self.candidate, seed)
        self._judgement(f"t{turn}")
        finish = {"kind": "finish", "reason": "the seats were the limit, and are no longer"}
        self.tape.write("action", {"action": finish, **self._llm(finish)}, f"action:{turn + 1}")
        self.tape.write("finalist", {"trial": f"t{turn}", "why": "it promises more than the least effect"}, "finalist")

    def _turn(self, turn: int, patch: Mapping[str, Value], hypothesis: str) -> None:
        """One proposal that passes the preflight."""
        propose = {"kind": "propose", "patch": dict(patch), "hypothesis": hypothesis}
        self.tape.write("action", {"action": propose, **self._llm(propose)}, f"action:{turn}")
        proposal = {"patch": dict(patch), "hypothesis": hypothesis, "source": "llm"}
        self.tape.write("preflight", {"proposal": proposal, **passed("preflight")}, f"preflight:{turn}")

    def _llm(self, action: Mapping[str, Any]) -> dict[str, Any]:
        """What was said to the model and by it, and what that cost."""
        state = json.dumps({"trials": len(self.tape.entries), "log": self.story.crash_log}).replace("<", "\\u003c")
        messages = [
            {"role": "system", "content": "Choose one action."},
            {"role": "user", "content": f"<data>\n{state}\n</data>"},
            {"role": "assistant", "content": json.dumps({"action": action})},
        ]
        usage = {"prompt_tokens": 2100, "completion_tokens": 60, "cached_tokens": 0, "calls": 1, "estimated": False}
        return {"usage": usage, "transcript": messages}

    def _confirm(self) -> None:
        story, metric = self.story, self.deployment.objective.metric
        baselines = [self.measured[name][1] for name in ("b1", "b2")]
        known = [summary[metric] for summary in baselines if metric in summary]
        drawn = Plan.draw(
            story.run,
            self.deployment,
            self.baseline.digest,
            self.candidate.digest,
            noise=noise_of_one(known),
            attempts=len(story.attempts),
        )
        plan = replace(drawn, level=drawn.level if story.level is None else story.level)
        data = {
            "plan": plan.to_json(),
            "plan_digest": plan.digest,
            "patch": dict(story.patch),
            "proposal": self._proposal(),
            "memory_need_bytes": 1 << 30,
            "attempts": [asdict(attempt) for attempt in story.attempts],
        }
        self.tape.write("plan", data, "plan")
        for number, slot in enumerate(plan.slots, start=1):
            config = self.baseline if slot.arm == "A" else self.candidate
            self._trial(f"c{number}", "confirm", slot.arm, config, slot.seed, slot.load_factor, slot.block)
            if number % LAUNCHES == 0 and self._look(plan, number // LAUNCHES) != "go_on":
                break
        first = plan.blocks[0]
        self._trial("soak", "soak", "B", self.candidate, plan.blocks[-1].seed + 1)
        drill: dict[str, Any] = {"before": self.text, "after": self._after, "reverted": self.text, "manifest": None}
        if text := self.story.manifest:
            drill["manifest"] = {"before": text, "after": self._manifest_after, "reverted": text}
        self.tape.write("rollback", {**drill, "config": dict(self.baseline.values)}, "rollback")
        self._trial("rollback", "rollback", "A", self.baseline, first.seed, first.load_factor)

    def _look(self, plan: Plan, blocks: int) -> str:
        """What the plan's rule says after so many blocks."""
        values = self._blocks(plan.metric, blocks)
        if values is None:
            why = f"{plan.metric} can't be told in every launch"
            self.tape.write("look", {"decision": "exhausted", "blocks": blocks, "why": why}, f"look:{blocks}")
            return "exhausted"
        rails = {
            metric: rail(guarded, lower_is_better(metric), margin)
            for metric, margin in sorted(plan.guardrails.items())
            if (guarded := self._blocks(metric, blocks)) is not None
        }
        found = look(values, plan.stopping, rails)
        self.tape.write("look", found.to_json(), f"look:{blocks}")
        return found.decision

    def _blocks(self, metric: str, count: int) -> list[BlockValues] | None:
        """The metric in the first blocks; None where a launch lacks it."""
        launches = [self.measured[f"c{number}"] for number in range(1, LAUNCHES * count + 1)]
        values = [(arm, summary.get(metric, 0.0)) for arm, summary in launches]
        if min(value for _, value in values) <= 0:
            return None
        return [paired(values[start : start + LAUNCHES]) for start in range(0, len(values), LAUNCHES)]

    def _trial(
        self, name: str, role: str, arm: str, config: Config, seed: int, factor: float = 1.0, block: int | None = None
    ) -> None:
        story, tape = self.story, self.tape
        tape.write("trial.started", {"id": name, "role": role, "config": dict(config.values), "seed": seed})
        spec = self.deployment.workload
        workload = materialise(soaking(spec) if role == "soak" else at_load(spec, factor), seed)
        bench = story.bench or self.desk
        found = bench.launch(name, role, arm, config, workload, with_evals=block == 0)
        measurement = _moved(found.measurement, tape.now - found.began_at)
        if story.truth is not None:
            measurement = story.truth(role, arm, measurement)
        summary = summarise(measurement, self.deployment.slo)
        self.measured[name] = (arm, summary)
        data = {
            "id": name,
            "role": role,
            "arm": arm,
            "proposal": self._proposal() if arm == "B" else _unchanged(),
            "config": dict(config.values),
            "config_digest": config.digest,
            "seed": seed,
            "load_factor": factor,
            "block": block,
            "environment": digest("one machine"),
            "resources": dict(RESOURCES),
            "requests": measurement.offered,
            "ready_s": found.ready_s,
            "wall_s": found.wall_s,
            "raw_blob": tape.put(
                {"measurement": measurement.to_json(), "evals": found.evals.to_json() if found.evals else None}
            ),
            "summary": summary,
            "failure": None,
        }
        tape.write("trial", data, f"trial:{name}", after_s=max(found.wall_s, measurement.window_s))

    def _crashed(self, name: str, config: Config, seed: int, log: str) -> None:
        """A launch that came to nothing: a result, and judged by nobody."""
        self.tape.write("trial.started", {"id": name, "role": "search", "config": dict(config.values), "seed": seed})
        patch = {changed: new for changed, (_, new) in self.baseline.diff(config).items()}
        proposal = {"patch": patch, "hypothesis": "Larger blocks.", "source": "llm"}
        data = {
            "id": name,
            "role": "search",
            "arm": "B",
            "proposal": proposal,
            "config": dict(config.values),
            "config_digest": config.digest,
            "seed": seed,
            "load_factor": 1.0,
            "block": None,
            "environment": digest("one machine"),
            "resources": dict(RESOURCES),
            "requests": 0,
            "ready_s": 0.0,
            "wall_s": 2.0,
            "raw_blob": None,
            "summary": {},
            "failure": {"kind": "crash", "message": "the server died", "log_tail": log},
        }
        self.tape.write("trial", data, f"trial:{name}", after_s=2.0)
        judgement = {"trial": name, "verdicts": [], "status": "ERROR", "score": 0.0}
        self.tape.write("judgement", judgement, f"judge:{name}")

    def _judgement(self, trial: str) -> None:
        self.tape.write("judgement", {"trial": trial, **passed("trial")}, f"judge:{trial}")

    def _proposal(self) -> dict[str, Any]:
        return {"patch": dict(self.story.patch), "hypothesis": self.story.hypothesis, "source": "llm"}

    def _change(self, verdicts: list[Verdict]) -> Change:
        now = {
            "file_text": self.text,
            "playbook_digest": digest("playbook"),
            "workload_digest": self.deployment.workload.digest,
            "verifiers_digest": verifiers_digest(),
        }
        self.tape.write("harness", now, "harness")
        diff = self.baseline.diff(self.candidate)
        lines = [f"Tune {self.deployment.name}: {', '.join(sorted(diff))}", ""]
        lines += [f"- {name}: {old} -> {new}" for name, (old, new) in diff.items()]
        lines += ["", *(f"{verdict.status} {verdict.rule}: {verdict.sentence}" for verdict in verdicts)]
        manifest = self._manifest_change()
        change = Change(
            file=str(FILE),
            files=(str(MANIFEST), str(FILE)) if manifest else (str(FILE),),
            before_text=self.text,
            after_text=self._after,
            reverted_text=self.text,
            current_text=self.text,
            base_head=_HEAD,
            current_head=_HEAD,
            message="\n".join(lines),
            prose=(self.story.hypothesis,),
            manifest=manifest,
        )
        self.tape.write("change", change.to_json(), "change")
        return change

    def _manifest_change(self) -> ManifestChange | None:
        if not (text := self.story.manifest):
            return None
        return ManifestChange(str(MANIFEST), text, self._manifest_after, text, text)

    @cached_property
    def _manifest_after(self) -> str:
        """The same of the manifest."""
        return Standing.of(self.deployment, MANIFEST, self.story.manifest).changed(self.story.patch)

    @cached_property
    def _after(self) -> str:
        """The file as it would be committed; as it was where no commit could say what was proposed."""
        before = YamlFile.parse(FILE, self.text)
        try:
            return before.splice({("config", name): value for name, value in self.story.patch.items()})
        except UserError:
            return self.text


def _moved(measurement: Measurement, by_s: float) -> Measurement:
    """The same with all that tells the time of day moved along: stories are told in their own time."""

    def later(identity: Identity | None) -> Identity | None:
        if identity is None:
            return None
        started_at, process_at = identity.started_at + by_s, identity.process_started_at + by_s
        return replace(identity, started_at=started_at, process_started_at=process_at)

    return replace(
        measurement,
        started_at=measurement.started_at + by_s,
        identity_before=later(measurement.identity_before),
        identity_after=later(measurement.identity_after),
    )


def _unchanged() -> dict[str, Any]:
    return {"patch": {}, "hypothesis": "the deployment as it stands", "source": "baseline"}
