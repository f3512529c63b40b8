"""The openai SDK at every router and server that speaks like OpenAI: ``routers.py NAME...``. Prints JSON lines."""

from __future__ import annotations

import json
import os
import sys

from openai import BadRequestError, OpenAI

MESSAGES = [{"role": "user", "content": "Say hello."}]


def main(names: list[str]) -> None:
    for name in names:
        client = OpenAI(base_url=os.environ[f"DOCKET_UPSTREAM_{name.upper()}"], api_key="sk-trial", max_retries=0)
        create = client.chat.completions.create
        said: dict[str, object] = {"name": name}
        try:
            whole = create(model="acme-chat-1", messages=MESSAGES)
            said["whole"] = whole.choices[0].message.content
            asked = {"stream": True, "stream_options": {"include_usage": True}}
            chunks = list(create(model="acme-chat-1", messages=MESSAGES, **asked))
            said["streamed"] = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
        except BadRequestError as error:
            said["refused"] = error.body
        print(json.dumps(said), flush=True)  # noqa: TID251 - an agent's own output
    wanted = {name: value for name, value in os.environ.items() if name.endswith(("_API_BASE", "_BASE_URL"))}
    print(json.dumps(wanted), flush=True)  # noqa: TID251 - an agent's own output


if __name__ == "__main__":
    main(sys.argv[1:])
