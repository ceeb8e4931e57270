"""Files that appear whole or not at all."""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

from tools.errors import UserError

__all__ = ["replaced"]


@contextmanager
def replaced(path: Path) -> Iterator[IO[bytes]]:
    """A file to write that takes the place of `path` when it is complete; compressed where the name ends in `.gz`.

    Compressed files hold neither name nor moment: equal content gives equal bytes.

    Raises:
        UserError: the folder is missing or full, or may not be written to.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with draft.open("wb") as raw:
            if path.suffix == ".gz":
                with gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) as packed:
                    yield cast(IO[bytes], packed)
            else:
                yield raw
        draft.replace(path)
    except OSError as error:
        raise UserError(f"{path}: can't be written: {error.strerror or error}") from error
    finally:
        draft.unlink(missing_ok=True)
