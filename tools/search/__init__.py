"""Numeric search over a knob space: learns from every trial, the infeasible ones too, and always explores a share."""

from tools.search.space import SearchSpace
from tools.search.study import Observation, Search

__all__ = ["Observation", "Search", "SearchSpace"]
