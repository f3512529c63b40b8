"""The agent of the ordinary scenario: visits provider and boundary, compares them, and leaves two processes behind.

Writes what it saw to ``visit.json`` in its working directory. Standard library only.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

PLAIN = '{"messages":[{"content":"sélf test","role":"user"}],"model":"gpt-4o"}'.encode()
STREAM = b'{"model":"gpt-4o","messages":[],"stream":true,"stream_options":{"include_usage":true}}'
TARGET = "/chat/completions?probe=%2Fa%3Ab"


def exchange(base_url: str, target: str, body: bytes | None) -> dict[str, object]:
    """One request on a connection of its own: status, headers, digest of the body, and when its pieces came."""
    parts = urlsplit(base_url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)
    headers = {"authorization": f"Bearer {os.environ['OPENAI_API_KEY']}", "x-api-key": sys.argv[2].partition("=")[2]}
    connection.request("GET" if body is None else "POST", parts.path + target, body, headers)
    answer = connection.getresponse()
    seen, data = [], b""
    while piece := answer.read1():
        seen.append(time.monotonic())  # noqa: TID251 - an agent has a clock of its own
        data += piece
    connection.close()
    return {
        "status": answer.status,
        "headers": sorted(f"{name.lower()}: {value}" for name, value in answer.getheaders()),
        "sha256": hashlib.sha256(_without_counter(data)).hexdigest(),
        "pieces": len(seen),
        "spread_ms": round((seen[-1] - seen[0]) * 1000) if seen else 0,
    }


def _without_counter(data: bytes) -> bytes:
    """The scripted provider numbers its answers; the number is all that two of them may differ in."""
    return re.sub(rb"chatcmpl-[0-9]+", b"chatcmpl-N", data)


def main() -> int:
    direct, through = f"{sys.argv[1]}/v1", os.environ["OPENAI_BASE_URL"]
    origin = "{0.scheme}://{0.netloc}".format(urlsplit(through))
    visit = {
        "direct": [exchange(direct, TARGET, body) for body in (PLAIN, STREAM)],
        "through": [exchange(through, TARGET, body) for body in (PLAIN, STREAM)],
        "readyz": exchange(origin, "/docket/readyz", None)["status"],
        "without_token": exchange(origin, "/v1/chat/completions", PLAIN)["status"],
        "wrong_token": exchange(origin, "/r/0123456789abcdef/openai/v1/chat/completions", PLAIN)["status"],
        "denied": exchange(through, "/chat/completions", PLAIN.replace(b"gpt-4o", b"o3"))["status"],
    }
    Path("visit.json").write_text(json.dumps(visit))  # noqa: TID251 - an agent's file is not canonical
    helper = subprocess.Popen(["sleep", "600"], start_new_session=True)  # keeps our stdout and stderr open
    straggler = subprocess.Popen(["sh", "-c", "trap '' TERM; while :; do sleep 600; done"], start_new_session=True)
    Path("left-behind").write_text(f"{helper.pid} {straggler.pid}")
    return 7


if __name__ == "__main__":
    sys.exit(main())
