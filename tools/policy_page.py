"""Write docs/policy.md from the policy's own rows. Use: ``python -m tools.policy_page > docs/policy.md``."""

from __future__ import annotations

from collections.abc import Iterator

from docket.families import BY_NAME
from docket.policy.keys import REQUIRED, Key, keys_of
from docket.policy.model import BUILT_IN_UPSTREAMS, TABLES, Upstream
from docket.policy.render import summary, toml_line

HEAD = """\
# The policy: docket.toml

This page is generated from the code (`make docs`); a test keeps it so. `docket init` writes the same keys with the same
comments into a file of your own. `docket run` reads `./docket.toml`, or the file of `--policy`; flags override it. An
unknown key, or a value outside its range, is an error that names file, key and the nearest known key; the exit status
is 2 and nothing was started. A key that is left out has the default shown here."""


def page() -> str:
    """The whole page."""
    lines = [HEAD]
    for name, (_, cls) in TABLES.items():
        lines += ["", f"## [{name}]", "", summary(cls), "", *_rows(cls)]
    lines += [
        "",
        "## [upstreams.NAME]",
        "",
        summary(Upstream),
        "",
        *_rows(Upstream),
        "",
        "Built in ([providers](providers.md)):",
        "",
    ]
    lines += [
        f"- `{upstream.name}`: `{upstream.base_url}`, protocol `{upstream.protocol}`, priced as `{upstream.vendor}`"
        + ("" if BY_NAME[upstream.protocol].always else ", where a key or address of it is set")
        for upstream in BUILT_IN_UPSTREAMS
    ]
    return "\n".join(lines) + "\n"


def _rows(cls: type) -> Iterator[str]:
    yield "| key | default | must be | meaning |"
    yield "| --- | --- | --- | --- |"
    for key in keys_of(cls):
        yield f"| `{key.name}` | {_default(key)} | {_escape(key.kind.expects)} | {_escape(key.comment)} |"


def _default(key: Key) -> str:
    if key.default is REQUIRED:
        return "required"
    if key.default is None:
        return "none"
    return f"`{_escape(toml_line(key.name, key.default).partition(' = ')[2])}`"


def _escape(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    print(page(), end="")
