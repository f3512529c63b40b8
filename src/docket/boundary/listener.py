"""Listening sockets, bound before a run has left any trace: an address that cannot be had is a wrong call."""

from __future__ import annotations

import socket

from docket.errors import UsageError

LOOPBACK = "127.0.0.1"


def bind(host: str, port: int, *, named: str, hint: str) -> socket.socket:
    """A TCP socket bound to ``host`` and ``port`` (0: any free one), not yet listening.

    ``named`` is the flag or key that gave the address. Raises UsageError naming it where that cannot be.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = found[0]
        bound = socket.socket(family, kind, protocol)
        try:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind(address)
        except OSError:
            bound.close()
            raise
    except OSError as error:
        raise UsageError(f"{named}: cannot listen on {host} port {port}: {error.strerror}", hint=hint) from error
    return bound
