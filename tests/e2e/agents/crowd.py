"""Two hundred callers at once, each calling until it is refused for good; costs are drawn from a seed."""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
from urllib.parse import urlsplit

CALLERS = 200
BODY = b'{"model": "gpt-4o", "max_tokens": 5000, "messages": [{"role": "user", "content": "hi"}]}'


async def call(url: str, step: str) -> int:
    """One call on a connection of its own; its status."""
    at = urlsplit(url)
    reader, writer = await asyncio.open_connection(at.hostname, at.port)
    head = (
        f"POST {at.path}/chat/completions HTTP/1.1\r\nHost: {at.netloc}\r\nConnection: close\r\n"
        f"Content-Type: application/json\r\nX-Sim-Step: {step}\r\nContent-Length: {len(BODY)}\r\n\r\n"
    )
    writer.write(head.encode() + BODY)
    answer = await reader.read()
    writer.close()
    return int(answer.split(b" ", 2)[1])


async def caller(url: str, rng: random.Random) -> int:
    """Calls until a 400; how often it was told to come back."""
    later = 0
    while True:
        output = rng.randrange(1000, 5001)
        step = json.dumps({"input_tokens": 0, "output_tokens": output, "latency_ms": rng.randrange(5, 30)})  # noqa: TID251
        status = await call(url, step)
        if status == 400:
            return later
        later += status == 429


async def main(seed: int) -> None:
    rng = random.Random(seed)
    url = os.environ["OPENAI_BASE_URL"]
    later = await asyncio.gather(*(caller(url, rng) for _ in range(CALLERS)))
    print(json.dumps({"refused": len(later), "later": sum(later)}))  # noqa: TID251


asyncio.run(main(int(sys.argv[1])))
