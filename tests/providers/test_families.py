"""A family of protocols is one row: a toy one is added, in a process of its own, and everything else follows."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

from docket.families import FAMILIES

PROGRAM = """
    import docket.families as families

    toy = families.Family(
        name="toy", vendor="toymaker", base_url="https://api.toy.test", variables=("TOY_URL",), errors="google",
        version=b"/v9", credentials=(b"x-toy-key",),
    )
    families.FAMILIES += (toy,)
    families.BY_NAME["toy"] = toy

    from docket.boundary.answers.refusals import refusal
    from docket.boundary.call.credentials import fingerprint
    from docket.boundary.http1.wire import RequestHead
    from docket.control.decision import Refused
    from docket.errors import UsageError
    from docket.policy.parse import parse
    from docket.providers import registry
    from docket.providers.amendment import versioned
    from docket.providers.call import Endpoint, EndpointClass
    from docket.supervisor.environment import Route, agent_environment, effective_policy, gateway

    policy = parse("", "docket.toml")
    (upstream,) = [upstream for upstream in policy.upstreams if upstream.name == "toy"]
    assert (upstream.base_url, upstream.vendor) == ("https://api.toy.test", "toymaker")
    given = parse('[upstreams.mine]\\nbase_url = "http://x"\\nprotocol = "toy"\\n', "docket.toml")
    assert given.upstream("mine").vendor == "toymaker"
    try:
        parse('[upstreams.mine]\\nbase_url = "http://x"\\nprotocol = "nope"\\n', "docket.toml")
    except UsageError as error:
        assert "toy" in str(error), error

    assert gateway({"TOY_URL": "https://gateway.test"}, "toy") == ("TOY_URL", "https://gateway.test")
    moved = effective_policy(policy, {"TOY_URL": "https://gateway.test"})
    assert moved.upstream("toy").base_url == "https://gateway.test"
    child = agent_environment({}, (Route(name="toy", protocol="toy", base_url="http://127.0.0.1:1/r/t/toy"),), "DKT")
    assert child["TOY_URL"] == "http://127.0.0.1:1/r/t/toy"

    chat = registry.recognise("toy", "POST", "/v1/chat/completions")
    assert (chat.kind, chat.protocol) == (EndpointClass.METERED, "openai-chat")
    assert registry.recognise("toy", "POST", "/v9/play").kind is EndpointClass.UNKNOWN

    own = Endpoint(name="/v9/play", kind=EndpointClass.METERED, protocol="toy", family="toy")
    assert versioned(own, b"/play", b"") == b"/v9/play"
    assert b'"status":"INVALID_ARGUMENT"' in refusal(Refused(code="c", message="m"), "toy", "DKT").body
    assert fingerprint(RequestHead(b"GET", b"/", 1, (b"X-Toy-Key: secret",)), b"k") is not None

    rare = families.Family(
        name="rare", vendor="rare", base_url="https://rare.test/v1", variables=("RARE_URL",), paths={"RARE_URL": ""},
        always=False, keys=("RARE_KEY",),
    )
    families.BY_NAME["rare"] = rare
    assert (rare.given("RARE_URL", "https://gw.test/x/"), rare.value("RARE_URL", "http://d/v1")) == (
        "https://gw.test/x/v1", "http://d"
    )
    assert registry.recognise("toy", "POST", "/chat/completions").kind is EndpointClass.UNKNOWN, "no version, not like"
    assert registry.recognise("deepseek", "POST", "/chat/completions").kind is EndpointClass.METERED
    assert registry.recognise("mistral", "POST", "/v1/conversations").kind is EndpointClass.UNKNOWN, "billed there"
    assert registry.recognise("openai", "POST", "/v1/conversations").kind is EndpointClass.FREE
    print("all of it")
"""


def test_a_toy_family_is_one_row() -> None:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(PROGRAM)], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.stdout == "all of it\n", done.stderr


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_no_module_names_a_family_to_decide_by_it(family: object) -> None:
    """The row is the only place: elsewhere a family's name may stand in tables of endpoints, never in a condition."""
    import ast
    from pathlib import Path

    import docket

    name = family.name  # type: ignore[attr-defined]
    for path in Path(docket.__file__).parent.rglob("*.py"):
        if path.parts[-2] in ("sim", "agents", "chaos", "cli") or path.name == "targets.py":  # a segment of Azure's
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Compare):
                constants = [part.value for part in (node.left, *node.comparators) if isinstance(part, ast.Constant)]
                assert name not in constants, (path, node.lineno)
