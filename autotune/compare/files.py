"""CompareFiles: the page and the picture that `compare` writes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from autotune.compare.comparison import Comparison
from autotune.pages.compare import compare_page
from autotune.pages.compare_picture import ratios
from tools.errors import UserError
from tools.whole_file import replaced

__all__ = ["CompareFiles"]


@dataclass(frozen=True)
class CompareFiles:
    """The files that were asked for. Whether they can be written is found out before anything is measured."""

    page: Path | None
    picture: Path | None

    @classmethod
    def asked(cls, page: Path | None, picture: Path | None) -> CompareFiles:
        """As the options name them.

        Raises:
            UserError: they can't be written.
        """
        for path in (page, picture):
            if path is not None and (path.is_dir() or not path.absolute().parent.is_dir()):
                raise UserError(f"{path}: expected the name of a file in a folder that is there")
        if picture is not None and picture.suffix != ".svg":
            raise UserError(f"--picture {picture}: expected a name that ends in .svg")
        return cls(page, picture)

    def write(self, found: Comparison) -> None:
        """Each file whole or not at all."""
        for path, text in ((self.page, compare_page), (self.picture, ratios)):
            if path is not None:
                with replaced(path) as file:
                    file.write(text(found).encode())
