"""CampaignPlan: how many requests each load of a calibration gets, within a budget of requests and of time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from tools.errors import UserError

__all__ = ["LEAST_REQUESTS", "UTILISATIONS", "CampaignPlan"]

UTILISATIONS = (0.35, 0.6, 0.8)
"""Of the capacity, as the burst shows it: hardly any queue, some, and one that shows how the server behaves in it."""

LEAST_REQUESTS = 48
_SHARES = {"probe": 0.10, "burst": 0.30}
_LEAST = {"probe": 8, "burst": 16, "rate": 8}
_LOAD_SHARE = 0.85
"Share of the time budget that the rates may fill; the rest is for waiting on last answers and for the fit."


@dataclass(frozen=True, slots=True)
class CampaignPlan:
    """Requests per load."""

    probe: int
    burst: int
    rate: int
    "Of each of the rates between."

    @classmethod
    def of(cls, requests: int) -> CampaignPlan:
        """A plan for `requests` in all.

        Raises:
            UserError: too few to see anything.
        """
        if requests < LEAST_REQUESTS:
            raise UserError(
                f"calibrate: expected at least {LEAST_REQUESTS} requests (one at a time, all at once and at "
                f"{len(UTILISATIONS)} rates), found {requests}; raise --requests"
            )
        probe, burst = (max(round(requests * share), _LEAST[name]) for name, share in _SHARES.items())
        return cls(probe, burst, max((requests - probe - burst) // len(UTILISATIONS), _LEAST["rate"]))

    def within(self, left_s: float, length_s: Callable[[int], float]) -> CampaignPlan:
        """This plan with as many requests a rate as fit into `left_s` seconds.

        Args:
            length_s: seconds that all rates take together with so many requests each.

        Raises:
            UserError: not even the fewest fit.
        """
        least, room_s = _LEAST["rate"], _LOAD_SHARE * left_s
        if length_s(self.rate) <= room_s:
            return self
        if length_s(least) > room_s:
            raise UserError(
                f"calibrate: expected time for {least} requests at each of {len(UTILISATIONS)} rates, about "
                f"{length_s(least) / _LOAD_SHARE:.0f} s, found {max(left_s, 0):.0f} s of the budget left after the "
                "burst; raise --budget"
            )
        fits, too_many = least, self.rate
        while too_many - fits > 1:
            middle = (fits + too_many) // 2
            fits, too_many = (middle, too_many) if length_s(middle) <= room_s else (fits, middle)
        return replace(self, rate=fits)
