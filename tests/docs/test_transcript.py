"""The transcript in the README is what the commands print: run again, and compared without what differs by run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
BLOCK = re.search(r"^```\n(\$ docket run .*?)^```", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
AGENT = "import sys\nfrom docket.sim.agent import main\nsys.exit(main())\n"
PROVIDER = [sys.executable, "-m", "docket.sim.upstream", "--input-tokens", "2000", "--output-tokens", "500"]


def _steady(text: str) -> list[str]:
    """Lines without keys, roots, docket numbers, counts and directories; the page may shorten what is long."""
    text = re.sub(r"DKT-[0-9]{8}-[0-9A-Z]{10}", "DKT", text)
    text = re.sub(r"\b[0-9a-f]{64}\b|\b[0-9a-f]{8}…", "HEX", text)
    text = re.sub(r"[0-9]+ events", "N events", text)
    text = re.sub(r"receipt: \S*\.docket/\S+", "receipt: .docket", text)
    text = re.sub(r" [0-9]+ refused,", "", text)  # whether the agent got one more call out before SIGTERM
    return [line for line in text.splitlines() if line]


def test_the_readmes_transcript_is_what_the_commands_print(tmp_path: Path) -> None:
    assert BLOCK is not None
    (tmp_path / "agent.py").write_text(AGENT)
    with subprocess.Popen(PROVIDER, stdout=subprocess.PIPE, text=True) as provider:
        assert provider.stdout is not None
        env = os.environ | {
            "OPENAI_BASE_URL": provider.stdout.readline().strip() + "/v1",
            "DOCKET_AGENT_MODE": "runaway",
            "DOCKET_AGENT_MODEL": "gpt-4o",
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        }
        shown = []
        for command in re.findall(r"^\$ (.*)$", BLOCK[1], re.MULTILINE):
            done = subprocess.run(
                ["sh", "-c", f"exec 2>&1; {command}"],
                env=env,
                cwd=tmp_path,
                capture_output=True,
                text=True,
                check=False,
            )
            shown.append(f"$ {command}\n{done.stdout}")
        provider.terminate()
    assert _steady("\n".join(shown)) == _steady(BLOCK[1])


def test_the_transcript_fits_a_narrow_screen() -> None:
    assert BLOCK is not None
    assert max(map(len, BLOCK[1].splitlines())) <= 74
