from __future__ import annotations

from docket.boundary.credentials import fingerprint

KEY = bytes(range(32))


def test_a_fingerprint_tells_keys_apart_and_does_not_hold_them() -> None:
    one = fingerprint([(b"Authorization", b"Bearer sk-1"), (b"Accept", b"*/*")], KEY)
    assert one == fingerprint([(b"authorization", b"Bearer sk-1")], KEY), "header case does not matter"
    assert one is not None
    assert len(one) == 32
    assert "sk-1" not in one
    assert one != fingerprint([(b"authorization", b"Bearer sk-2")], KEY)
    assert one != fingerprint([(b"x-api-key", b"Bearer sk-1")], KEY)
    assert one != fingerprint([(b"authorization", b"Bearer sk-1")], bytes(32)), "another run, another fingerprint"
    assert fingerprint([(b"accept", b"*/*")], KEY) is None
