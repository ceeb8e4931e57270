"""Text: what a server or a person wrote, made fit to stand inside a picture."""

from __future__ import annotations

from html import escape

__all__ = ["svg_text"]


def svg_text(text: str) -> str:
    """`text` escaped for an element or a quoted attribute; what XML forbids (control characters) as U+FFFD."""
    allowed = "".join(
        c if c in "\t\n\r" or " " <= c < "\ud800" or "\ue000" <= c != "\uffff" else "\ufffd" for c in text
    )
    return escape(allowed.replace("\ufffe", "\ufffd"))
