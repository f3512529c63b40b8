"""A task of several calls on the real openai SDK, as the docs advise for outages: ``max_retries=10``."""

from __future__ import annotations

import sys

from openai import OpenAI

with OpenAI(max_retries=10) as client:
    for number in range(int(sys.argv[1])):
        answer = client.chat.completions.create(
            model="gpt-4o-mini", messages=[{"role": "user", "content": f"step {number}"}]
        )
        print("step", number, answer.choices[0].message.content, flush=True)
