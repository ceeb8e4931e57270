"""Changed: in which way an external server isn't, or is no longer, the one that was to be measured."""

from __future__ import annotations

import http.client
import ssl
from collections.abc import Callable, Sequence
from typing import Literal

from tools.measure.records import RequestRecord
from tools.targets.control import Answered, ControlError
from tools.targets.target import LaunchFailed

__all__ = ["Change", "Changed", "explained", "require_undisturbed"]

Change = Literal[
    "silent", "restarted", "model", "config", "build", "throttled", "redirected", "certificate", "key", "not_applied"
]

_WORDS: dict[Change, str] = {
    "silent": "doesn't answer",
    "restarted": "was started anew",
    "model": "serves another model",
    "config": "runs with other settings",
    "build": "is another build",
    "throttled": "turns us away",
    "redirected": "redirects, which isn't followed",
    "certificate": "can't prove who it is",
    "key": "refuses the key",
    "not_applied": "wasn't given its config",
}
Counted = Callable[[str], float | None]
_LEAST_COUNTED = 0.9
"Of the tokens of its answers: a counter may lag behind a little."
_UPSTREAM_GONE = (502, 504)
_REDIRECTS = (301, 302, 303, 307, 308)


class Changed(LaunchFailed):
    """Nothing that was measured across this counts: a failure of kind `unreachable`, with which `change` it was."""

    def __init__(self, change: Change, url: str, sentence: str, log_tail: str = "") -> None:
        super().__init__("unreachable", f"{url} {_WORDS[change]}: {sentence}", log_tail)
        self.change: Change = change


def explained(error: ControlError, url: str) -> LaunchFailed:
    """`error` as the change that it shows; itself where it shows none."""
    if error.answered is not None:
        change = _refused(error.answered)
        return error if change is None else Changed(change, url, _said(error, change))
    cause = error.__cause__
    if isinstance(cause, ssl.SSLCertVerificationError):
        return Changed("certificate", url, _certificate(cause))
    if isinstance(cause, OSError | http.client.HTTPException):
        return Changed("silent", url, error.message)
    return error


def require_undisturbed(url: str, records: Sequence[RequestRecord], counted: Counted = lambda counter: None) -> None:
    """See that nothing but the server's own speed decided what became of a load's requests.

    Args:
        counted: how far one of the server's counters went up during the load; None where that isn't known. Those
            requests that its own full queue turned away are a measurement of its config and not a disturbance.

    Raises:
        Changed: some were turned away by a limit, refused for their key, redirected, or found nobody; or the server
            counted clearly less than it answered.
    """
    found: dict[Change, list[RequestRecord]] = {}
    for record in records:
        if record.outcome == "failed" and (change := _of_record(record)) is not None:
            found.setdefault(change, []).append(record)
    if "throttled" in found and (counted("rejected") or 0.0) >= len(found["throttled"]):
        del found["throttled"]
    for change, hit in found.items():
        raise Changed(change, url, f"{len(hit)} of {len(records)} requests; the first: {hit[0].error}")
    said = sum(record.output_tokens or 0 for record in records if record.token_source != "chunks")
    if (told := counted("generation_tokens")) is not None and told < _LEAST_COUNTED * said:
        sentence = f"it counted {told:g} tokens and answered {said} meanwhile (or several servers share the address)"
        raise Changed("restarted", url, sentence)


def _of_record(record: RequestRecord) -> Change | None:
    if record.http_status is not None:
        told = {"retry-after": ""} if "(Retry-After:" in record.error else {}
        return _refused(Answered(record.http_status, told, b""))
    if record.error.startswith("connect:"):
        return "certificate" if "CERTIFICATE_VERIFY_FAILED" in record.error else "silent"
    return None


def _refused(answered: Answered) -> Change | None:
    if answered.status in (401, 403):
        return "key"
    if answered.status in _REDIRECTS:
        return "redirected"
    if answered.status == 429 or (answered.status == 503 and "retry-after" in answered.headers):
        return "throttled"
    return "silent" if answered.status in _UPSTREAM_GONE else None


def _said(error: ControlError, change: Change) -> str:
    assert error.answered is not None
    headers = error.answered.headers
    if change == "key":
        return f"{error.message}; name the variable that holds the key (api_key_env, --key-env)"
    if change == "redirected":
        return f"{error.message}, to {headers.get('location', 'nowhere')}; give that address if it is meant"
    if change == "throttled" and "retry-after" in headers:
        return f"{error.message}; asks to wait {headers['retry-after']} s"
    return error.message


def _certificate(cause: ssl.SSLCertVerificationError) -> str:
    return (
        f"its certificate isn't trusted ({cause.verify_message or cause}); name its authority with ca_file: (or in the "
        "variable SSL_CERT_FILE), or accept any with insecure: true"
    )
