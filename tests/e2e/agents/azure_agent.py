"""The AzureOpenAI client, by deployment and by v1: ``azure_agent.py DEPLOYMENT...``. Prints JSON lines."""

from __future__ import annotations

import asyncio
import json
import os
import sys

from openai import AsyncAzureOpenAI, AzureOpenAI, BadRequestError, OpenAI

MESSAGES = [{"role": "user", "content": "Say hello."}]


async def streamed(deployment: str) -> str:
    async with AsyncAzureOpenAI(api_version="2026-06-01", api_key="k", max_retries=0) as client:
        chunks = await client.chat.completions.create(
            model=deployment, messages=MESSAGES, stream=True, stream_options={"include_usage": True}
        )
        return "".join([c.choices[0].delta.content or "" async for c in chunks if c.choices])


def say(deployment: str) -> dict[str, object]:
    client = AzureOpenAI(api_version="2026-06-01", api_key="k", max_retries=0)
    address = os.environ["AZURE_OPENAI_ENDPOINT"].rstrip("/")
    v1 = OpenAI(base_url=f"{address}/openai/v1/", api_key="k", max_retries=0)
    try:
        whole = client.chat.completions.create(model=deployment, messages=MESSAGES).choices[0].message.content
        response = v1.responses.create(model=deployment, input="Say hello.").output_text
        return {"whole": whole, "streamed": asyncio.run(streamed(deployment)), "response": response}
    except BadRequestError as error:
        return {"refused": error.code, "text": str(error)}


if __name__ == "__main__":
    for name in sys.argv[1:]:
        print(json.dumps(say(name)), flush=True)  # noqa: TID251 - an agent's own output
