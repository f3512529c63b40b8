"""A small agent on the real anthropic SDK: plain, streamed, asynchronous, with a tool. Prints what it was told."""

from __future__ import annotations

import asyncio

from anthropic import Anthropic, AsyncAnthropic

MODEL = "claude-sonnet-4-5"
MESSAGES = [{"role": "user", "content": "Say something."}]
TOOLS = [{"name": "get_weather", "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}}}]


def plain(client: Anthropic) -> None:
    answer = client.messages.create(model=MODEL, max_tokens=100, messages=MESSAGES)
    print("plain", answer.content[0].text, answer.usage.output_tokens)


def streamed(client: Anthropic) -> None:
    with client.messages.stream(model=MODEL, max_tokens=100, messages=MESSAGES) as stream:
        text = "".join(stream.text_stream)
        print("streamed", text, stream.get_final_message().usage.output_tokens)


def tool(client: Anthropic) -> None:
    step = '{"tool": "get_weather", "tool_arguments": {"city": "Berlin"}}'
    answer = client.messages.create(
        model=MODEL, max_tokens=100, messages=MESSAGES, tools=TOOLS, extra_headers={"x-sim-step": step}
    )
    call = next(block for block in answer.content if block.type == "tool_use")
    print("tool", call.name, call.input)


async def parallel() -> None:
    async with AsyncAnthropic() as client:
        answers = await asyncio.gather(
            *(client.messages.create(model=MODEL, max_tokens=100, messages=MESSAGES) for _ in range(3))
        )
    print("parallel", [answer.content[0].text for answer in answers])


if __name__ == "__main__":
    with Anthropic() as shared:
        plain(shared)
        streamed(shared)
        tool(shared)
    asyncio.run(parallel())
