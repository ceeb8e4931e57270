"""A knob takes what it can take, and refuses everything else in one way."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.targets.knobs import Knob, KnobError

UNBOUNDED = (Knob("seats", "int", 1, "Seats."), Knob("share", "float", 0.5, "A share."))
BOUNDED = (Knob("seats", "int", 1, "Seats.", 1, 512), Knob("share", "float", 0.5, "A share.", 0.0, 1.0))


@given(st.integers(310, 1000), st.sampled_from((-1, 1)))
def test_a_number_that_no_float_can_hold_is_refused_like_infinity(digits: int, sign: int) -> None:
    for knob in (*UNBOUNDED, *BOUNDED):
        with pytest.raises(KnobError, match="expected a finite number"):
            knob.check(sign * 10**digits)
    for endless in (sign * math.inf, math.nan):
        with pytest.raises(KnobError, match="expected a finite number"):
            BOUNDED[1].check(endless)
