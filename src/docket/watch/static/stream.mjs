// A docket event stream, followed: every event once and in order, through drops, restarts and sleep.
//
// new Stream(url, { onEvent, onReset, onState, storage }).run() follows until stop() is called. `storage` (getItem, setItem)
// keeps the cursor, so that a later page goes on where this one stopped. Quiet: a lost server is tried again after two
// seconds at first and after a minute at most.

const FIRST = 2000, MOST = 60000, JITTER = 0.2, DEAD = 45000, START = "-1";

/** Bytes to messages { id, event, data }, however they are cut (WHATWG HTML, section 9.2.6). */
export class Parser {
  constructor() {
    this.decoder = new TextDecoder();
    this.rest = "";
    this.id = "";
    this.event = "";
    this.data = [];
    this.retry = null;
  }

  feed(bytes) {
    const messages = [];
    const lines = (this.rest + this.decoder.decode(bytes, { stream: true })).split("\n");
    this.rest = lines.pop();
    for (const line of lines) {
      if (line === "") {
        if (this.data.length) messages.push({ id: this.id, event: this.event || "message", data: this.data.join("\n") });
        this.data = [];
        this.event = "";
        continue;
      }
      const colon = line.indexOf(":");
      const name = colon < 0 ? line : line.slice(0, colon);
      const value = colon < 0 ? "" : line.slice(colon + (line[colon + 1] === " " ? 2 : 1));
      if (name === "data") this.data.push(value);
      else if (name === "event") this.event = value;
      else if (name === "id" && !value.includes("\0")) this.id = value;
      else if (name === "retry" && /^[0-9]+$/.test(value)) this.retry = Number(value);
    }
    return messages;
  }
}

export class Stream {
  constructor(url, { onEvent, onReset = () => {}, onState = () => {}, storage = null, headers = {} }) {
    Object.assign(this, { url, onEvent, onReset, onState, storage, headers });
    this.cursor = storage?.getItem("cursor") ?? START;
    this.head = storage?.getItem("head") ?? "";
    this.failures = 0;
    this.stopped = new AbortController();
    this.wake = () => {};
  }

  stop() {
    this.stopped.abort();
    this.wake();
  }

  async run() {
    for (const name of ["online", "pageshow"]) globalThis.addEventListener?.(name, () => this.woke());
    while (!this.stopped.signal.aborted) {
      let retry = null;
      try {
        retry = await this.connection();
      } catch (error) {
        if (error.final) {
          this.onState({ connected: false, error: error.message });
          return;
        }
      }
      if (this.stopped.signal.aborted) return;
      const orderly = retry !== null && this.failures === 0;
      const wait = orderly ? retry : Math.min(FIRST * 2 ** this.failures, MOST) * (1 - JITTER + 2 * JITTER * Math.random());
      this.failures += 1;
      this.onState({ connected: false, failures: this.failures });
      const before = Date.now();
      await new Promise((done) => {
        const timer = setTimeout(done, wait);
        this.wake = () => {
          clearTimeout(timer);
          done();
        };
      });
      if (Date.now() - before > wait + 5000) this.failures = 0; // the machine slept
    }
  }

  woke() {
    this.failures = 0;
    this.wake();
  }

  async connection() {
    const url = new URL(this.url, globalThis.location?.href);
    url.searchParams.set("since", this.cursor);
    if (this.head) url.searchParams.set("head", this.head);
    const dead = new AbortController();
    const signal = AbortSignal.any([this.stopped.signal, dead.signal]);
    let timer = setTimeout(() => dead.abort(), DEAD);
    try {
      const answer = await fetch(url, { signal, headers: { Accept: "text/event-stream", ...this.headers }, cache: "no-store" });
      if ([400, 401, 403, 404].includes(answer.status)) {
        throw Object.assign(new Error(`the server refused the stream with status ${answer.status}`), { final: true });
      }
      if (!answer.ok) throw new Error(`status ${answer.status}`);
      const parser = new Parser();
      const reader = answer.body.getReader();
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return parser.retry;
        clearTimeout(timer);
        timer = setTimeout(() => dead.abort(), DEAD);
        for (const message of parser.feed(value)) this.take(message);
        if (this.failures) this.failures = 0;
        this.onState({ connected: true });
      }
    } finally {
      clearTimeout(timer);
    }
  }

  take(message) {
    if (message.event === "stream.reset") {
      this.cursor = /^-?[0-9]+$/.test(message.id) ? message.id : START;
      this.head = "";
      this.onReset(JSON.parse(message.data));
      return;
    }
    if (message.event !== "ledger" || !(Number(message.id) > Number(this.cursor))) return;
    const event = JSON.parse(message.data);
    this.cursor = message.id;
    this.head = event.hash;
    this.onEvent(event);
    this.storage?.setItem("cursor", this.cursor);
    this.storage?.setItem("head", this.head);
  }
}
