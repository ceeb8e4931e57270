"""Numeric search over a knob space: which config to try next, what to expect of it, and when to stop.

Every strategy is a pure function of what was tried. Infeasible trials and broken promises teach; what anybody believes
beforehand weighs and never masks; a fixed share of turns explores whatever was learned.
"""

from tools.search.observation import Observation
from tools.search.prior import Prior, Region
from tools.search.problem import Forecast, Oracle, Problem
from tools.search.space import SearchSpace
from tools.search.stopping import reason_to_stop, recommended, worth_repeating
from tools.search.strategy import STRATEGIES, Strategy, strategy

__all__ = [
    "STRATEGIES",
    "Forecast",
    "Observation",
    "Oracle",
    "Prior",
    "Problem",
    "Region",
    "SearchSpace",
    "Strategy",
    "reason_to_stop",
    "recommended",
    "strategy",
    "worth_repeating",
]
