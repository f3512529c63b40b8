"""What the documents say exists: links, paths, commands with their flags, make targets, generated pages."""

from __future__ import annotations

import importlib
import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from tools.changelog import section
from tools.policy_page import page

from docket.cli.main import COMMANDS, docket

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    path
    for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "spec").glob("*.md")]
    if path.name != "LICENSE"
)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"`([^`\n]+)`")
FENCE = re.compile(r"^```[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
TRACKED = (
    "src/",
    "tests/",
    "docs/",
    "spec/",
    "deploy/",
    "tools/",
    "changes/",
    "requirements/",
    "verify-js/",
    "verify-go/",
)
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def _lines_of_shell(text: str) -> Iterator[str]:
    """Lines of fenced blocks and inline code that call docket or make, without prompt and comment."""
    pieces = [line for block in FENCE.findall(text) for line in block.splitlines()]
    pieces += CODE.findall(FENCE.sub("", text))
    for piece in pieces:
        line = piece.strip().removeprefix("$ ").split("  #")[0].strip()
        if re.match(r"(docket|make) [a-z]", line):
            yield line


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_and_path_of_a_page_exists(path: Path) -> None:
    text = path.read_text()
    missing = []
    for target in LINK.findall(text):
        if not re.match(r"[a-z]+:|#", target) and not (path.parent / target.split("#")[0]).exists():
            missing.append(target)
    for code in CODE.findall(FENCE.sub("", text)):
        word = code.split("::")[0]
        if code.startswith(TRACKED) and not re.search(r"[*<>{}… ]", word) and not (ROOT / word).exists():
            missing.append(code)
    assert not missing


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_command_of_a_page_exists_with_its_flags(path: Path) -> None:
    wrong = []
    for line in _lines_of_shell(path.read_text()):
        tool, *words = shlex.split(line.split(" | ")[0].split(" && ")[0], comments=True)
        fault = _make_fault(words) if tool == "make" else _docket_fault(words)
        if fault:
            wrong.append(f"{line}: {fault}")
    assert not wrong


def _make_fault(words: list[str]) -> str | None:
    unknown = [word for word in words if "=" not in word and not word.startswith("-") and word not in TARGETS]
    return f"no such target: {unknown}" if unknown else None


def _docket_fault(words: list[str]) -> str | None:
    if words[0] not in COMMANDS:
        return f"no command {words[0]}"
    command = importlib.import_module(COMMANDS[words[0]][0]).command
    ours = words[1 : words.index("--")] if "--" in words else words[1:]
    if isinstance(command, click.Group) and ours and ours[0] in command.commands:
        command = command.commands[ours[0]]
    known = {flag for option in command.params for flag in (*option.opts, *option.secondary_opts)} | {"--help", "-h"}
    unknown = [word for word in ours if word.startswith("-") and word != "-" and word.split("=")[0] not in known]
    return f"unknown flags {unknown}" if unknown else None


def test_the_policy_page_is_what_the_code_says() -> None:
    assert (ROOT / "docs/policy.md").read_text() == page(), "run `make docs`"


def test_every_make_target_with_a_comment_is_phony_and_every_phony_one_exists() -> None:
    text = (ROOT / "Makefile").read_text()
    phony = set(" ".join(re.findall(r"^\.PHONY: (.*)$", text, re.MULTILINE)).split())
    assert phony == TARGETS


def test_every_command_has_help_that_says_what_it_does() -> None:
    for name, (module, line) in COMMANDS.items():
        command = importlib.import_module(module).command
        assert command.name in (name, "command")
        assert line.endswith(".")
        assert command.help
        for option in command.params:
            if isinstance(option, click.Option):
                assert option.help, f"{name} {option.opts}"
    assert docket.epilog is not None


def test_the_readme_names_every_command_and_every_page_of_the_docs_is_linked_from_it() -> None:
    text = (ROOT / "README.md").read_text()
    assert [name for name in COMMANDS if not re.search(rf"`docket {name}\b", text)] == []
    pages = [path.relative_to(ROOT) for path in (ROOT / "docs").glob("*.md")]
    assert [str(path) for path in pages if f"({path})" not in text] == []


def test_every_fragment_of_the_changelog_is_short_and_ends_like_a_sentence() -> None:
    for path in (ROOT / "changes").iterdir():
        text = path.read_text().strip()
        assert path.suffix == ".md"
        assert 1 <= len(text.splitlines()) <= 4, path.name
        assert text.endswith((".", ")")), path.name
    assert section().count("\n- ") + 1 == len(list((ROOT / "changes").glob("*.md")))


def test_the_architecture_page_lists_every_package_in_the_order_that_the_layers_allow() -> None:
    rows = re.findall(r"^\| `([a-z]+)` \|", (ROOT / "ARCHITECTURE.md").read_text(), re.MULTILINE)
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = [set(layer.split(" | ")) for layer in contracts[0]["layers"]]
    depth = {package: number for number, layer in enumerate(layers) for package in layer}
    assert set(rows) == set(depth)
    assert [depth[row] for row in rows] == sorted(depth[row] for row in rows)
