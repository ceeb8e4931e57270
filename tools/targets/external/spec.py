"""ExternalSpec: a server that somebody else runs, and what we may do there."""

from __future__ import annotations

from typing import Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from tools.targets.engine_name import EngineName
from tools.targets.external.address import base_url_of

__all__ = ["ExternalSpec"]


class ExternalSpec(BaseModel):
    """Where it answers, and what we may do there: load it, unless `reset` and `apply` allow more."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["external"]
    url: str
    "Of its OpenAI-compatible API, with or without the /v1: `https://llm.example.com:8443/team-a/v1`."
    api_key_env: str | None = Field(default=None, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")
    "The variable that holds its key. The key is sent to `url`'s host and port and nowhere else."
    ca_file: str | None = None
    "PEM file of the authority that its certificate is checked by, in place of the machine's own; beside this file."
    insecure: bool = False
    "Any certificate will do. Every report says so."
    engine: EngineName | None = None
    "Whose metrics and settings it tells; found out by what it answers where it isn't named. Needed to name knobs."
    metrics_url: str | None = None
    "Where its counters stand; by default /metrics after `url`."
    reset: bool = False
    "Its prefix cache may be emptied before each load; who else uses it will notice."
    apply: tuple[str, ...] = ()
    """A program and its arguments that make the server have a config, given as JSON on stdin, and end with 0 once it
    serves with that. No shell; a path with a slash is beside this file. Without it the config is never changed."""
    apply_timeout_s: float = Field(default=900.0, gt=0, le=7200)
    "Most that `apply` may take until the server answers with the new config."
    restarts: bool = True
    "Whether `apply` starts the server anew. Where the server tells its start, that is then waited for."

    @field_validator("url")
    @classmethod
    def _base(cls, url: str) -> str:
        return base_url_of(url)

    @field_validator("metrics_url")
    @classmethod
    def _metrics(cls, url: str | None) -> str | None:
        if url is not None and not urlsplit(url).path.strip("/"):
            raise ValueError("expected the whole address of the metrics, as http://HOST:PORT/metrics")
        return url if url is None else base_url_of(url)

    @model_validator(mode="after")
    def _one_trust(self) -> ExternalSpec:
        if self.insecure and self.ca_file is not None:
            raise ValueError("expected ca_file or insecure: with insecure: true no certificate is checked by anything")
        if (self.insecure or self.ca_file is not None) and urlsplit(self.url).scheme != "https":
            raise ValueError("ca_file and insecure are about certificates, and this url isn't https")
        return self
