"""The bundled task sets: small, exact to score, made for comparing a server with itself, not models with each other.

Every prompt is short enough for a context of 512 tokens even where a token is hardly more than a letter; the needle's
are as long as the deployment's declared context.
"""

from tools.evals.tasks.arithmetic import ARITHMETIC
from tools.evals.tasks.extraction import EXTRACTION
from tools.evals.tasks.instructions import INSTRUCTIONS
from tools.evals.tasks.needle import CONTEXT_TOKENS, needle
from tools.evals.tasks.schemas import SCHEMAS
from tools.evals.tasks.tools import TOOLS

__all__ = ["BUNDLED", "CONTEXT_TOKENS", "needle"]

BUNDLED = (ARITHMETIC, INSTRUCTIONS, EXTRACTION, SCHEMAS, TOOLS)
