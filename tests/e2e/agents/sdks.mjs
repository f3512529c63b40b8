// The providers' own Node SDKs, each in three modes: `node sdks.mjs SDK metered|refused|patient`. Prints JSON lines.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const require = createRequire(pathToFileURL(process.env.NODE_SDKS + "/"));
const load = async (name) => import(pathToFileURL(require.resolve(name)).href);
const ASK = "Say something.";
const messages = [{ role: "user", content: ASK }];
const say = (members) => console.log(JSON.stringify(members));

const SDKS = {
  async "openai"() {
    const { default: OpenAI } = await load("openai");
    const client = new OpenAI();
    const plain = async () =>
      (await client.chat.completions.create({ model: "gpt-4o", messages })).choices[0].message.content;
    const streamed = async () => {
      let text = "";
      const options = { model: "gpt-4o", messages, stream: true, stream_options: { include_usage: true } };
      for await (const chunk of await client.chat.completions.create(options)) text += chunk.choices[0]?.delta?.content ?? "";
      return text;
    };
    const third = async () => (await client.responses.create({ model: "gpt-5", input: ASK })).output_text;
    return [plain, streamed, third];
  },
  async "anthropic"() {
    const { default: Anthropic } = await load("@anthropic-ai/sdk");
    const client = new Anthropic();
    const asked = { model: "claude-sonnet-4-5", max_tokens: 100, messages };
    const plain = async () => (await client.messages.create(asked)).content[0].text;
    const streamed = async () => client.messages.stream(asked).finalText();
    const third = async () => {
      const tools = [{ name: "get_weather", input_schema: { type: "object", properties: {} } }];
      const headers = { "x-sim-step": '{"tool": "get_weather", "tool_arguments": {"city": "Berlin"}}' };
      return (await client.messages.create({ ...asked, tools }, { headers })).content.at(-1).name;
    };
    return [plain, streamed, third];
  },
  async "google-genai"() {
    const { GoogleGenAI } = await load("@google/genai");
    const client = new GoogleGenAI({ apiKey: process.env.GEMINI_API_KEY });
    const asked = { model: "gemini-2.5-pro", contents: ASK };
    const plain = async () => (await client.models.generateContent(asked)).text;
    const streamed = async () => {
      let text = "";
      for await (const chunk of await client.models.generateContentStream(asked)) text += chunk.text ?? "";
      return text;
    };
    return [plain, streamed, plain];
  },
  async "ai"() {
    const { generateText, streamText } = await load("ai");
    const { openai } = await load("@ai-sdk/openai");
    const { anthropic } = await load("@ai-sdk/anthropic");
    const asked = { model: openai("gpt-5"), prompt: ASK };
    const plain = async () => (await generateText(asked)).text;
    const streamed = async () => {
      let text = "";
      for await (const piece of streamText(asked).textStream) text += piece;
      return text;
    };
    // With the base URL that Anthropic's own SDK takes, this one posts to /messages: docket adds the version.
    const third = async () => (await generateText({ model: anthropic("claude-sonnet-4-5"), prompt: ASK })).text;
    return [plain, streamed, third];
  },
};

const [sdk, mode] = process.argv.slice(2);
const [plain, streamed, third] = await SDKS[sdk]();
if (mode === "metered") {
  for (const [did, call] of Object.entries({ plain, streamed, third })) say({ did, said: await call() });
} else if (mode === "patient") {
  for (const did of ["first", "second"]) say({ did, said: await plain() });
} else {
  try {
    await plain();
  } catch (error) {
    say({ error: error.name, text: String(error.message) });
  }
}
