"""The AnthropicVertex client and google-genai in its Vertex mode, whole and streamed. Prints one JSON line."""

from __future__ import annotations

import json

import anthropic
from google import genai
from google.genai import errors
from google.oauth2.credentials import Credentials

ASK = "Say hello."
MESSAGES = [{"role": "user", "content": ASK}]


def claude() -> dict[str, object]:
    client = anthropic.AnthropicVertex(region="global", project_id="p-1", access_token="t", max_retries=0)
    asked = {"model": "acme-chat-1@20260101", "max_tokens": 64, "messages": MESSAGES}
    try:
        counted = client.messages.count_tokens(model="acme-chat-1@20260101", messages=MESSAGES).input_tokens
        whole = client.messages.create(**asked).content[0].text
        with client.messages.stream(**asked) as events:
            return {"counted": counted, "whole": whole, "streamed": events.get_final_text()}
    except anthropic.BadRequestError as error:
        return {"refused": error.body["error"]["docket"]["code"], "text": str(error)}


def gemini() -> dict[str, object]:
    client = genai.Client(vertexai=True, project="p-1", location="global", credentials=Credentials(token="t"))
    try:
        whole = client.models.generate_content(model="acme-chat-1", contents=ASK).text
        stream = client.models.generate_content_stream(model="acme-chat-1", contents=ASK)
        return {"whole": whole, "streamed": "".join(part.text or "" for part in stream)}
    except errors.ClientError as error:
        return {"refused": error.details["error"]["docket"]["code"], "text": str(error)}


if __name__ == "__main__":
    print(json.dumps({"claude": claude(), "gemini": gemini()}))  # noqa: TID251 - an agent's own output
