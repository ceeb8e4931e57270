"""What a person sees of a described log, a diagnosis and the presets: tables on stdout."""

from __future__ import annotations

from collections.abc import Sequence

from rich.markup import escape
from rich.table import Table

from autotune.console import duration, out
from tools.traces.describe import Description
from tools.traces.distribution import Distribution
from tools.traces.doctor import Diagnosis
from tools.traces.presets import Preset
from tools.traces.twin import HIT_GOAL, KS_GOAL

__all__ = ["show_description", "show_diagnosis", "show_presets"]

_COLUMNS = ("mean", "p10", "p50", "p90", "p99", "max")
_SIZES = 7
_BARS = " ▁▂▃▄▅▆▇█"


def show_description(found: Description) -> None:
    """Print a log's description."""
    log = found.log
    _say(
        f"[bold]{escape(log.path.name)}[/]: {log.format}, {len(log.requests)} requests in {len(found.conversations)} "
        f"conversations over {duration(log.span_s)}; {log.bad} of {log.lines} lines couldn't be read"
    )
    for example in log.bad_examples:
        _say(f"  {example}", markup=False, style="yellow")
    for reason, count in log.left_out.most_common():
        _say(f"  left out: {count} {reason}", markup=False)
    for note in log.notes:
        _say(f"  note: {note}", markup=False)
    out.print(_lengths(found))
    _print_arrivals(found)
    _print_sharing(found)
    check = found.check
    worst = max(check.ks.values(), default=0.0)
    hits = ""
    if check.hit_difference is not None:
        hits = f", hit rate {check.hit_difference * 100:.1f} points off (goal {HIT_GOAL * 100:.0f})"
    colour = "green" if check.holds else "red"
    _say(
        f"twin: [{colour}]KS distance at most {worst:.3f} (goal {KS_GOAL}){hits}[/]: "
        + escape(", ".join(f"{name} {distance:.3f}" for name, distance in check.ks.items()))
    )


def show_diagnosis(found: Diagnosis) -> None:
    """Print what breaks sharing in a log."""
    log = found.log
    extent = "all" if log.whole else "the first"
    apps = f"of {len(found.apps)} application{'' if len(found.apps) == 1 else 's'}"
    if not found.apps:
        apps = "of no application that could be told (too few begin or go on alike)"
    _say(
        f"[bold]{escape(log.path.name)}[/]: {log.format}, {extent} {len(log.prompts)} requests {apps}; "
        f"hit rate {found.hit_rate:.1%} with an unlimited cache"
    )
    if not found.findings:
        _say("nothing in the prompts' layout breaks sharing", style="green")
        return
    for number, finding in enumerate(found.findings, start=1):
        saved = f", {finding.ttft_saved_s * 1000:.1f} ms of TTFT a request" if finding.ttft_saved_s is not None else ""
        _say(f"{number}. application {finding.app + 1}: {finding.sentence}.", markup=False, style="yellow")
        _say(
            f"   hit rate {finding.hit_rate_before:.1%} -> {finding.hit_rate_after:.1%}: "
            f"{finding.uncached_before - finding.uncached_after:.0f} prompt tokens fewer to read a request{saved}"
        )
    _say(
        f"all mended: hit rate {found.hit_rate:.1%} -> {found.hit_rate_mended:.1%}, "
        f"{found.uncached:.0f} -> {found.uncached_mended:.0f} prompt tokens to read a request",
        style="bold",
    )


def show_presets(presets: Sequence[Preset]) -> None:
    """Print the presets with the numbers that define them."""
    for preset in presets:
        bounds = ", ".join(f"{name} {bound:g}" for name, bound in preset.slo.bounds().items())
        _say(f"[bold]{preset.name}[/]: {escape(preset.about)}")
        _say(f"  judged by {preset.objective}; promises {bounds}", markup=False)
    _say("autotune workload presets NAME prints the file with its reasons", style="dim")


def _say(text: str, *, style: str | None = None, markup: bool = True) -> None:
    """A line of any length: a terminal breaks it itself, and a file keeps it whole."""
    out.print(text, style=style, markup=markup, soft_wrap=True)


def _lengths(found: Description) -> Table:
    table = Table("", *_COLUMNS, "looks (KS)", title_justify="left")
    rows: tuple[tuple[str, Distribution | None], ...] = (
        ("prompt tokens", found.prompt_tokens),
        ("output tokens", found.output_tokens),
        ("turns", found.turns),
        ("turn pause s", found.turn_gap_s),
    )
    for name, distribution in rows:
        if distribution is None:
            continue
        values = {"mean": distribution.mean, "std": distribution.std, **distribution.quantiles}
        fit = distribution.fit
        looks = "fixed" if fit is None else f"{fit.family} ({fit.ks:.2f})"
        table.add_row(name, *(_number(values[column]) for column in _COLUMNS), looks)
    return table


def _print_arrivals(found: Description) -> None:
    arrivals = found.arrivals
    _say(f"rank correlation of prompt and output lengths: {found.length_correlation:.2f}")
    if arrivals.starts_per_s is None or arrivals.requests_per_s is None or arrivals.cv is None:
        _say("arrivals: all at once")
        return
    dispersion = ", ".join(f"{index:.1f} in {window} s" for window, index in arrivals.dispersion.items())
    _say(
        f"arrivals: {arrivals.starts_per_s:.3g} conversations and {arrivals.requests_per_s:.3g} requests a second; the "
        f"gaps' standard deviation is {arrivals.cv:.2f} of their mean (1: Poisson)"
        + (f"; index of dispersion {dispersion}" if dispersion else "")
    )
    if arrivals.season is not None:
        top = max(arrivals.season)
        bars = "".join(_BARS[round(weight / top * (len(_BARS) - 1))] for weight in arrivals.season)
        _say(f"day, from the log's beginning: |{bars}| {min(arrivals.season):.2f} to {top:.2f} of the mean")


def _print_sharing(found: Description) -> None:
    sharing = found.sharing
    if sharing is None:
        _say("sharing: the log tells nothing of its prompts' contents; the twin shares nothing but histories")
        return
    _say(
        f"sharing: hit rate {sharing.hit_rate:.1%} with an unlimited cache in blocks of {sharing.block_tokens} tokens; "
        f"{sharing.prefixes} prefixes that several conversations begin with"
    )
    shown = sharing.lru[-_SIZES:]
    curve = Table("cache, tokens", *(_number(size) for size, _ in shown), title_justify="left")
    curve.add_row("hit rate", *(f"{rate:.1%}" for _, rate in shown))
    out.print(curve)
    total = sum(request.prompt_tokens for request in found.log.requests)
    tree = Table("prefix", "below", "tokens", "conversations", "saves, of all prompt tokens", title_justify="left")
    for index, node in sharing.heaviest:
        saves = node.tokens * (node.conversations - 1) / total
        below = "-" if node.parent < 0 else str(node.parent)
        tree.add_row(str(index), below, f"{node.tokens:,}", f"{node.conversations:,}", f"{saves:.1%}")
    if sharing.heaviest:
        out.print(tree)


def _number(value: float) -> str:
    """Three digits are enough to look at, and tables are narrow."""
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if value >= limit:
            return f"{value / (1e3 if unit == 'k' else limit):.3g}{unit}"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
