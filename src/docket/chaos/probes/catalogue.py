"""Every probe of ``docket selftest``, in the order in which they are shown."""

from __future__ import annotations

import shutil
import subprocess

from docket.chaos.probes import forwarding, limits, processes, records, scenarios
from docket.chaos.report import PhaseReport
from docket.chaos.selftest import Bench, Probe, Skip


def namespaces(bench: Bench, report: PhaseReport) -> None:
    """Whether this kernel lets an ordinary user make namespaces; docket does not need them yet."""
    del bench
    tool = shutil.which("unshare")
    if tool is None:
        raise Skip("unshare is not installed; docket does not need namespaces")
    done = subprocess.run(
        [tool, "--user", "--map-root-user", "--net", "true"], capture_output=True, check=False, timeout=30
    )
    if done.returncode:
        raise Skip("this kernel refuses user namespaces; docket does not need them")
    report.check("user and network namespaces can be made", "process", expected=0, observed=done.returncode)


PROBES = (
    Probe("forward-bytes", "a call passes unchanged", forwarding.bytes_unchanged, scenarios.ordinary),
    Probe("stream", "a stream streams", forwarding.stream_streams, scenarios.ordinary),
    Probe("usage", "the bill is what the provider stated", forwarding.usage_exact, scenarios.ordinary),
    Probe("token", "no spending without the run's token", forwarding.token_required, scenarios.ordinary),
    Probe("model-denied", "a denied model is not forwarded", forwarding.model_denied, scenarios.ordinary),
    Probe("health", "readiness answers", forwarding.ready, scenarios.ordinary),
    Probe("cap-usd", "the cap in dollars", limits.breached(scenarios.loop_in_usd, "max_usd"), scenarios.loop_in_usd),
    Probe(
        "cap-tokens",
        "the cap in tokens",
        limits.breached(scenarios.loop_in_tokens, "max_tokens"),
        scenarios.loop_in_tokens,
    ),
    Probe(
        "cap-calls",
        "the cap in calls",
        limits.breached(scenarios.loop_in_calls, "max_model_calls"),
        scenarios.loop_in_calls,
    ),
    Probe(
        "cap-time",
        "the cap on wall time",
        limits.breached(scenarios.slow_agent, "max_wall_seconds"),
        scenarios.slow_agent,
    ),
    Probe("kill", "a breach ends the process tree", limits.kill_ends_the_tree, scenarios.loop_in_usd),
    Probe("deny", "a breach refuses and lets live", limits.deny_lets_live, scenarios.loop_in_calls),
    Probe("breaker", "the breaker opens, probes, closes", limits.breaker_cycle, scenarios.outage),
    Probe("limiter", "the limiter makes a hasty agent wait", limits.limiter, scenarios.hasty),
    Probe("exit-status", "the agent's status is docket's", processes.status_passed_on, scenarios.ordinary),
    Probe("crash", "a crashed agent is named", processes.crash_named, scenarios.crash),
    Probe("straggler", "what the agent left is ended", processes.straggler_reaped, scenarios.ordinary),
    Probe("held-open", "an open output delays nothing", processes.held_open, scenarios.ordinary),
    Probe("docket-killed", "a killed docket leaves nothing running", processes.killed_docket, scenarios.killed),
    Probe("lock", "one record has one writer", processes.second_writer_refused),
    Probe("disk-full", "a full disk is disclosed", records.full_disk_disclosed, scenarios.full_disk),
    Probe("real-volume", "a full volume ends in a receipt", records.full_volume_disclosed),
    Probe("sync-failure", "a failed sync stops the run", records.failed_sync_stops, scenarios.failing_sync),
    Probe("ledger-ceiling", "a full ledger is named", records.ceiling_named, scenarios.full_ledger),
    Probe("clock", "a step of the clock is recorded", records.clock_step_recorded, scenarios.clock_step),
    Probe("secrets", "no credential in the record", records.secrets_kept_out, scenarios.ordinary),
    Probe("memory", "the run key is out of reach", records.memory_hidden, scenarios.ordinary),
    Probe("metrics", "metrics and ledger agree", records.metrics_agree, scenarios.ordinary),
    Probe("receipt", "a complete, signed receipt", records.receipt_complete, scenarios.ordinary),
    Probe("verify-python", "docket's own verifier", records.verifies, scenarios.ordinary),
    Probe(
        "verify-js",
        "the JavaScript verifier",
        records.other_verifier("node", "verify-js/verify.mjs", lambda path: ["node", str(path)]),
        scenarios.ordinary,
    ),
    Probe(
        "verify-go",
        "the Go verifier",
        records.other_verifier("go", "verify-go/main.go", lambda path: ["go", "run", "."]),
        scenarios.ordinary,
    ),
    Probe("edit", "an edited ledger is found out", records.edit_found, scenarios.ordinary),
    Probe("namespaces", "what this kernel offers", namespaces),
)
