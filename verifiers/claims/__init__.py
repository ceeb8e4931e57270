"""Claims: numerals in prose that say something about a measurement, and the recorded figures they may rest on."""

from verifiers.claims.cells import Cell, cells_of
from verifiers.claims.parse import Claim, claims_in
from verifiers.claims.trace import WITHHELD, shown, untraceable

__all__ = ["WITHHELD", "Cell", "Claim", "cells_of", "claims_in", "shown", "untraceable"]
