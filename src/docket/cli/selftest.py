"""``docket selftest``: does docket do on this machine what it promises? Offline, in a scratch directory, in seconds."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from docket.cli import exit_codes, options, output
from docket.errors import UsageError


@click.command("selftest")
@options.as_json
@click.option("--only", multiple=True, metavar="ID", help="Only this probe; repeatable. --list shows them.")
@click.option("--list", "only_list", is_flag=True, help="Show the probes and try none.")
@click.option("--keep", type=click.Path(path_type=Path), help="Do it in this new directory, and leave it there.")
def command(as_json: bool, only: tuple[str, ...], only_list: bool, keep: Path | None) -> int:
    """Try what docket promises, with real agents on a scripted provider; one line a probe.

    Exit status 0 when no probe failed, 1 otherwise. A probe that cannot be tried here says why (SKIP).
    """
    from docket.chaos import selftest
    from docket.chaos.probes.catalogue import PROBES

    unknown = [name for name in only if name not in {probe.id for probe in PROBES}]
    if unknown:
        raise UsageError(f"--only: no probe {', '.join(unknown)}", hint="docket selftest --list shows them")
    chosen = [probe for probe in PROBES if not only or probe.id in only]
    if only_list:
        output.table(("probe", "what it tries"), [[probe.id, probe.title] for probe in chosen])
        return exit_codes.OK
    results = selftest.SelfTest()
    with _scratch(keep) as root:
        for result in selftest.run(chosen, root):
            results.results.append(result)
            if not as_json:
                output.result(f"{result.verdict}  {result.id:15}{result.title}: {selftest.detail(result)}")
    if as_json:
        output.document(results.to_json())
    else:
        skipped = sum(result.verdict == "SKIP" for result in results.results)
        passed = len(results.results) - skipped - results.failed
        output.result(f"{passed} passed, {results.failed} failed, {skipped} skipped")
    return exit_codes.FAILED if results.failed else exit_codes.OK


@contextmanager
def _scratch(keep: Path | None) -> Iterator[Path]:
    """A directory for the runs: removed afterwards, unless the caller named one."""
    if keep is None:
        with tempfile.TemporaryDirectory(prefix="docket-selftest-", ignore_cleanup_errors=True) as path:
            yield Path(path)
        return
    try:
        keep.mkdir(parents=True)
    except OSError as error:
        raise UsageError(f"--keep: cannot make {keep}: {error.strerror}") from error
    yield keep.resolve()
