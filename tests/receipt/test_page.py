"""A report as one HTML file: text stays text, the policy names what may run, and the page claims nothing by itself."""

from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tools.verify_page import SOURCE, script

from docket.receipt.page import page, verifier_of

VERIFIER = "const verifyFiles = async () => ({});"


def made(lines: list[str], title: str = "a run", **more: object) -> str:
    return page(title=title, lines=lines, verifier=VERIFIER, **({"documents": {}, "without": []} | more))  # type: ignore[arg-type]


class Seen(HTMLParser):
    """The elements of a page and the text of its report."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_verifier_of_the_report_is_the_projects_own() -> None:
    assert verifier_of((SOURCE / "index.html").read_text()) == script().rstrip("\n")


def test_the_policy_allows_the_scripts_and_styles_that_stand_there_by_digest_and_no_other() -> None:
    text = made(["run         x"])
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
    assert policy is not None
    assert policy[1].startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy[1]
    for body in re.findall(r'<(?:style|script type="module")>(.*?)</(?:style|script)>', text, re.DOTALL):
        digest = base64.b64encode(hashlib.sha256(body.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy[1]


@given(st.lists(st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=80), max_size=8))
def test_whatever_the_lines_say_the_elements_are_those_of_the_report(lines: list[str]) -> None:
    seen = Seen(made(lines))
    assert set(seen.tags) <= set(Seen(made(["", "Models:", "  x", "run         x", "-"])).tags)
    assert seen.tags.count("script") == 1


@pytest.mark.parametrize(
    "hostile", ["</pre><script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "&lt;b&gt;", "</title><b>", "<!--"]
)
def test_hostile_text_stays_text(hostile: str) -> None:
    lines = [f"run         {hostile}", "", "Models:", f"  {hostile}", f"{hostile}"]
    seen = Seen(made(lines, title=hostile, without=[hostile], documents={hostile: b"x"}))
    assert not {"img", "b"} & set(seen.tags)
    assert seen.text.count(hostile) >= 5


def test_documents_are_held_byte_for_byte() -> None:
    data = bytes(range(256)) * 40
    text = made([], documents={"receipt.json": data})
    (held,) = re.findall(r'data-name="receipt.json">([^<]*)<', text)
    assert base64.b64decode(held) == data


def test_without_its_script_the_page_claims_no_verdict() -> None:
    text = re.sub(r"<script.*?</script>", "", made(["run         x"]), flags=re.DOTALL)
    assert "not verified: this page verifies itself by its script, which has not run" in text


def test_what_is_no_page_of_the_verifier_is_refused() -> None:
    with pytest.raises(AssertionError):
        verifier_of("<script>other</script>")
