"""A proposal for a target that we may load but not change: written down for whoever may, measured by nobody."""

from __future__ import annotations

import difflib
from typing import Any

from autotune.harness.change import texts_of
from autotune.harness.context import Context
from tools.proposal import Proposal

__all__ = ["write_down"]


def write_down(context: Context, proposal: Proposal) -> dict[str, Any]:
    """Write the deployment as it would be into the run's folder, whole and as a patch; what the ledger holds of it.

    It passed the questions that need no launch (policy, memory, repeats), and no other.
    """
    texts, file = texts_of(context, proposal.patch), context.file.path
    patch = "".join(
        difflib.unified_diff(
            texts.before.splitlines(keepends=True),
            texts.after.splitlines(keepends=True),
            f"a/{file.name}",
            f"b/{file.name}",
        )
    )
    whole, diff = context.run.path / f"proposed-{file.name}", context.run.path / "proposed.patch"
    whole.write_text(texts.after)
    diff.write_text(patch)
    return {"proposal": proposal.to_json(), "patch": patch, "file": whole.name, "diff": diff.name}
