"""The providers' own Python SDKs, each in three modes: ``sdks.py SDK metered|refused|patient``. Prints JSON lines."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any

ASK = "Say something."
MESSAGES = [{"role": "user", "content": ASK}]
TOOL = {
    "name": "get_weather",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
}
STEP = {"x-sim-step": '{"tool": "get_weather", "tool_arguments": {"city": "Berlin"}}'}
Call = Callable[[], Any]


def say(**members: Any) -> None:
    print(json.dumps(members), flush=True)  # noqa: TID251 - an agent's own output


def openai_chat() -> tuple[Call, Call, Call]:
    from openai import OpenAI

    create = OpenAI().chat.completions.create

    def stream() -> str:
        chunks = create(model="gpt-4o", messages=MESSAGES, stream=True, stream_options={"include_usage": True})
        return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)

    def tool() -> str:
        tools = [{"type": "function", "function": TOOL}]
        answer = create(model="gpt-4o", messages=MESSAGES, tools=tools, extra_headers=STEP)
        return answer.choices[0].message.tool_calls[0].function.name

    return lambda: create(model="gpt-4o", messages=MESSAGES).choices[0].message.content, stream, tool


def openai_responses() -> tuple[Call, Call, Call]:
    from openai import OpenAI

    client = OpenAI()

    def stream() -> str:
        with client.responses.stream(model="gpt-5", input=ASK) as events:
            return events.get_final_response().output_text

    def continued() -> str:
        first = client.responses.create(model="gpt-5", input=ASK)
        return client.responses.create(model="gpt-5", input=ASK, previous_response_id=first.id).output_text

    return lambda: client.responses.create(model="gpt-5", input=ASK).output_text, stream, continued


def openai_others() -> tuple[Call, Call, Call]:
    from openai import OpenAI

    client = OpenAI()

    def embed() -> str:
        return str(len(client.embeddings.create(model="text-embedding-3-small", input=ASK).data))

    def complete() -> str:
        return client.completions.create(model="gpt-3.5-turbo-instruct", prompt=ASK).choices[0].text

    return embed, complete, embed


def anthropic() -> tuple[Call, Call, Call]:
    from anthropic import Anthropic

    messages = Anthropic().messages
    asked: dict[str, Any] = {"model": "claude-sonnet-4-5", "max_tokens": 100, "messages": MESSAGES}

    def stream() -> str:
        with messages.stream(**asked) as events:
            return events.get_final_text()

    def tool() -> str:
        tools = [{"name": TOOL["name"], "input_schema": TOOL["parameters"]}]
        return messages.create(**asked, tools=tools, extra_headers=STEP).content[-1].name

    return lambda: messages.create(**asked).content[0].text, stream, tool


def google_genai() -> tuple[Call, Call, Call]:
    from google import genai
    from google.genai import types

    retries = types.HttpRetryOptions(attempts=4, initial_delay=1.2)
    client = genai.Client(http_options=types.HttpOptions(retry_options=retries))
    model = "gemini-2.5-pro"

    def stream() -> str:
        return "".join(c.text or "" for c in client.models.generate_content_stream(model=model, contents=ASK))

    def tool() -> str:
        config = types.GenerateContentConfig(
            tools=[types.Tool(function_declarations=[types.FunctionDeclaration(**TOOL)])],
            http_options=types.HttpOptions(headers=STEP),
            automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
        )
        return client.models.generate_content(model=model, contents=ASK, config=config).function_calls[0].name

    return lambda: client.models.generate_content(model=model, contents=ASK).text, stream, tool


def ollama() -> tuple[Call, Call, Call]:
    from ollama import Client

    client = Client()

    def stream() -> str:
        return "".join(p.message.content or "" for p in client.chat(model="llama3", messages=MESSAGES, stream=True))

    def generate() -> str:
        return client.generate(model="llama3", prompt=ASK).response

    return lambda: client.chat(model="llama3", messages=MESSAGES).message.content, stream, generate


SDKS = {
    "openai-chat": openai_chat,
    "openai-responses": openai_responses,
    "openai-others": openai_others,
    "anthropic": anthropic,
    "google-genai": google_genai,
    "ollama": ollama,
}


def main(sdk: str, mode: str) -> None:
    plain, streamed, third = SDKS[sdk]()
    if mode == "metered":
        for name, call in (("plain", plain), ("streamed", streamed), ("third", third)):
            say(did=name, said=call())
    elif mode == "patient":
        say(did="first", said=plain())
        say(did="second", said=plain())
    else:
        try:
            plain()
        except Exception as error:  # noqa: BLE001 - whatever the SDK makes of a refusal is the point
            say(error=type(error).__name__, text=str(error))


if __name__ == "__main__":
    os.environ.setdefault("OPENAI_API_KEY", "sk-trial")
    main(*sys.argv[1:])
