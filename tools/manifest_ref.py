"""ManifestRef: what a deployment says of the manifest in which its config stands a second time."""

from __future__ import annotations

import posixpath
from pathlib import PurePosixPath
from typing import Any

from pydantic import BaseModel, ConfigDict, field_validator, model_validator

__all__ = ["ManifestRef"]


class ManifestRef(BaseModel):
    """The file that the platform reads: a commit of knobs changes it together with the deployment."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    file: str
    "Relative to the deployment's folder, in the same repository."
    site: str | None = None
    "Which of its commands; needed only where it holds several."

    @model_validator(mode="before")
    @classmethod
    def _spelled_out(cls, given: Any) -> Any:
        """A bare path is short for `{file: path}`."""
        return {"file": given} if isinstance(given, str) else given

    @field_validator("file")
    @classmethod
    def _is_relative(cls, file: str) -> str:
        if not file.strip() or PurePosixPath(file).is_absolute():
            raise ValueError("expected a path relative to this file, such as ../k8s/vllm.yaml")
        return file

    def beside(self, deployment: str) -> str:
        """The manifest's path where the deployment's is `deployment`; both with slashes, below the same folder."""
        return posixpath.normpath(posixpath.join(posixpath.dirname(deployment), self.file))
