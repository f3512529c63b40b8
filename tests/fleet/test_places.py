"""Where the store is looked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from docket.fleet.model import StoreError
from docket.fleet.places import default_url, open_store, store_url


@pytest.mark.parametrize(
    ("given", "environ", "policy", "expected"),
    [
        ("sqlite:///a", {"DOCKET_STORE": "sqlite:///b"}, "sqlite:///c", "sqlite:///a"),
        (None, {"DOCKET_STORE": "sqlite:///b"}, "sqlite:///c", "sqlite:///b"),
        (None, {}, "sqlite:///c", "sqlite:///c"),
        (None, {"HOME": "/home/a b"}, None, "sqlite:///home/a%20b/.local/share/docket/fleet.sqlite"),
        (None, {"HOME": "/h", "XDG_DATA_HOME": "/data"}, None, "sqlite:///data/docket/fleet.sqlite"),
        (None, {"HOME": "/h", "XDG_DATA_HOME": "data"}, None, "sqlite:///h/.local/share/docket/fleet.sqlite"),
    ],
)
def test_the_nearest_word_wins(given: str | None, environ: dict[str, str], policy: str | None, expected: str) -> None:
    assert store_url(given, environ, policy) == expected


def test_a_store_that_nobody_made_is_not_made_by_looking(tmp_path: Path) -> None:
    url = default_url({"XDG_DATA_HOME": str(tmp_path)})
    with pytest.raises(StoreError, match="there is no store") as caught:
        open_store(url)
    assert caught.value.hint == "docket store init makes one"
    assert list(tmp_path.iterdir()) == []
