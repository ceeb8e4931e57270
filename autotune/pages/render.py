"""Rendering a page: templates that escape whatever comes from a server, and refuse a name that isn't given."""

from __future__ import annotations

from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

__all__ = ["drawn", "render"]


def render(template: str, **context: Any) -> str:
    """The page of `template` (a file in templates/)."""
    environment = Environment(
        loader=PackageLoader("autotune.pages"),
        undefined=StrictUndefined,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(template).render(**context)


def drawn(svg: str) -> Markup:
    """A picture of ours, whose texts `Chart` has escaped, to stand in a page as it is."""
    return Markup(svg)
