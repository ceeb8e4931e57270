"""Trust: whose word a client takes for who a server is, over https."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from functools import cache

__all__ = ["Trust"]


@dataclass(frozen=True, slots=True)
class Trust:
    """By default the certificate authorities of this machine (or those that SSL_CERT_FILE names)."""

    ca_file: str | None = None
    "PEM file of the authorities, or of the very certificate, in place of the machine's."
    insecure: bool = False
    "Any certificate will do, and so will anybody in between."

    def context(self) -> ssl.SSLContext:
        """What connections need; one for all of them, since reading a machine's authorities takes a while.

        Raises:
            OSError: `ca_file` isn't there, or holds no certificate.
        """
        return _context(self)


@cache
def _context(trust: Trust) -> ssl.SSLContext:
    if not trust.insecure:
        return ssl.create_default_context(cafile=trust.ca_file)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
