"""What a command measures: a server that runs already, or one that a deployment describes; one way to either."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from tools.deployment import DeploymentFile
from tools.errors import UserError
from tools.targets.choose import target_of
from tools.targets.external.spec import ExternalSpec
from tools.targets.external.target import ExternalTarget, key_in
from tools.targets.knobs import Config
from tools.targets.target import Endpoint, LaunchFailed, Target
from tools.trial import launched

__all__ = ["Served", "as_deployed", "at_url", "is_url"]


@dataclass(frozen=True)
class Served:
    """A target with the config that it is to be measured with: as it stands, whoever runs it."""

    name: str
    "What to call it, with whatever weakens its numbers."
    target: Target
    config: Config
    ready_timeout_s: float = 120.0

    @contextmanager
    def up(self, log: Path) -> Iterator[Endpoint]:
        """Launched, or attached to where somebody else runs it. At the end it must still be the one that it was.

        Raises:
            UserError: it doesn't start, or changed meanwhile, so that nothing that was measured counts.
        """
        try:
            with launched(self.target, self.config, log=log, timeout_s=self.ready_timeout_s) as endpoint:
                yield endpoint
                self.target.identify(endpoint)
        except LaunchFailed as failure:
            raise UserError(self.cannot(failure)) from failure

    def cannot(self, failure: LaunchFailed) -> str:
        """Why there are no numbers."""
        if isinstance(self.target, ExternalTarget):
            return f"{self.name}: can't be measured: {failure.message}"
        return f"{self.name}: the server doesn't run ({failure.kind}): {failure.message}"


def is_url(target: str) -> bool:
    """Whether TARGET names a running server rather than a file.

    Raises:
        UserError: it is neither, but looks like a server's address.
    """
    if "://" not in target and re.fullmatch(r"[\w.-]+:\d+(/.*)?", target) and not Path(target).exists():
        raise UserError(
            f"{target}: expected a deployment's file or a URL, found no such file; for a server say http://{target}"
        )
    return "://" in target


def at_url(url: str, model: str | None, key_env: str | None) -> Served:
    """The OpenAI-compatible server at `url`; the only model that it serves where none is named.

    Raises:
        UserError: no URL of a server, nothing answers there, it wants a key, or it serves no or several models and none
            was named.
    """
    if key_env is not None:
        key_in(key_env, "--key-env")
    try:
        spec = ExternalSpec(kind="external", url=url, api_key_env=key_env)
    except ValidationError as error:
        problem = str(error.errors()[0]["msg"]).removeprefix("Value error, ")
        raise UserError(f"{url}: {problem}") from None
    return _external(ExternalTarget(spec, model, {}, Path()))


def as_deployed(file: DeploymentFile) -> Served:
    """What the deployment describes. A server that somebody else runs is taken as it stands, and never started anew.

    Raises:
        UserError: bad input; or nothing answers, where it should.
    """
    deployment = file.deployment
    target = target_of(deployment, file.path)
    if isinstance(target, ExternalTarget):
        return _external(target.standing(), deployment.name)
    config = target.knobs.resolve(deployment.config)
    return Served(deployment.name, target, config, deployment.ready_timeout_s)


def _external(target: ExternalTarget, name: str | None = None) -> Served:
    target.check()
    where = target.where if name is None else f"{name} at {target.where}"
    return Served(where, target, target.baseline)
