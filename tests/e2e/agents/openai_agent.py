"""A small agent on the real openai SDK: plain, streamed, asynchronous, with a tool. Prints what it was told."""

from __future__ import annotations

import asyncio
import sys

from openai import AsyncOpenAI, OpenAI

MODEL = "gpt-4o"
MESSAGES = [{"role": "user", "content": "Say something."}]
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
        },
    }
]


def plain(client: OpenAI) -> None:
    answer = client.chat.completions.create(model=MODEL, messages=MESSAGES)
    print("plain", answer.choices[0].message.content, answer.usage.total_tokens)


def streamed(client: OpenAI) -> None:
    stream = client.chat.completions.create(
        model=MODEL, messages=MESSAGES, stream=True, stream_options={"include_usage": True}
    )
    chunks = list(stream)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    print("streamed", text, chunks[-1].usage.total_tokens)


def tool(client: OpenAI) -> None:
    step = '{"tool": "get_weather", "tool_arguments": {"city": "Berlin"}}'
    answer = client.chat.completions.create(
        model=MODEL, messages=MESSAGES, tools=TOOLS, extra_headers={"x-sim-step": step}
    )
    (call,) = answer.choices[0].message.tool_calls
    print("tool", call.function.name, call.function.arguments)


async def parallel() -> None:
    async with AsyncOpenAI() as client:
        answers = await asyncio.gather(
            *(client.chat.completions.create(model=MODEL, messages=MESSAGES) for _ in range(3))
        )
    print("parallel", [answer.choices[0].message.content for answer in answers])


def loop(client: OpenAI, calls: int) -> None:
    for number in range(calls):
        client.chat.completions.create(model=MODEL, messages=MESSAGES)
        print("call", number + 1, flush=True)


if __name__ == "__main__":
    with OpenAI() as shared:
        if len(sys.argv) > 1:
            loop(shared, int(sys.argv[1]))
        else:
            plain(shared)
            streamed(shared)
            tool(shared)
            asyncio.run(parallel())
