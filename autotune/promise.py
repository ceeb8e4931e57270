"""Promise: an SLO as options say it, `--slo "ttft_ms.p95=500"`."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pydantic import ValidationError

from tools.errors import UserError
from tools.measure.slo import Slo

__all__ = ["parse_promise"]


def parse_promise(texts: Sequence[str]) -> Slo:
    """Bounds in milliseconds, each `METRIC.STATISTIC=BOUND`; several may stand in one text, with commas between.

    Raises:
        UserError: not such a bound, or the same one twice.
    """
    found: dict[str, dict[str, float]] = {}
    for text in (part.strip() for whole in texts for part in whole.split(",")):
        match = re.fullmatch(r"(\w+)\.(\w+)\s*=\s*(\d+(?:\.\d+)?)", text)
        if match is None:
            raise UserError(f"--slo: expected a bound in ms like ttft_ms.p95=500, found {text!r}")
        metric, statistic, bound = match[1], match[2], float(match[3])
        if statistic in found.setdefault(metric, {}):
            raise UserError(f"--slo: expected each bound once, found {metric}.{statistic} twice")
        found[metric][statistic] = bound
    try:
        return Slo.model_validate(found)
    except ValidationError as error:
        problems = "; ".join(f"{'.'.join(map(str, p['loc']))}: {p['msg']}" for p in error.errors())
        raise UserError(
            f"--slo: {problems}. Expected ttft_ms, tpot_ms, itl_ms or e2el_ms with mean, p50, p90, p95 or p99, "
            "e.g. ttft_ms.p95=500"
        ) from None
