// Verifies the documents of docket-receipt/1: a run directory, a receipt, a ledger, or the proof of one event.
//
// Written from spec/docket-receipt-1.md; rule numbers (C-2, L-12, ...) are its. One module without dependencies, for
// Node 20 and later and for browsers. In Node: node verify.mjs [--json] [--run-key HEX] [--root HEX] [--operator HEX]
// PATH, or --batch with paths on stdin. Elsewhere: verifyFiles(files, pins).
//
// A ledger is streamed in constant memory. Amounts are BigInt in 1e-12 USD; nothing is ever rounded.

const NODE = typeof process !== "undefined" && Boolean(process.versions?.node);
const nodeCrypto = NODE ? await import("node:crypto") : null;
const nodeBuffer = NODE ? await import("node:buffer") : null;
const nodeFs = NODE ? await import("node:fs") : null;

/** Every check in the order of the procedure (checks.toml). */
export const CHECKS = [
  "receipt.form",
  "ledger.form", "ledger.seq", "ledger.prev", "ledger.hash", "ledger.time", "ledger.sessions", "ledger.calls",
  "ledger.usage", "ledger.end",
  "checkpoints.form", "checkpoints.order", "checkpoints.size", "checkpoints.root", "checkpoints.signature",
  "checkpoints.last",
  "binding.size", "binding.root", "binding.head", "binding.tail", "calls.open",
  "starts.event", "starts.proof", "starts.sessions", "end.event", "end.proof", "end.figures",
  "usage.rows", "usage.root", "totals.rows", "totals.bindings",
  "policy.digest", "prices.tables", "prices.rows", "ops.evidence",
  "against.starts", "against.usage", "against.totals", "against.prices", "against.latency", "against.activity",
  "checkpoint.form", "checkpoint.binding", "checkpoint.signature",
  "proof.form", "proof.event", "proof.inclusion", "proof.checkpoint",
  "endorsement", "signature.run", "signature.operator", "pin.run_key", "pin.root", "pin.operator",
];
const LEDGER_CHECKS = CHECKS.filter((id) => id.startsWith("ledger."));
const NOTE_CHECKS = CHECKS.slice(CHECKS.indexOf("checkpoints.form"), CHECKS.indexOf("checkpoints.last"));

const MAX_DEPTH = 32;
const MAX_LINE = 1_048_576;
const MAX_NOTE_LINE = 1024;
const MAX_RECEIPT = 67_108_864;
const MAX_PROOF = 4_194_304;
const MAX_SESSIONS = 1024;
const MAX_OPEN = 65_536;
const MAX_KEYS = 64;
const MAX_PAIRS = 256;
const MAX_SURVIVORS = 100;
const MAX_NAMED = 64; // unknown types and withheld names that an answer lists
const CHUNK = 1 << 17; // bytes of one read: small, since what is read is garbage soon
const ZERO_HASH = "docket-ledger/1";

class Fail extends Error {
  constructor(check, detail) {
    super(detail);
    this.check = check;
  }
}

class Malformed extends Error {}

const bad = (why) => {
  throw new Malformed(why);
};

// ── hashes and bytes ─────────────────────────────────────────────────────────────────────────────────────────────

const encoder = new TextEncoder();
const HEX = Array.from({ length: 256 }, (_, n) => n.toString(16).padStart(2, "0"));

/** SHA-256 of the UTF-8 bytes of a string, or of bytes; lower-case hex. */
const sha256hex = NODE
  ? typeof nodeCrypto.hash === "function"
    ? (data) => nodeCrypto.hash("sha256", data)
    : (data) => nodeCrypto.createHash("sha256").update(data).digest("hex")
  : (data) => toHex(sha256js(typeof data === "string" ? encoder.encode(data) : data));

const toHex = (bytes) => {
  let text = "";
  for (const byte of bytes) text += HEX[byte];
  return text;
};

const fromHex = NODE
  ? (hex) => Buffer.from(hex, "hex")
  : (hex) => Uint8Array.from({ length: hex.length / 2 }, (_, n) => parseInt(hex.slice(2 * n, 2 * n + 2), 16));

const K = new Uint32Array([
  0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01,
  0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc,
  0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147,
  0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
  0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08,
  0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208,
  0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
]);

/** SHA-256 (FIPS 180-4) of bytes, synchronous, where there is no crypto module. */
function sha256js(bytes) {
  const padded = new Uint8Array(((bytes.length + 72) >> 6) << 6);
  padded.set(bytes);
  padded[bytes.length] = 0x80;
  const view = new DataView(padded.buffer);
  view.setUint32(padded.length - 8, Math.floor(bytes.length / 0x20000000));
  view.setUint32(padded.length - 4, (bytes.length << 3) >>> 0);
  const h = new Uint32Array([
    0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
  ]);
  const w = new Uint32Array(64);
  for (let at = 0; at < padded.length; at += 64) {
    for (let i = 0; i < 16; i++) w[i] = view.getUint32(at + 4 * i);
    for (let i = 16; i < 64; i++) {
      const x = w[i - 15];
      const y = w[i - 2];
      const s0 = ((x >>> 7) | (x << 25)) ^ ((x >>> 18) | (x << 14)) ^ (x >>> 3);
      const s1 = ((y >>> 17) | (y << 15)) ^ ((y >>> 19) | (y << 13)) ^ (y >>> 10);
      w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
    let [a, b, c, d, e, f, g, z] = h;
    for (let i = 0; i < 64; i++) {
      const s1 = ((e >>> 6) | (e << 26)) ^ ((e >>> 11) | (e << 21)) ^ ((e >>> 25) | (e << 7));
      const t1 = (z + s1 + ((e & f) ^ (~e & g)) + K[i] + w[i]) | 0;
      const s0 = ((a >>> 2) | (a << 30)) ^ ((a >>> 13) | (a << 19)) ^ ((a >>> 22) | (a << 10));
      const t2 = (s0 + ((a & b) ^ (a & c) ^ (b & c))) | 0;
      z = g;
      g = f;
      f = e;
      e = (d + t1) | 0;
      d = c;
      c = b;
      b = a;
      a = (t1 + t2) | 0;
    }
    h[0] += a;
    h[1] += b;
    h[2] += c;
    h[3] += d;
    h[4] += e;
    h[5] += f;
    h[6] += g;
    h[7] += z;
  }
  const out = new Uint8Array(32);
  const outView = new DataView(out.buffer);
  for (let i = 0; i < 8; i++) outView.setUint32(4 * i, h[i]);
  return out;
}

const innerNode = NODE ? Buffer.alloc(65) : new Uint8Array(65);
innerNode[0] = 1;

/** SHA-256(0x01 || left || right), hex in and out. */
function nodeHash(left, right) {
  if (NODE) {
    innerNode.write(left, 1, 32, "hex");
    innerNode.write(right, 33, 32, "hex");
    return sha256hex(innerNode);
  }
  innerNode.set(fromHex(left), 1);
  innerNode.set(fromHex(right), 33);
  return sha256hex(innerNode);
}

/** An RFC 9162 tree while it grows: the roots of its full subtrees (T-1). */
class Tree {
  size = 0;
  #stack = [];

  push(leaf) {
    this.#stack.push(leaf);
    for (let n = this.size; n % 2 === 1; n = (n - 1) / 2) {
      const right = this.#stack.pop();
      this.#stack.push(nodeHash(this.#stack.pop(), right));
    }
    this.size += 1;
  }

  root() {
    if (this.size === 0) return sha256hex("");
    return this.#stack.reduceRight((right, left) => nodeHash(left, right));
  }
}

/** RFC 9162 section 2.1.3.2. */
function included(leaf, proof, root) {
  let fn = proof.index;
  let sn = proof.size - 1;
  if (fn > sn) return false;
  let hash = leaf;
  for (const sibling of proof.hashes) {
    if (sn === 0) return false;
    if (fn % 2 === 1 || fn === sn) {
      hash = nodeHash(sibling, hash);
      while (fn % 2 === 0 && fn !== 0) {
        fn /= 2;
        sn = Math.floor(sn / 2);
      }
    } else {
      hash = nodeHash(hash, sibling);
    }
    fn = Math.floor(fn / 2);
    sn = Math.floor(sn / 2);
  }
  return sn === 0 && hash === root;
}

// ── Ed25519 (T-6) ────────────────────────────────────────────────────────────────────────────────────────────────

const P25519 = 2n ** 255n - 19n;
const L25519 = 2n ** 252n + 27742317777372353535851937790883648493n;
const SMALL_ORDER_Y = new Set([
  0n, 1n, P25519 - 1n,
  0x7a03ac9277fdc74ec6cc392cfa53202a0f67100d760b3cba4fd83d3d706a17c7n,
  P25519 - 0x7a03ac9277fdc74ec6cc392cfa53202a0f67100d760b3cba4fd83d3d706a17c7n,
]);
const MAX_KEYS_KEPT = 64;
const keysKept = new Map();
const SPKI = NODE ? Buffer.from("302a300506032b6570032100", "hex") : null;

function littleEndian(bytes) {
  let n = 0n;
  for (let i = bytes.length - 1; i >= 0; i--) n = (n << 8n) | BigInt(bytes[i]);
  return n;
}

function soundPoint(bytes) {
  const y = littleEndian(bytes) & ((1n << 255n) - 1n);
  return y < P25519 && !SMALL_ORDER_Y.has(y);
}

/** Whether `signature` (64 bytes) by the public key (32 bytes) over `message` (bytes) holds. */
async function signedBy(key, signature, message) {
  if (!soundPoint(key) || !soundPoint(signature.subarray(0, 32))) return false;
  if (littleEndian(signature.subarray(32)) >= L25519) return false;
  try {
    if (NODE) {
      const name = toHex(key);
      let known = keysKept.get(name);
      if (known === undefined) {
        known = nodeCrypto.createPublicKey({ key: Buffer.concat([SPKI, key]), format: "der", type: "spki" });
        if (keysKept.size < MAX_KEYS_KEPT) keysKept.set(name, known);
      }
      return nodeCrypto.verify(null, message, known, signature);
    }
    const imported = await crypto.subtle.importKey("raw", key, { name: "Ed25519" }, false, ["verify"]);
    return await crypto.subtle.verify({ name: "Ed25519" }, imported, signature, message);
  } catch (error) {
    if (error?.name === "NotSupportedError") throw error; // a browser without Ed25519 must not say "failed"
    return false;
  }
}

// ── canonical form (section 1) and private members (section 2) ───────────────────────────────────────────────────

const strictUtf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
const PLAIN = /^[^"\\\u0000-\u001f]*$/;
const ESCAPES = { b: "\b", t: "\t", n: "\n", f: "\f", r: "\r", '"': '"', "\\": "\\" };
const NAME = /^[\x20-\x7e]{1,128}$/;
const ASCII = /^[\x00-\x7f]*$/;

/** The text of UTF-8 bytes. Throws Malformed. */
function textOf(bytes) {
  if (NODE && nodeBuffer.isAscii(bytes)) {
    return Buffer.prototype.latin1Slice.call(bytes, 0, bytes.length);
  }
  try {
    return strictUtf8.decode(bytes);
  } catch {
    return bad("no UTF-8");
  }
}

const byteLength = (text) => (ASCII.test(text) ? text.length : encoder.encode(text).length);

// The parser's state: one document at a time.
let S = "";
let P = 0;
let EDITS = [];
let TOP = null;
let WITHHELD = [];
let INDEXED = false; // whether a name looks like an array index: such members lose their place in an object
let LIGHT = 0; // what the line would weigh more with every private member in its longer form (L-2)

/**
 * The object that the canonical text states, in sealed form: {value, without(name), withheld, light, indexed}.
 * `without` gives the canonical text of the sealed object without its member `name`. Throws Malformed.
 */
function parse(text) {
  S = text;
  P = 0;
  EDITS = [];
  TOP = new Map();
  WITHHELD = [];
  LIGHT = 0;
  INDEXED = false;
  if (text.charCodeAt(0) !== 123) bad("not an object");
  const value = parseObject(1, false, TOP);
  if (P !== text.length) bad("something after the object");
  const edits = EDITS;
  const top = TOP;
  return { value, withheld: WITHHELD, light: LIGHT, indexed: INDEXED, without: (name) => sealedText(text, edits, top.get(name)) };
}

function sealedText(text, edits, gap) {
  let cut = gap;
  if (cut !== undefined) {
    const [start, end] = gap; // a member goes with one comma: the one before it, or after it where it is the first
    cut = text[start - 1] === "," ? [start - 1, end] : [start, text[end] === "," ? end + 1 : end];
  }
  if (edits.length === 0) return cut === undefined ? text : text.slice(0, cut[0]) + text.slice(cut[1]);
  let out = "";
  let at = 0;
  const all = cut === undefined ? edits : [...edits.filter(([s]) => s < cut[0] || s >= cut[1]), [...cut, ""]];
  if (cut !== undefined) all.sort((a, b) => a[0] - b[0]);
  for (const [start, end, instead] of all) {
    out += text.slice(at, start) + instead;
    at = end;
  }
  return out + text.slice(at);
}

function parseValue(depth, data) {
  const c = S.charCodeAt(P);
  if (c === 34) return parseString();
  if (c === 123) return parseObject(depth, data, null);
  if (c === 91) return parseArray(depth, data);
  if (c === 45 || (c >= 48 && c <= 57)) return parseNumber();
  if (S.startsWith("true", P)) return (P += 4), true;
  if (S.startsWith("false", P)) return (P += 5), false;
  if (S.startsWith("null", P)) return (P += 4), null;
  return bad(`no value at ${P}`);
}

function parseNumber() {
  const start = P;
  if (S.charCodeAt(P) === 45) P += 1;
  const first = S.charCodeAt(P);
  if (first === 48) {
    if (P !== start) bad("minus zero");
    P += 1;
    return 0;
  }
  if (!(first >= 49 && first <= 57)) bad("no number");
  for (let c = first; c >= 48 && c <= 57; c = S.charCodeAt(P)) P += 1;
  const n = P - start > 17 ? NaN : Number(S.slice(start, P));
  return Number.isSafeInteger(n) ? n : bad("a number out of range");
}

function parseString() {
  const start = P + 1;
  const end = S.indexOf('"', start);
  if (end < 0) bad("a string without end");
  const piece = S.slice(start, end);
  if (PLAIN.test(piece)) {
    P = end + 1;
    return piece;
  }
  return parseEscaped(start);
}

function parseEscaped(start) {
  let out = "";
  let at = start;
  for (;;) {
    const c = S.charCodeAt(at);
    if (Number.isNaN(c) || c < 32) bad("a raw control character, or a string without end");
    if (c === 34) break;
    if (c !== 92) {
      out += S[at];
      at += 1;
      continue;
    }
    const short = ESCAPES[S[at + 1]];
    if (short !== undefined) {
      out += short;
      at += 2;
      continue;
    }
    const long = /^u00[01][0-9a-f]$/.test(S.slice(at + 1, at + 6)) ? parseInt(S.slice(at + 4, at + 6), 16) : 99;
    if (long > 31 || "\b\t\n\f\r".includes(String.fromCharCode(long))) bad("an escape that is not needed");
    out += String.fromCharCode(long);
    at += 6;
  }
  P = at + 1;
  return out;
}

function parseArray(depth, data) {
  if (depth > MAX_DEPTH) bad("nested too deeply");
  const list = [];
  P += 1;
  if (S.charCodeAt(P) === 93) return (P += 1), list;
  for (;;) {
    list.push(parseValue(depth + 1, data));
    const c = S.charCodeAt(P);
    P += 1;
    if (c === 93) return list;
    if (c !== 44) bad(`no comma at ${P - 1}`);
  }
}

/** The name of the next member, behind `before`; leaves the position on its value. */
function parseName(before) {
  if (S.charCodeAt(P) !== 34) bad(`no name at ${P}`);
  const name = parseString();
  if (!NAME.test(name)) bad("a name of another form");
  if (before !== null && !(name > before)) bad("members out of order, or twice");
  if (S.charCodeAt(P) !== 58) bad(`no colon at ${P}`);
  P += 1;
  return name;
}

function parseObject(depth, data, spans) {
  if (depth > MAX_DEPTH) bad("nested too deeply");
  const object = {};
  P += 1;
  if (S.charCodeAt(P) === 125) return (P += 1), object;
  for (let before = null; ; ) {
    const start = P;
    const name = parseName(before);
    if (name.charCodeAt(0) <= 57) INDEXED = true;
    const value = name === "private" && !data ? parsePrivate(depth + 1) : parseValue(depth + 1, data);
    if (name === "__proto__") Object.defineProperty(object, name, { value, enumerable: true });
    else object[name] = value;
    if (spans !== null) spans.set(name, [start, P]);
    before = name;
    const c = S.charCodeAt(P);
    P += 1;
    if (c === 125) return object;
    if (c !== 44) bad(`no comma at ${P - 1}`);
  }
}

const HEX64 = /^[0-9a-f]{64}$/;
const HEX32 = /^[0-9a-f]{32}$/;

/** The object of a member named `private`: every member replaced by its commitment (S-1 to S-3). */
function parsePrivate(depth) {
  if (depth + 1 > MAX_DEPTH) bad("nested too deeply");
  if (S.charCodeAt(P) !== 123) bad("private is no object");
  const object = {};
  P += 1;
  for (let before = null; ; ) {
    const nameAt = P;
    const name = parseName(before);
    if (name === "private") bad("a private member is named private");
    const spelled = S.slice(nameAt, P - 1);
    const start = P;
    const commitment = parseCommitted(name, spelled, depth + 1);
    EDITS.push([start, P, `"${commitment}"`]);
    if (name === "__proto__") Object.defineProperty(object, name, { value: commitment, enumerable: true });
    else object[name] = commitment;
    before = name;
    const c = S.charCodeAt(P);
    P += 1;
    if (c === 125) return object;
    if (c !== 44) bad(`no comma at ${P - 1}`);
  }
}

function parseCommitted(name, spelled, depth) {
  if (S.startsWith('{"commitment":"', P)) {
    const hex = S.slice(P + 15, P + 79);
    if (!HEX64.test(hex) || !S.startsWith('"}', P + 79)) bad("a commitment of another form");
    P += 81;
    if (WITHHELD.length < MAX_NAMED) WITHHELD.push(name);
    return hex;
  }
  const salt = S.slice(P + 9, P + 41);
  if (!S.startsWith('{"salt":"', P) || !HEX32.test(salt) || !S.startsWith('","value":', P + 41)) {
    bad("a private member is neither disclosed nor withheld");
  }
  P += 51;
  const from = P;
  parseValue(depth + 1, true);
  const raw = S.slice(from, P);
  if (S.charCodeAt(P) !== 125) bad("a private member with more members");
  P += 1;
  if (raw.length < 29) LIGHT += Math.max(0, 29 - byteLength(raw));
  return sha256hex(`\u0002[${spelled},"${salt}",${raw}]`);
}

/** Canonical text of a value. */
function encode(value) {
  if (typeof value === "string") return JSON.stringify(value);
  if (typeof value !== "object" || value === null) return String(value);
  if (Array.isArray(value)) return `[${value.map(encode).join(",")}]`;
  const members = Object.keys(value)
    .sort()
    .map((name) => `${JSON.stringify(name)}:${encode(value[name])}`);
  return `{${members.join(",")}}`;
}

const same = (a, b) => (a === undefined || b === undefined ? a === b : encode(a) === encode(b));

/** Order of Unicode code points (C-7). */
function order(a, b) {
  const left = [...a];
  const right = [...b];
  for (let i = 0; i < Math.min(left.length, right.length); i++) {
    if (left[i] !== right[i]) return left[i].codePointAt(0) - right[i].codePointAt(0);
  }
  return left.length - right.length;
}

// ── shapes ───────────────────────────────────────────────────────────────────────────────────────────────────────

const isObject = (v) => typeof v === "object" && v !== null && !Array.isArray(v);
const isString = (v) => typeof v === "string";
const isNatural = (v) => typeof v === "number" && v >= 0;
const isCount = (v) => typeof v === "number" && v >= 1;
const isBoolean = (v) => typeof v === "boolean";
const isHex64 = (v) => typeof v === "string" && HEX64.test(v);
const isHex128 = (v) => typeof v === "string" && /^[0-9a-f]{128}$/.test(v);
const isName = (v) => typeof v === "string" && /^[\x20-\x7e]{1,64}$/.test(v);
const isCounts = (v) => isObject(v) && Object.keys(v).every((key) => isNatural(v[key]));
const DECIMAL = /^(0|-?[1-9][0-9]{0,14}(\.[0-9]{0,11}[1-9])?|-?0\.[0-9]{0,11}[1-9])$/;
const isAmount = (v) => typeof v === "string" && v[0] !== "-" && DECIMAL.test(v);
const isPrice = (v) => isAmount(v) && (v.split(".")[1] ?? "").length <= 6;
const isDocket = (v) => typeof v === "string" && /^DKT-[0-9]{8}-[0-9A-HJKMNP-TV-Z]{10}$/.test(v);
const TIME = /^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]\.[0-9]{6}Z$/;
const isTime = (v) => typeof v === "string" && TIME.test(v);
const oneOf = (...words) => (v) => words.includes(v);
const optional = (shape) => (v) => v === undefined || shape(v);
const listOf = (shape, most = Infinity, least = 0) => (v) =>
  Array.isArray(v) && v.length >= least && v.length <= most && v.every(shape);
/** An object with these members; others are unknown. */
const shape = (members) => {
  const rows = Object.entries(members);
  return (v) => isObject(v) && rows.every(([name, check]) => check(v[name]));
};
/** An object with these members and no others. */
const exactly = (members) => {
  const known = shape(members);
  return (v) => known(v) && Object.keys(v).every((name) => Object.hasOwn(members, name));
};

const isExit = shape({ code: optional(isNatural), signal: optional(isCount) });
const isEvidence = shape({
  ledger_complete: isBoolean, intact: isBoolean, unwritten_events: isNatural, write_failures: isNatural, gaps: isCounts,
  first_failing_seq: optional(isNatural),
});
const isProof = exactly({ index: isNatural, size: isNatural, hashes: listOf(isHex64, 64) });
const isPair = exactly({ event: isObject, proof: isProof });
const END = {
  call: isCount, provider: isString, model: isString, tier: isString, reason: isString, usage: optional(isObject),
  duration_us: optional(isNatural), first_byte_us: optional(isNatural),
};

/** The members of `data` that are read, by type (L-9). */
const TYPES = {
  "session.start": shape({
    docket: isDocket, session: isNatural, run_key: isHex64, policy: isHex64, prices: isHex64,
    endorsement: optional(exactly({ alg: oneOf("ed25519"), key: isHex64, value: isHex128 })),
    continues: optional(exactly({ size: isCount, root: isHex64, head: isHex64 })),
  }),
  "session.end": shape({
    outcome: isString, exit: isExit, totals: isObject, usage_tree: shape({ size: isNatural, root: isHex64 }),
    ops: shape({ evidence: isEvidence }),
  }),
  "model.request": shape({ call: isCount }),
  "model.response": shape(END),
  "model.error": shape(END),
  "model.denied": shape({ code: isName, count: isCount }),
  "model.cache_hit": shape({ call: isCount, saved_usd: optional(isAmount) }),
  "cap.exceeded": shape({ cap: isString, limit: isString, observed: isString }),
  "fs.change": shape({ change: isName }),
  "proc.orphan": shape({ pid: isCount, ended: isString }),
  "x-docket.forwarded": shape({ endpoint_class: isName }),
  "x-docket.unauthorized": shape({ count: isCount }),
  "x-docket.ledger-gap": shape({ lost: shape({ count: isCount, types: isCounts }) }),
};
const SILENT = new Set([
  "policy.applied", "policy.violation", "cap.warning", "tool.call", "tool.result", "fs.snapshot", "proc.spawn", "proc.exit",
  "net.allowed", "net.denied", "note", "x-docket.breaker-open", "x-docket.breaker-half-open", "x-docket.breaker-closed",
  "x-docket.rate-limited", "x-docket.fault-injected", "x-docket.ledger-recovered", "x-docket.clock-step",
  "x-docket.rollback-applied", "x-docket.rollback-refused",
]);
const AGENT_SAYS = new Set(["note", "tool.call", "tool.result"]);
const ASSERTERS = new Set(["boundary", "supervisor", "agent", "doctor"]);

/** Why a sealed object is no event (L-3 to L-5, L-9); null where it is one. */
function eventFault(e) {
  if (!isObject(e)) return "not an object";
  if (!isNatural(e.seq) || !isNatural(e.elapsed_us)) return "seq or elapsed_us";
  if (!isString(e.type) || e.type === "" || (e.type.length > 128 && [...e.type].length > 128)) return "type";
  if (!isObject(e.data) || !isHex64(e.prev) || !isHex64(e.hash)) return "data, prev or hash";
  if (!isTime(e.ts)) return "ts";
  if (!ASSERTERS.has(e.by)) return "by";
  if (e.by === "agent" && !AGENT_SAYS.has(e.type)) return `agent asserts ${e.type}`;
  if (e.type.startsWith("model.") && e.by !== "boundary") {
    if (!(e.by === "doctor" && e.type === "model.error" && e.data.reason === "lost")) return `${e.by} asserts ${e.type}`;
  }
  const read = Object.hasOwn(TYPES, e.type) ? TYPES[e.type] : null;
  return read !== null && !read(e.data) ? `data of ${e.type}` : null;
}

/** The hash of an event that stands inside another document: sealed already. */
function hashOf(event) {
  const { hash: _, ...rest } = event;
  return sha256hex(`\u0000${encode(rest)}`);
}

// ── amounts and usage (sections 1 and 5) ─────────────────────────────────────────────────────────────────────────

const PICO = 10n ** 12n;

function picoOf(amount) {
  const [whole, fraction = ""] = amount.split(".");
  return BigInt(whole) * PICO + BigInt(fraction.padEnd(12, "0"));
}

function amountOf(pico) {
  const fraction = (pico % PICO).toString().padStart(12, "0").replace(/0+$/, "");
  return `${pico / PICO}${fraction === "" ? "" : `.${fraction}`}`;
}

const isItem = (item) =>
  isObject(item) &&
  isName(item.kind) &&
  isNatural(item.quantity) &&
  item.quantity <= 1_000_000_000 &&
  (item.unit_usd === undefined) === (item.per === undefined) &&
  (item.unit_usd === undefined || (isPrice(item.unit_usd) && (item.per === 1 || item.per === 1_000_000)));
const isItems = listOf(isItem, 64);

const microCache = new Map();

/** Picodollars of priced items; null where one has no price (U-3). */
function costOf(items) {
  let sum = 0n;
  for (const { quantity, unit_usd: unit, per } of items) {
    if (unit === undefined) return null;
    let pico = microCache.get(unit);
    if (pico === undefined) {
      pico = picoOf(unit);
      if (microCache.size < 1024) microCache.set(unit, pico);
    }
    sum += per === 1 ? BigInt(quantity) * pico : (BigInt(quantity) * pico) / 1_000_000n; // a price has six digits: exact
  }
  return sum;
}

/** Whether `said` is the amount of `cost`, absent exactly where that is null. */
const saysCost = (said, cost) =>
  cost === null ? said === undefined : isAmount(said) && picoOf(said) === cost;

/** Why a bill is not right (U-2 to U-4); null where it is. */
function usageFault(usage) {
  if (!["reported", "partial", "none"].includes(usage.source)) return "source";
  if (!isItems(usage.items) || (usage.source === "none" && usage.items.length > 0)) return "items";
  if (!saysCost(usage.cost_usd, usage.source === "none" ? null : costOf(usage.items))) return "cost_usd";
  if (usage.inconsistent !== undefined && usage.inconsistent !== true) return "inconsistent";
  const guess = usage.estimate;
  if (guess === undefined) return null;
  if (usage.source === "reported" || !isObject(guess) || !isItems(guess.items) || !isString(guess.method)) return "estimate";
  return saysCost(guess.cost_usd, costOf(guess.items)) ? null : "cost_usd of the estimate";
}

// ── figures (section 6) ──────────────────────────────────────────────────────────────────────────────────────────

const sum = (a, b) => {
  const total = a + b;
  if (!Number.isSafeInteger(total)) throw new Fail("ledger.usage", "a sum above 2^53-1");
  return total;
};

/** Counts by key in order of first appearance; from the 65th key on they count as `other`. */
class Limited {
  counts = {};
  #keys = new Set();

  add(key, n) {
    let at = key;
    if (!this.#keys.has(key)) {
      if (this.#keys.size >= MAX_KEYS) at = "other";
      this.#keys.add(at);
    }
    const before = Object.hasOwn(this.counts, at) ? this.counts[at] : 0;
    const value = sum(before, n);
    if (at === "__proto__") Object.defineProperty(this.counts, at, { value, enumerable: true, configurable: true });
    else this.counts[at] = value;
  }
}

/** Rows of usage, folded (F-1). */
class Bill {
  rows = 0;
  tokens = new Limited();
  bySource = { none: 0, partial: 0, reported: 0 };
  cost = 0n;
  costed = 0;
  exact = true; // every row is reported and has a cost
  #pairs = new Map();

  add(provider, model, usage) {
    this.rows += 1;
    this.bySource[usage.source] += 1;
    for (const item of usage.items) if (item.per !== 1) this.tokens.add(item.kind, item.quantity);
    let key = `${provider}\u0000${model}`;
    let pair = this.#pairs.get(key);
    if (pair === undefined && this.#pairs.size >= MAX_PAIRS) {
      key = "other\u0000other";
      pair = this.#pairs.get(key);
    }
    if (pair === undefined) {
      const [p, m] = key === `${provider}\u0000${model}` ? [provider, model] : ["other", "other"];
      pair = { provider: p, model: m, calls: 0, cost: null };
      this.#pairs.set(key, pair);
    }
    pair.calls += 1;
    if (usage.cost_usd === undefined) {
      this.exact = false;
      return;
    }
    const cost = picoOf(usage.cost_usd);
    this.cost += cost;
    this.costed += 1;
    pair.cost = (pair.cost ?? 0n) + cost;
    if (usage.source !== "reported") this.exact = false;
  }

  byModel() {
    return [...this.#pairs.values()]
      .sort((a, b) => order(a.provider, b.provider) || order(a.model, b.model))
      .map(({ provider, model, calls, cost }) =>
        cost === null ? { provider, model, calls } : { provider, model, calls, cost_usd: amountOf(cost) });
  }

  /** `cost_is`, where `whole` says that nothing else is known to be missing. */
  costIs(whole) {
    if (this.rows > 0 && this.costed === 0) return "none";
    return this.exact && whole ? "exact" : "lower-bound";
  }

  costUsd(costIs) {
    return costIs === "none" ? undefined : amountOf(this.cost);
  }
}

const isWhole = (evidence) =>
  evidence.ledger_complete && evidence.unwritten_events === 0 && Object.keys(evidence.gaps).length === 0;

/** Samples cut to three significant digits, and their percentiles (F-4). */
class Samples {
  count = 0;
  #cut = new Map();

  add(sample) {
    const scale = 10 ** Math.max(0, String(sample).length - 3);
    const value = Math.floor(sample / scale) * scale;
    this.#cut.set(value, (this.#cut.get(value) ?? 0) + 1);
    this.count += 1;
  }

  summary() {
    if (this.count === 0) return { count: 0 };
    const ascending = [...this.#cut].sort((a, b) => a[0] - b[0]);
    const at = (rank) => {
      let seen = 0;
      for (const [value, n] of ascending) if ((seen += n) >= rank) return value;
      return ascending.at(-1)[0];
    };
    const rank = (p) => Number((BigInt(p) * BigInt(this.count) + 99n) / 100n);
    return { count: this.count, p50: at(rank(50)), p95: at(rank(95)), p99: at(rank(99)), max: ascending.at(-1)[0] };
  }
}

/** Everything that events come to. */
class Figures {
  bill = new Bill();
  usageTree = new Tree();
  types = new Map();
  ends = 0;
  denied = 0;
  lost = 0;
  lostTypes = {};
  unauthorized = 0;
  changes = new Limited();
  forwarded = new Limited();
  deniedByCode = new Limited();
  total = new Samples();
  firstByte = new Samples();
  survivors = [];
  breach = undefined;
  saved = 0n;
  elapsed = 0;

  constructor(prices) {
    this.prices = prices; // of the receipt: key → used, or null
    this.strangePrice = false;
  }

  of(type) {
    return this.types.get(type) ?? 0;
  }

  /** Take a right event; throws Fail for a bill that is wrong or a sum that is too large. */
  add(e, indexed) {
    const { type, data } = e;
    if (Object.hasOwn(TYPES, type) || SILENT.has(type)) this.types.set(type, this.of(type) + 1);
    this.elapsed = e.elapsed_us;
    switch (type) {
      case "model.response":
        if (data.duration_us !== undefined) this.total.add(data.duration_us);
        if (data.first_byte_us !== undefined) this.firstByte.add(data.first_byte_us);
      // falls through
      case "model.error":
        this.ends += 1;
        if (data.usage !== undefined) this.#row(e, data, indexed);
        break;
      case "model.denied":
        this.denied = sum(this.denied, data.count);
        this.deniedByCode.add(data.code, data.count);
        break;
      case "model.cache_hit":
        if (data.saved_usd !== undefined) this.saved += picoOf(data.saved_usd);
        break;
      case "session.start":
        this.breach = undefined;
        break;
      case "cap.exceeded":
        this.breach ??= { cap: data.cap, limit: data.limit, observed: data.observed, seq: e.seq };
        break;
      case "fs.change":
        this.changes.add(data.change, 1);
        break;
      case "proc.orphan":
        if (data.ended === "survived" && this.survivors.length < MAX_SURVIVORS) this.survivors.push(data.pid);
        break;
      case "x-docket.forwarded":
        this.forwarded.add(data.endpoint_class, 1);
        if (data.endpoint_class === "unmetered") this.unmetered = (this.unmetered ?? 0) + 1;
        break;
      case "x-docket.unauthorized":
        this.unauthorized = sum(this.unauthorized, data.count);
        break;
      case "x-docket.ledger-gap":
        this.lost = sum(this.lost, data.lost.count);
        for (const name of ["model.request", "model.response", "model.error", "model.cache_hit"]) {
          if (Object.hasOwn(data.lost.types, name)) {
            this.lostTypes[name] = sum(this.lostTypes[name] ?? 0, data.lost.types[name]);
          }
        }
        break;
    }
  }

  #row(e, { call, model, provider, tier, usage }, indexed) {
    const fault = usageFault(usage);
    if (fault !== null) throw new Fail("ledger.usage", `event ${e.seq}: ${fault}`);
    this.bill.add(provider, model, usage);
    const row = { call, model, provider, seq: e.seq, tier, usage }; // in canonical order, and so is what was parsed
    this.usageTree.push(sha256hex(`\u0000${indexed ? encode(row) : JSON.stringify(row)}`));
    if (this.prices === null) return;
    for (const key of priceKeys(provider, model, tier, usage)) {
      if (this.prices.has(key)) this.prices.set(key, true);
      else this.strangePrice = true;
    }
  }

  totals(evidence) {
    const unmetered = this.unmetered ?? 0;
    const requests = this.of("model.request");
    const whole = this.lost === 0 && unmetered === 0 && requests <= this.ends && isWhole(evidence);
    const costIs = this.bill.costIs(whole);
    return {
      calls: requests,
      errors: this.of("model.error"),
      denied: this.denied,
      lost: this.lost,
      unmetered,
      tokens: this.bill.tokens.counts,
      by_source: this.bill.bySource,
      by_model: this.bill.byModel(),
      cost_usd: this.bill.costUsd(costIs),
      cost_is: costIs,
    };
  }
}

const TOTALS = ["calls", "errors", "denied", "lost", "unmetered", "tokens", "by_source", "by_model", "cost_usd", "cost_is"];

/** The first of `names` whose member differs; null where none does. */
const differing = (said, found, names) => names.find((name) => !same(said[name], found[name])) ?? null;

const priceKey = (row) => encode([row.provider, row.model, row.tier, row.kind, row.unit_usd, row.per]);

const priceKeys = (provider, model, tier, usage) =>
  usage.items
    .filter((item) => item.unit_usd !== undefined)
    .map((item) => priceKey({ provider, model, tier, kind: item.kind, unit_usd: item.unit_usd, per: item.per }));

// ── notes (section 4) ────────────────────────────────────────────────────────────────────────────────────────────

function base64(text, length) {
  if (!/^[A-Za-z0-9+/]*={0,2}$/.test(text) || text.length % 4 !== 0) bad("no base64");
  const binary = atob(text);
  if (btoa(binary) !== text || binary.length !== length) bad("base64 of another value or length");
  return Uint8Array.from(binary, (character) => character.charCodeAt(0));
}

/** A note from its five lines (T-2, T-3). Throws Malformed. */
function noteOf(lines) {
  const [origin, sizeText, rootText, empty, signed] = lines;
  if (lines.some((line) => byteLength(line) >= MAX_NOTE_LINE)) bad("a line that is too long");
  if (!/^(0|[1-9][0-9]*)$/.test(sizeText)) bad("size");
  const size = sizeText.length > 16 ? NaN : Number(sizeText);
  if (!Number.isSafeInteger(size)) bad("size");
  const root = toHex(base64(rootText, 32));
  const prefix = `\u2014 ${origin} `;
  if (empty !== "" || origin === "" || !signed.startsWith(prefix)) bad("not a signed note");
  const blob = base64(signed.slice(prefix.length), 68);
  return {
    origin, size, root, keyId: toHex(blob.subarray(0, 4)), signature: blob.subarray(4),
    signed: `${origin}\n${sizeText}\n${rootText}\n`, text: `${lines.join("\n")}\n`,
  };
}

/** A note from its whole text. Throws Malformed. */
function noteOfText(text) {
  const lines = text.split("\n");
  if (lines.length !== 6 || lines[5] !== "") bad("not five lines");
  return noteOf(lines.slice(0, 5));
}

async function noteSignedBy(note, key) {
  const bytes = fromHex(key);
  const origin = encoder.encode(note.origin);
  const named = new Uint8Array(origin.length + 2 + 32);
  named.set(origin);
  named.set([10, 1], origin.length);
  named.set(bytes, origin.length + 2);
  if (sha256hex(named).slice(0, 8) !== note.keyId) return false;
  return signedBy(bytes, note.signature, encoder.encode(note.signed));
}

// ── reading ──────────────────────────────────────────────────────────────────────────────────────────────────────

/** Lines of a source, which is {read(offset, length) → bytes or a promise of them}. */
class Lines {
  #source;
  #offset = 0;
  #buffer = new Uint8Array(0);
  #start = 0;
  #limit;
  ended = false;

  constructor(source, limit) {
    this.#source = source;
    this.#limit = limit;
  }

  /** The next whole line without its LF; null where more must be read first. */
  take() {
    const at = this.#buffer.indexOf(10, this.#start);
    if (at < 0) return null;
    const line = this.#buffer.subarray(this.#start, at);
    this.#start = at + 1;
    return line;
  }

  /** Bytes read that no LF has ended yet. */
  get rest() {
    return this.#buffer.length - this.#start;
  }

  /** Read on; false at the end of the source, or where what has no LF yet is too long already. */
  async fill() {
    if (this.ended || this.rest >= this.#limit) return false;
    const reading = this.#source.read(this.#offset, CHUNK);
    const chunk = reading instanceof Uint8Array ? reading : await reading;
    if (chunk.length === 0) {
      this.ended = true;
      return false;
    }
    this.#offset += chunk.length;
    const rest = this.#buffer.subarray(this.#start);
    if (rest.length === 0) {
      this.#buffer = chunk;
    } else {
      const joined = NODE ? Buffer.allocUnsafe(rest.length + chunk.length) : new Uint8Array(rest.length + chunk.length);
      joined.set(rest);
      joined.set(chunk, rest.length);
      this.#buffer = joined;
    }
    this.#start = 0;
    return true;
  }

  /** The next whole line, or null. */
  async next() {
    let line;
    while ((line = this.take()) === null) if (!(await this.fill())) return null;
    return line;
  }
}

/** Judges the file of checkpoints while the ledger is read (P-4). */
class Notes {
  fault = null;
  judged = 0;
  last = null; // text of the last note up to the receipt's size
  follows = false; // something stands behind it
  #lines;
  #next = null;
  #before = 0;
  #most;

  constructor(source, most) {
    this.#lines = new Lines(source, MAX_NOTE_LINE);
    this.#most = most;
  }

  /** Read the next note, if the reading goes on. */
  async advance() {
    this.#next = null;
    if (this.fault !== null || this.follows) return;
    const lines = [];
    while (lines.length < 5) {
      const line = await this.#lines.next();
      if (line === null) {
        if (this.#lines.rest >= MAX_NOTE_LINE) this.#fail("checkpoints.form", "a line that is too long");
        this.follows = lines.length > 0 || this.#lines.rest > 0;
        return;
      }
      if (line.length >= MAX_NOTE_LINE) return this.#fail("checkpoints.form", "a line that is too long");
      lines.push(line);
    }
    let note;
    try {
      note = noteOf(lines.map(textOf));
    } catch (error) {
      if (!(error instanceof Malformed)) throw error;
      return this.#fail("checkpoints.form", error.message);
    }
    if (note.size <= this.#before) return this.#fail("checkpoints.order", "sizes do not grow");
    if (note.size > this.#most) {
      this.follows = true;
      return;
    }
    this.#next = note;
    this.#before = note.size;
  }

  #fail(check, detail) {
    this.fault ??= new Fail(check, detail);
  }

  /** Judge the note over `size` events, if there is one. */
  async at(size, origin, tree, starts) {
    while (this.#next !== null && this.#next.size === size) {
      const note = this.#next;
      const session = starts.findLast((start) => start.seq < size);
      if (note.origin !== origin) this.#fail("checkpoints.order", "another origin");
      else if (note.root !== tree.root()) this.#fail("checkpoints.root", `over ${size} events`);
      else if (!(await noteSignedBy(note, session.data.run_key))) this.#fail("checkpoints.signature", `over ${size} events`);
      if (this.fault !== null) return;
      this.judged += 1;
      this.last = note.text;
      session.note = note.text;
      await this.advance();
    }
  }

  get wanted() {
    return this.#next === null ? -1 : this.#next.size;
  }

  /** The ledger ended. */
  end() {
    if (this.#next !== null) this.#fail("checkpoints.size", `a note over ${this.#next.size} events`);
  }
}

/** The calls of a ledger (L-12). */
class Calls {
  next = 1;
  open = new Set();
  unseen = new Set();
  headless = 0; // ends without a request

  #introduce(call) {
    if (this.unseen.size + (call - this.next) > MAX_OPEN) throw new Fail("ledger.calls", "too many numbers passed over");
    for (let n = this.next; n < call; n++) this.unseen.add(n);
    this.next = call + 1;
  }

  add(type, call) {
    if (type === "model.request" || type === "model.cache_hit") {
      if (call < this.next) throw new Fail("ledger.calls", `call ${call} is introduced twice or out of order`);
      this.#introduce(call);
      if (type === "model.request") this.open.add(call);
      if (this.open.size > MAX_OPEN) throw new Fail("ledger.calls", "too many open calls");
    } else if (type === "model.response" || type === "model.error") {
      if (this.open.delete(call)) return;
      if (call >= this.next) this.#introduce(call);
      else if (!this.unseen.delete(call)) throw new Fail("ledger.calls", `call ${call} ends twice`);
      this.headless += 1;
    }
  }
}

/** A ledger while it is read. */
class Ledger {
  tree = new Tree();
  starts = [];
  calls = new Calls();
  unknown = new Set();
  withheld = new Set();
  head = sha256hex(ZERO_HASH);
  elapsed = 0;
  last = null; // the last event's type and evidence
  torn = false;
  continued = false;
  tail = "nothing"; // behind what the receipt binds: nothing, continued, other

  constructor(receipt) {
    this.receipt = receipt;
    const rows = receipt?.prices.rows ?? null;
    this.figures = new Figures(rows === null ? null : new Map(rows.map((row) => [priceKey(row), false])));
  }

  get size() {
    return this.tree.size;
  }

  /** Judge one line and take it in (P-3). Throws Fail. */
  add(line) {
    const { value: e, without, withheld, indexed } = this.#form(line);
    if (e.seq !== this.size) throw new Fail("ledger.seq", `line ${this.size} has seq ${e.seq}`);
    if (e.prev !== this.head) throw new Fail("ledger.prev", `event ${e.seq}`);
    if (sha256hex(`\u0000${without("hash")}`) !== e.hash) throw new Fail("ledger.hash", `event ${e.seq}`);
    if (e.elapsed_us < this.elapsed) throw new Fail("ledger.time", `event ${e.seq}`);
    this.#sessions(e);
    if (e.type.startsWith("model.")) this.calls.add(e.type, e.data.call);
    const { type, data } = e;
    if (type !== "session.end") this.figures.add(e, indexed);
    else this.#end(e);
    this.tree.push(e.hash);
    this.head = e.hash;
    this.elapsed = e.elapsed_us;
    this.last = { type, evidence: type === "session.end" ? data.ops.evidence : null };
    if (type === "session.start") this.starts.push({ seq: e.seq, hash: e.hash, data, end: null, note: null });
    else if (type === "session.end") this.starts.at(-1).end = e.hash;
    if (!Object.hasOwn(TYPES, type) && !SILENT.has(type) && this.unknown.size < MAX_NAMED) this.unknown.add(type);
    for (const name of withheld) if (this.withheld.size < MAX_NAMED) this.withheld.add(name);
  }

  #form(line) {
    const where = `line ${this.size}`;
    if (line.length + 1 > MAX_LINE) throw new Fail("ledger.form", `${where} is too long`);
    let parsed;
    try {
      parsed = parse(textOf(line));
    } catch (error) {
      if (!(error instanceof Malformed)) throw error;
      throw new Fail("ledger.form", `${where}: ${error.message}`);
    }
    if (line.length + 1 + parsed.light > MAX_LINE) throw new Fail("ledger.form", `${where} is too long`);
    const fault = eventFault(parsed.value);
    if (fault !== null) throw new Fail("ledger.form", `${where}: ${fault}`);
    return parsed;
  }

  #sessions(e) {
    const { type, data } = e;
    const wrong = (why) => {
      throw new Fail("ledger.sessions", `event ${e.seq}: ${why}`);
    };
    if (e.seq === 0) {
      if (type !== "session.start" || data.session !== 0 || data.continues !== undefined) wrong("no first start");
      return;
    }
    if (type !== "session.start") return;
    if (this.starts.length >= MAX_SESSIONS) wrong("too many sessions");
    if (data.session !== this.starts.length) wrong("session number");
    if (data.docket !== this.starts[0].data.docket) wrong("another docket");
    if (this.starts.some((start) => start.data.run_key === data.run_key)) wrong("a run key twice");
    const from = data.continues;
    if (from === undefined || from.size !== e.seq || from.head !== e.prev || from.root !== this.tree.root()) wrong("continues");
  }

  #end(e) {
    const { totals, usage_tree: tree, ops } = e.data;
    this.figures.add(e, true);
    const found = this.figures.totals(ops.evidence);
    const other = differing(totals, found, TOTALS);
    if (other !== null) throw new Fail("ledger.end", `event ${e.seq}: totals.${other}`);
    const { usageTree } = this.figures;
    if (tree.size !== usageTree.size || tree.root !== usageTree.root()) {
      throw new Fail("ledger.end", `event ${e.seq}: usage_tree`);
    }
  }

  /** Read a whole ledger, with its notes; throws Fail for the first bad event. */
  async read(source, notes) {
    const most = this.receipt === null ? Infinity : this.receipt.ledger.size;
    const lines = new Lines(source, MAX_LINE);
    if (notes !== null) await notes.advance();
    while (this.size < most) {
      const line = lines.take();
      if (line === null) {
        if (await lines.fill()) continue;
        break;
      }
      this.add(line);
      if (notes !== null && notes.wanted === this.size) {
        const docket = this.receipt?.docket ?? this.starts[0].data.docket;
        await notes.at(this.size, `docket/${docket}`, this.tree, this.starts);
      }
    }
    if (this.size < most) {
      if (lines.rest >= MAX_LINE) throw new Fail("ledger.form", `line ${this.size} is too long`);
      this.torn = lines.rest > 0;
    } else {
      await this.#behind(lines);
    }
    notes?.end();
  }

  async #behind(lines) {
    const line = await lines.next();
    if (line === null) {
      this.tail = lines.rest > 0 ? "other" : "nothing";
      return;
    }
    this.tail = (await this.#isNextStart(line)) ? "continued" : "other";
    this.continued = this.tail === "continued";
  }

  /** Whether a line is a right start of a further session here (B-2). */
  async #isNextStart(line) {
    try {
      const { value: e, without } = this.#form(line);
      if (e.type !== "session.start" || e.seq !== this.size || e.prev !== this.head) return false;
      if (sha256hex(`\u0000${without("hash")}`) !== e.hash || e.elapsed_us < this.elapsed) return false;
      this.#sessions(e);
      const before = this.starts.at(-1).data.endorsement;
      if (before !== undefined && e.data.endorsement?.key !== before.key) return false;
      return e.data.endorsement === undefined || (await endorses(e.data));
    } catch (error) {
      if (error instanceof Fail) return false;
      throw error;
    }
  }
}

// ── receipt (section 7) ──────────────────────────────────────────────────────────────────────────────────────────

const isRow = exactly({
  call: isCount, model: isString, provider: isString, tier: isString, seq: isNatural, usage: isObject,
});
const isLatency = (v) => {
  const names = ["p50", "p95", "p99", "max"];
  return isObject(v) && isNatural(v.count) && names.every((name) => (v.count > 0 ? isNatural(v[name]) : v[name] === undefined));
};
const isUse = shape({ booked: isNatural, limit: optional(isNatural) });
const isReceipt = shape({
  format: oneOf("docket-receipt/1"),
  docket: isDocket,
  created_at: isTime,
  tool: isObject,
  kind: oneOf("complete", "recovered"),
  session: shape({
    outcome: oneOf("completed", "failed", "breached", "interrupted", "lost"), exit: isExit, elapsed_us: isNatural,
    orphans: isNatural, survivors: listOf(isCount, MAX_SURVIVORS), sessions: isCount, drill: isBoolean,
    breach: optional(shape({ cap: isString, limit: isString, observed: isString, seq: isNatural })),
  }),
  policy: shape({ digest: isHex64, document: isObject }),
  prices: shape({
    tables: listOf(shape({ digest: isHex64, source: optional(isString), date: optional(isString) }), MAX_SESSIONS),
    rows: listOf(exactly({
      provider: isString, model: isString, tier: isString, kind: isName, unit_usd: isPrice, per: oneOf(1, 1_000_000),
    })),
  }),
  totals: shape({
    calls: isNatural, errors: isNatural, denied: isNatural, lost: isNatural, unmetered: isNatural, tokens: isCounts,
    by_source: exactly({ none: isNatural, partial: isNatural, reported: isNatural }),
    by_model: listOf(
      shape({ provider: isString, model: isString, calls: isNatural, cost_usd: optional(isAmount) }), MAX_PAIRS + 1,
    ),
    cost_usd: optional(isAmount), cost_is: oneOf("exact", "lower-bound", "none"),
  }),
  usage: shape({ size: isNatural, root: isHex64, rows: optional(listOf(isRow, 10_000)) }),
  latency: shape({ unit: oneOf("us"), total: isLatency, first_byte: isLatency }),
  caps: shape({
    usd: shape({ booked: isAmount, limit: optional(isAmount), billed: optional(isAmount) }),
    tokens: shape({ booked: isNatural, billed: isNatural, limit: optional(isNatural) }),
    calls: isUse, wall_us: isUse,
  }),
  files: shape({ changes: isCounts, snapshots: isNatural }),
  network: shape({ allowed: isNatural, denied: isNatural, unauthorized: isNatural, forwarded: isCounts }),
  tools: shape({ calls: isNatural, results: isNatural }),
  resilience: shape({
    breaker: shape({ open: isNatural, "half-open": isNatural, closed: isNatural }), clock_steps: isNatural,
    faults_injected: isNatural, rate_limited: isNatural, denied_by_code: isCounts,
  }),
  enforcement: shape({ mechanisms: isObject, violations: isNatural }),
  ops: shape({ evidence: isEvidence }),
  cache: optional(shape({ hits: isNatural, policy: optional(isObject), saved_usd: optional(isAmount) })),
  findings: listOf(isObject),
  ledger: shape({ format: oneOf("docket-ledger/1"), size: isCount, root: isHex64, head: isHex64, checkpoint: isString }),
  starts: listOf(
    exactly({ event: isObject, proof: isProof, checkpoint: optional(isString), end: optional(isPair) }), MAX_SESSIONS, 1,
  ),
  end: optional(isPair),
  limits: listOf(isString, Infinity, 1),
  signatures: listOf(exactly({ role: oneOf("run", "operator"), alg: oneOf("ed25519"), key: isHex64, value: isHex128 }), 2),
});

/** A document of one line (C-1) in sealed form. Throws Fail(check). */
function documentOf(bytes, most, check) {
  if (bytes.length > most || bytes.at(-1) !== 10) throw new Fail(check, "too long, or without its line feed");
  try {
    return parse(textOf(bytes.subarray(0, bytes.length - 1)));
  } catch (error) {
    if (!(error instanceof Malformed)) throw error;
    throw new Fail(check, error.message);
  }
}

function receiptOf(bytes) {
  const parsed = documentOf(bytes, MAX_RECEIPT, "receipt.form");
  const receipt = parsed.value;
  if (!isReceipt(receipt)) throw new Fail("receipt.form", "a member is missing or of another shape");
  const roles = receipt.signatures.map((signature) => signature.role).join();
  if (receipt.kind === "recovered") {
    if (receipt.end !== undefined || roles !== "") throw new Fail("receipt.form", "a recovered receipt with end or signature");
  } else if (receipt.ledger.checkpoint === "" || (roles !== "run" && roles !== "run,operator")) {
    throw new Fail("receipt.form", "a complete receipt without checkpoint or run signature");
  }
  return { receipt, parsed };
}

const rightEvent = (event, type) => eventFault(event) === null && (type === null || event.type === type) && hashOf(event) === event.hash;

const rightProof = ({ event, proof }, size, root) =>
  proof.index === event.seq && proof.size === size && included(event.hash, proof, root);

function endorsementMessage(data) {
  const { docket, policy, prices, run_key, session } = data;
  return encoder.encode(
    `docket-endorse/1\u0000${encode({ continues: data.continues ?? null, docket, policy, prices, run_key, session })}`,
  );
}

const endorses = (data) =>
  signedBy(fromHex(data.endorsement.key), fromHex(data.endorsement.value), endorsementMessage(data));

// ── the procedure (section 10) ───────────────────────────────────────────────────────────────────────────────────

class Procedure {
  status = new Map(CHECKS.map((id) => [id, "skip"]));
  details = new Map();
  receipt = null;
  ledger = null;
  proof = null;
  remarks = [];

  constructor(given, pins) {
    this.given = given;
    this.pins = pins;
  }

  pass(...ids) {
    for (const id of ids) this.status.set(id, "pass");
  }

  /** `id` passes where `holds`; else the procedure ends here. */
  need(id, holds, detail = "") {
    if (!holds) throw new Fail(id, detail);
    this.pass(id);
  }

  async run() {
    try {
      await this.steps();
    } catch (error) {
      if (!(error instanceof Fail)) throw error;
      const group = [LEDGER_CHECKS, NOTE_CHECKS].find((ids) => ids.includes(error.check)) ?? [];
      for (const id of group) this.status.set(id, "skip");
      this.status.set(error.check, "fail");
      this.details.set(error.check, error.message);
      return "failed";
    }
    return this.verdict();
  }

  async steps() {
    if (this.given.receipt !== null) {
      const { receipt, parsed } = receiptOf(this.given.receipt);
      this.receipt = receipt;
      this.signedText = parsed.without("signatures");
      this.withheld = parsed.withheld;
      this.pass("receipt.form");
    }
    if (this.given.ledger !== null) await this.readLedger();
    if (this.receipt !== null) {
      await this.startsAndEnd();
      this.usage();
      this.bindings();
      if (this.ledger !== null) this.against();
      await this.checkpoint();
    }
    if (this.given.proof !== null) await this.oneEvent();
    await this.endorsement();
    if (this.receipt !== null && this.receipt.kind === "complete") await this.signatures();
    this.pinned();
  }

  async readLedger() {
    const { receipt } = this;
    this.ledger = new Ledger(receipt);
    const source = this.given.checkpoints;
    const notes = source === null ? null : new Notes(source, receipt === null ? Infinity : receipt.ledger.size);
    await this.ledger.read(this.given.ledger, notes);
    this.pass(...LEDGER_CHECKS);
    if (notes !== null) {
      if (notes.fault !== null) throw notes.fault;
      if (notes.judged > 0) this.pass(...NOTE_CHECKS);
    }
    const { ledger } = this;
    if (receipt !== null) {
      if (notes !== null) this.lastNote(notes);
      this.need("binding.size", ledger.size === receipt.ledger.size, `the ledger has ${ledger.size} events`);
      this.need("binding.root", ledger.tree.root() === receipt.ledger.root);
      this.need("binding.head", ledger.head === receipt.ledger.head);
      this.need("binding.tail", ledger.tail !== "other" || receipt.end === undefined, "something follows");
      if (ledger.tail === "other") this.remarks.push("beyond the receipt: the ledger goes on");
      if (ledger.continued) this.remarks.push("continued by a later session");
    }
    if (ledger.torn) this.remarks.push("a torn last line");
    this.openCalls();
  }

  lastNote(notes) {
    const quoted = this.receipt.ledger.checkpoint;
    this.need("checkpoints.last", (notes.last ?? "") === quoted, "not the note that the receipt quotes");
    if (this.receipt.end !== undefined && !this.ledger.continued && notes.follows) {
      throw new Fail("checkpoints.last", "something follows it");
    }
  }

  openCalls() {
    const { receipt, ledger } = this;
    const { calls, figures, last } = ledger;
    const sealed = last?.type === "session.end" && !ledger.torn;
    const evidence = receipt !== null ? receipt.ops.evidence : last?.evidence;
    const gaps = evidence?.gaps ?? {};
    const lost = (type) =>
      BigInt(figures.lostTypes[type] ?? 0) + BigInt(Object.hasOwn(gaps, type) ? gaps[type] : 0);
    const unseen = BigInt(calls.unseen.size);
    const hits = unseen < lost("model.cache_hit") ? unseen : lost("model.cache_hit");
    const gone = unseen - hits;
    const ends = BigInt(calls.open.size) + gone <= lost("model.response") + lost("model.error");
    const requests = BigInt(calls.headless) + gone <= lost("model.request");
    const forgiven = receipt !== null ? receipt.kind === "recovered" : !sealed;
    this.need("calls.open", forgiven || (ends && requests), "more is missing than was disclosed");
  }

  async startsAndEnd() {
    const { docket, starts, ledger, end, session, ops, totals, usage } = this.receipt;
    for (const start of starts) {
      const sound = rightEvent(start.event, "session.start") && start.event.data.docket === docket;
      if (!sound || (start.end !== undefined && !rightEvent(start.end.event, "session.end"))) {
        throw new Fail("starts.event", `start ${starts.indexOf(start)}`);
      }
    }
    this.pass("starts.event");
    const proven = starts.every((start) =>
      rightProof(start, ledger.size, ledger.root) && (start.end === undefined || rightProof(start.end, ledger.size, ledger.root)));
    this.need("starts.proof", proven);
    this.need("starts.sessions", await this.follow());
    if (end === undefined) return;
    const { event } = end;
    this.need("end.event", rightEvent(event, "session.end") && event.seq === ledger.size - 1 && event.hash === ledger.head);
    this.need("end.proof", rightProof(end, ledger.size, ledger.root));
    const said = { outcome: session.outcome, exit: session.exit, totals, usage_tree: { size: usage.size, root: usage.root }, ops };
    const other = differing(event.data, said, Object.keys(said));
    this.need("end.figures", other === null, String(other));
  }

  /** R-5. */
  async follow() {
    const { starts, session, docket } = this.receipt;
    if (session.sessions !== starts.length) return false;
    if (new Set(starts.map(({ event }) => event.data.run_key)).size !== starts.length) return false;
    for (const [k, { event, checkpoint, end }] of starts.entries()) {
      const from = event.data.continues;
      if (event.data.session !== k) return false;
      if (k === 0 ? event.seq !== 0 || from !== undefined : from?.size !== event.seq || from.head !== event.prev) return false;
      if (k === starts.length - 1) return checkpoint === undefined && end === undefined;
      const next = starts[k + 1].event;
      if (next.seq <= event.seq) return false;
      if (end !== undefined) {
        if (!(end.event.seq > event.seq && end.event.seq < next.seq)) return false;
        if (end.event.seq === next.seq - 1 && end.event.hash !== next.prev) return false;
      }
      if (checkpoint === undefined) continue;
      try {
        const note = noteOfText(checkpoint);
        if (note.origin !== `docket/${docket}` || note.size <= event.seq || note.size > next.seq) return false;
        if (note.size === next.seq && note.root !== next.data.continues?.root) return false;
        if (!(await noteSignedBy(note, event.data.run_key))) return false;
      } catch (error) {
        if (error instanceof Malformed) return false;
        throw error;
      }
    }
    return false;
  }

  usage() {
    const { usage, starts, ledger, end, totals, ops } = this.receipt;
    const { rows } = usage;
    if (rows === undefined) return;
    const calls = new Set(rows.map((row) => row.call));
    const below = end === undefined ? ledger.size : ledger.size - 1;
    let before = starts[0].event.seq;
    for (const row of rows) {
      const fault = usageFault(row.usage);
      if (fault !== null || row.seq <= before || row.seq >= below) throw new Fail("usage.rows", `call ${row.call}: ${fault ?? "seq"}`);
      before = row.seq;
    }
    this.need("usage.rows", rows.length === usage.size && calls.size === rows.length, "their number, or a call twice");
    const tree = new Tree();
    const bill = new Bill();
    this.rowPrices = new Set();
    for (const row of rows) {
      tree.push(sha256hex(`\u0000${encode(row)}`));
      try {
        bill.add(row.provider, row.model, row.usage);
      } catch (error) {
        if (error instanceof Fail) throw new Fail("totals.rows", error.message);
        throw error;
      }
      for (const key of priceKeys(row.provider, row.model, row.tier, row.usage)) this.rowPrices.add(key);
    }
    this.need("usage.root", tree.root() === usage.root);
    const costIs = bill.costIs(totals.lost === 0 && totals.unmetered === 0 && isWhole(ops.evidence));
    const found = {
      tokens: bill.tokens.counts, by_source: bill.bySource, by_model: bill.byModel(), cost_usd: bill.costUsd(costIs),
    };
    const other = differing(totals, found, Object.keys(found));
    const cautious = costIs === "exact" && end === undefined && totals.cost_is === "lower-bound";
    this.need("totals.rows", other === null && (totals.cost_is === costIs || cautious), other ?? "cost_is");
  }

  bindings() {
    const { totals, usage, caps, session, resilience, network, policy, prices, starts, ops, kind, end } = this.receipt;
    const add = (numbers) => numbers.reduce((all, n) => all + BigInt(n), 0n);
    const values = (counts) => add(Object.keys(counts).map((key) => counts[key]));
    const size = BigInt(usage.size);
    const unmetered = Object.hasOwn(network.forwarded, "unmetered") ? network.forwarded.unmetered : 0;
    const agree = {
      "usage.size": values(totals.by_source) === size && add(totals.by_model.map((pair) => pair.calls)) === size,
      billed: caps.usd.billed === totals.cost_usd,
      "caps.tokens.billed": BigInt(caps.tokens.billed) === values(totals.tokens),
      "caps.calls.booked": caps.calls.booked === totals.calls,
      "caps.wall_us.booked": caps.wall_us.booked === session.elapsed_us,
      denied: values(resilience.denied_by_code) === BigInt(totals.denied),
      unmetered: unmetered === totals.unmetered,
      drill: session.drill === resilience.faults_injected > 0,
      cost: (totals.cost_usd === undefined) === (totals.cost_is === "none"),
      rows: size <= BigInt(totals.calls) + BigInt(totals.lost),
    };
    const other = Object.keys(agree).find((name) => !agree[name]);
    this.need("totals.bindings", other === undefined, other);
    const digest = sha256hex(encode(policy.document));
    this.need("policy.digest", digest === policy.digest && starts.at(-1).event.data.policy === digest);
    const named = starts.map(({ event }) => event.data.prices);
    this.need("prices.tables", same(prices.tables.map((table) => table.digest), named));
    this.priceRows(prices.rows);
    const { evidence } = ops;
    const clean = evidence.unwritten_events === 0 && Object.keys(evidence.gaps).length === 0
      && evidence.first_failing_seq === undefined && (kind !== "complete" || end !== undefined);
    this.need("ops.evidence", !evidence.ledger_complete || clean, "complete, and yet not");
  }

  priceRows(rows) {
    const names = ["provider", "model", "tier", "kind", "unit_usd"];
    for (let n = 1; n < rows.length; n++) {
      const [a, b] = [rows[n - 1], rows[n]];
      const name = names.find((each) => a[each] !== b[each]);
      const grows = name === undefined ? a.per < b.per : order(a[name], b[name]) < 0;
      if (!grows) throw new Fail("prices.rows", `row ${n} is out of order`);
    }
    if (this.rowPrices === undefined) return;
    const used = rows.length === this.rowPrices.size && rows.every((row) => this.rowPrices.has(priceKey(row)));
    this.need("prices.rows", used, "not those that the rows used");
  }

  against() {
    const { receipt, ledger } = this;
    const { figures } = ledger;
    const found = ledger.starts;
    const alike = receipt.starts.length === found.length && receipt.starts.every((start, k) => {
      if (start.event.hash !== found[k].hash) return false;
      if (k === found.length - 1) return true;
      if ((start.end?.event.hash ?? null) !== found[k].end) return false;
      return this.given.checkpoints === null || (start.checkpoint ?? null) === found[k].note;
    });
    this.need("against.starts", alike);
    const { usage } = receipt;
    this.need("against.usage", usage.size === figures.usageTree.size && usage.root === figures.usageTree.root());
    const total = differing(receipt.totals, figures.totals(receipt.ops.evidence), TOTALS);
    this.need("against.totals", total === null, String(total));
    const unused = [...figures.prices.values()].some((used) => !used);
    this.need("against.prices", !unused && !figures.strangePrice);
    const named = ["count", "p50", "p95", "p99", "max"];
    const late = differing(receipt.latency.total, figures.total.summary(), named)
      ?? differing(receipt.latency.first_byte, figures.firstByte.summary(), named);
    this.need("against.latency", late === null, String(late));
    const other = this.activity(figures);
    this.need("against.activity", other === null, String(other));
  }

  /** The first count of F-5 that the ledger does not give; null where it gives all. */
  activity(figures) {
    const { session, files, network, tools, resilience, enforcement, cache } = this.receipt;
    const of = (type) => figures.of(type);
    const x = (name) => of(`x-docket.${name}`);
    const breach = session.breach && ["cap", "limit", "observed", "seq"].map((name) => session.breach[name]);
    const rows = {
      elapsed_us: [session.elapsed_us, figures.elapsed],
      orphans: [session.orphans, of("proc.orphan")],
      survivors: [session.survivors, figures.survivors],
      drill: [session.drill, x("fault-injected") > 0],
      breach: [breach, figures.breach && Object.values(figures.breach)],
      sessions: [session.sessions, of("session.start")],
      changes: [files.changes, figures.changes.counts],
      snapshots: [files.snapshots, of("fs.snapshot")],
      allowed: [network.allowed, of("net.allowed")],
      denied: [network.denied, of("net.denied")],
      forwarded: [network.forwarded, figures.forwarded.counts],
      unauthorized: [network.unauthorized, figures.unauthorized],
      "tools.calls": [tools.calls, of("tool.call")],
      "tools.results": [tools.results, of("tool.result")],
      open: [resilience.breaker.open, x("breaker-open")],
      "half-open": [resilience.breaker["half-open"], x("breaker-half-open")],
      closed: [resilience.breaker.closed, x("breaker-closed")],
      clock_steps: [resilience.clock_steps, x("clock-step")],
      faults_injected: [resilience.faults_injected, x("fault-injected")],
      rate_limited: [resilience.rate_limited, x("rate-limited")],
      denied_by_code: [resilience.denied_by_code, figures.deniedByCode.counts],
      violations: [enforcement.violations, of("policy.violation")],
      hits: [cache?.hits ?? 0, of("model.cache_hit")],
      saved_usd: cache?.saved_usd === undefined ? [0, 0] : [cache.saved_usd, amountOf(figures.saved)],
    };
    return Object.keys(rows).find((name) => !same(...rows[name])) ?? null;
  }

  async checkpoint() {
    const { docket, ledger, starts, end } = this.receipt;
    if (ledger.checkpoint === "") return;
    let note;
    try {
      note = noteOfText(ledger.checkpoint);
    } catch (error) {
      if (!(error instanceof Malformed)) throw error;
      throw new Fail("checkpoint.form", error.message);
    }
    this.pass("checkpoint.form");
    const bound = note.origin === `docket/${docket}` && note.size >= 1 && note.size <= ledger.size
      && (end === undefined || note.size === ledger.size) && (note.size !== ledger.size || note.root === ledger.root);
    this.need("checkpoint.binding", bound);
    const signer = starts.findLast(({ event }) => event.seq < note.size);
    this.need("checkpoint.signature", await noteSignedBy(note, signer.event.data.run_key));
  }

  async oneEvent() {
    const { value: proof, withheld } = documentOf(this.given.proof, MAX_PROOF, "proof.form");
    const whole = exactly({
      format: oneOf("docket-proof/1"), docket: isDocket, checkpoint: isString, event: isPair, start: isPair,
    });
    this.need("proof.form", whole(proof), "a member is missing, of another shape, or too many");
    this.proof = proof;
    this.withheld = withheld;
    const start = proof.start.event;
    const right = rightEvent(start, "session.start") && start.data.docket === proof.docket;
    this.need("proof.event", right && rightEvent(proof.event.event, null));
    let note;
    try {
      note = noteOfText(proof.checkpoint);
    } catch (error) {
      if (!(error instanceof Malformed)) throw error;
      throw new Fail("proof.inclusion", error.message);
    }
    const inside = rightProof(proof.start, note.size, note.root) && rightProof(proof.event, note.size, note.root);
    this.need("proof.inclusion", inside);
    const vouched = note.origin === `docket/${proof.docket}` && (await noteSignedBy(note, start.data.run_key));
    this.need("proof.checkpoint", vouched);
    this.proofRoot = note.root;
  }

  /** `data` of every start at hand. */
  get starts() {
    if (this.receipt !== null) return this.receipt.starts.map(({ event }) => event.data);
    if (this.proof !== null) return [this.proof.start.event.data];
    return this.ledger.starts.map(({ data }) => data);
  }

  async endorsement() {
    const { starts } = this;
    const first = starts.findIndex((data) => data.endorsement !== undefined);
    if (first < 0) return;
    for (const data of starts.slice(first)) {
      const sound = data.endorsement?.key === starts[first].endorsement.key && (await endorses(data));
      if (!sound) throw new Fail("endorsement", `session ${data.session}`);
    }
    this.pass("endorsement");
  }

  async signatures() {
    const { signatures } = this.receipt;
    const last = this.starts.at(-1);
    const holds = ({ role, key, value }) =>
      signedBy(fromHex(key), fromHex(value), encoder.encode(`docket-receipt/1\u0000${role}\u0000${this.signedText}`));
    const [run, operator] = signatures;
    this.need("signature.run", run.key === last.run_key && (await holds(run)));
    if ((operator !== undefined) !== (last.endorsement !== undefined)) {
      throw new Fail("signature.operator", "an operator signature without an endorsement, or the reverse");
    }
    if (operator === undefined) return;
    this.need("signature.operator", operator.key === last.endorsement.key && (await holds(operator)));
  }

  pinned() {
    const last = this.starts.at(-1);
    const root = this.receipt?.ledger.root ?? this.proofRoot ?? this.ledger?.tree.root();
    const found = { run_key: last.run_key, root, operator: last.endorsement?.key };
    for (const [name, wanted] of Object.entries(this.pins)) {
      if (wanted !== undefined) this.need(`pin.${name}`, found[name] === wanted, `it is ${found[name] ?? "nobody's"}`);
    }
  }

  verdict() {
    const { receipt, ledger } = this;
    if (this.proof !== null) return "verified";
    if (receipt === null) return ledger.last?.type === "session.end" && !ledger.torn ? "unsealed" : "unfinished";
    if (receipt.kind === "recovered") return ledger !== null ? "recovered" : "incomplete";
    const { evidence } = receipt.ops;
    const disclosed = !isWhole(evidence) || !evidence.intact || receipt.totals.lost > 0 || receipt.end === undefined
      || receipt.session.survivors.length > 0;
    return disclosed || !this.closed() ? "incomplete" : "verified";
  }

  /** Whether every earlier session is closed (P-7). */
  closed() {
    const { starts } = this.receipt;
    return starts.slice(0, -1).every(({ end, checkpoint }, k) => {
      const next = starts[k + 1].event.seq;
      return end !== undefined && end.event.seq === next - 1 && checkpoint !== undefined && noteOfText(checkpoint).size === next;
    });
  }
}

/** Who vouches, and what else a person must know (P-10). */
function remarksOf(procedure, pins) {
  const { receipt, ledger, remarks } = procedure;
  const starts = receipt !== null || ledger !== null || procedure.proof !== null ? procedure.starts : [];
  const last = starts.at(-1);
  const said = [...remarks];
  const kind = receipt?.kind;
  if (kind === "recovered" || last === undefined) said.push("nobody vouches");
  else said.push(`the run key ${last.run_key} vouches${last.endorsement ? `, and the operator ${last.endorsement.key}` : ""}`);
  const pinned = Object.values(pins).some((pin) => pin !== undefined);
  said.push(pinned ? "a key or root was pinned" : "nothing was pinned: consistent, not authentic");
  if (starts.length > 1 && !starts.every((data) => data.endorsement !== undefined)) said.push("sessions not linked");
  if (receipt?.session.drill || (ledger?.figures.of("x-docket.fault-injected") ?? 0) > 0) said.push("a drill");
  const withheld = new Set([...(procedure.withheld ?? []), ...(ledger?.withheld ?? [])]);
  if (withheld.size > 0) said.push(`withheld: ${[...withheld].sort().join(", ")}`);
  if (ledger !== null && ledger.unknown.size > 0) said.push(`unknown types: ${[...ledger.unknown].join(", ")}`);
  return said;
}

const unreadable = (why) => ({
  verdict: "unreadable",
  checks: CHECKS.map((id) => ({ id, status: "skip", detail: why })),
  remarks: [why],
});

/**
 * Verify what is given: {receipt, proof} as bytes or null, {ledger, checkpoints} as sources or null. `pins` may hold
 * run_key, root and operator as hex. Gives {verdict, checks: [{id, status, detail}], remarks}.
 */
export async function verify(given, pins = {}) {
  const procedure = new Procedure(given, pins);
  const verdict = await procedure.run();
  const checks = CHECKS.map((id) => ({ id, status: procedure.status.get(id), detail: procedure.details.get(id) ?? "" }));
  let remarks = [];
  if (verdict !== "failed") remarks = remarksOf(procedure, pins);
  return { verdict, checks, remarks };
}

/** Exit status of a verdict (P-8). */
export const exitOf = (verdict) => ({ verified: 0, failed: 1, unreadable: 2 })[verdict] ?? 3;

function holds(bytes, words) {
  if (NODE) return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).includes(words);
  const wanted = encoder.encode(words);
  for (let at = bytes.indexOf(wanted[0]); at >= 0; at = bytes.indexOf(wanted[0], at + 1)) {
    if (wanted.every((byte, n) => bytes[at + n] === byte)) return true;
  }
  return false;
}

/** The bytes of `source` up to and with its first LF, at most `most` + 1 of them. */
async function firstLine(source, most) {
  const lines = new Lines(source, most + 1);
  const line = await lines.next();
  return line ?? (await source.read(0, Math.min(lines.rest, most + 1)));
}

/** What the files of a run directory (by name) or one file are (P-1); a string says why they are nothing. */
async function givenOf(files, isDirectory) {
  const given = { receipt: null, ledger: null, checkpoints: null, proof: null };
  if (isDirectory) {
    if (files.receipt !== undefined) given.receipt = await files.receipt.read(0, MAX_RECEIPT + 1);
    if (files.ledger !== undefined) {
      given.ledger = files.ledger;
      given.checkpoints = files.checkpoints ?? { read: () => new Uint8Array(0) };
    }
    if (given.receipt === null && given.ledger === null) return "neither a receipt nor a ledger is here";
  } else {
    const line = await firstLine(files.only, MAX_RECEIPT);
    if (holds(line, '"format":"docket-proof/')) given.proof = await files.only.read(0, MAX_PROOF + 1);
    else if (holds(line, '"format":"docket-receipt/')) given.receipt = await files.only.read(0, MAX_RECEIPT + 1);
    else if (holds(line, '"prev":"')) given.ledger = files.only;
    else return "not a document of docket-receipt/1";
  }
  if (given.receipt !== null && !holds(given.receipt, '"format":"docket-receipt/1"')) return "a receipt of another version";
  if (given.proof !== null && !holds(given.proof, '"format":"docket-proof/1"')) return "a proof of another version";
  if (given.ledger !== null && given.receipt === null) {
    const lines = new Lines(given.ledger, MAX_LINE);
    if ((await lines.next()) === null && lines.rest < MAX_LINE) return "a ledger without a whole line";
  }
  return given;
}

async function answer(files, isDirectory, pins) {
  const given = await givenOf(files, isDirectory);
  return typeof given === "string" ? unreadable(given) : verify(given, pins);
}

/**
 * Verify files of a browser (File objects): those of a run directory by name, or one receipt, ledger or proof.
 */
export async function verifyFiles(list, pins = {}) {
  const source = (file) => ({
    read: async (offset, length) => new Uint8Array(await file.slice(offset, offset + length).arrayBuffer()),
  });
  const named = new Map([...list].map((file) => [file.name, file]));
  const names = { receipt: "receipt.json", ledger: "ledger.jsonl", checkpoints: "checkpoints" };
  const known = Object.entries(names).filter(([, name]) => named.has(name));
  if (list.length === 1 && !named.has("checkpoints")) return answer({ only: source([...list][0]) }, false, pins);
  return answer(Object.fromEntries(known.map(([key, name]) => [key, source(named.get(name))])), true, pins);
}

// ── command line (P-9) ───────────────────────────────────────────────────────────────────────────────────────────

function openSource(path) {
  let fd;
  try {
    if (!nodeFs.statSync(path).isFile()) return undefined;
    fd = nodeFs.openSync(path, "r");
  } catch {
    return undefined;
  }
  return {
    read(offset, length) {
      const parts = [];
      let got = 0;
      while (got < length) {
        const piece = Buffer.allocUnsafe(Math.min(length - got, CHUNK));
        const n = nodeFs.readSync(fd, piece, 0, piece.length, offset + got);
        if (n === 0) break;
        parts.push(piece.subarray(0, n));
        got += n;
      }
      return parts.length === 1 ? parts[0] : Buffer.concat(parts);
    },
    close: () => nodeFs.closeSync(fd),
  };
}

/** Verify a path: a run directory, a receipt, a ledger or a proof. */
export async function verifyPath(path, pins = {}) {
  let isDirectory = false;
  try {
    isDirectory = nodeFs.statSync(path).isDirectory();
  } catch {
    return unreadable("no such file or directory");
  }
  const names = isDirectory
    ? { receipt: `${path}/receipt.json`, ledger: `${path}/ledger.jsonl`, checkpoints: `${path}/checkpoints` }
    : { only: path };
  const files = {};
  for (const [key, name] of Object.entries(names)) {
    const source = openSource(name);
    if (source !== undefined) files[key] = source;
  }
  if (!isDirectory && files.only === undefined) return unreadable("not a regular file");
  try {
    return await answer(files, isDirectory, pins);
  } finally {
    for (const source of Object.values(files)) source.close();
  }
}

const USAGE = "usage: node verify.mjs [--json] [--run-key HEX] [--root HEX] [--operator HEX] PATH\n       node verify.mjs --batch < PATHS\n";

function options(args) {
  const found = { json: false, batch: false, pins: {}, paths: [] };
  const pins = { "--run-key": "run_key", "--root": "root", "--operator": "operator" };
  for (let at = args[0] === "verify" ? 1 : 0; at < args.length; at++) {
    const arg = args[at];
    if (arg === "--json") found.json = true;
    else if (arg === "--batch") found.batch = true;
    else if (Object.hasOwn(pins, arg)) {
      at += 1;
      if (!isHex64(args[at])) return null;
      found.pins[pins[arg]] = args[at];
    } else if (arg.startsWith("--")) return null;
    else found.paths.push(arg);
  }
  return found.paths.length === (found.batch ? 0 : 1) ? found : null;
}

function show({ verdict, checks, remarks }) {
  const failed = checks.find((check) => check.status === "fail");
  const lines = [verdict, ...(failed ? [`  ${failed.id}: ${failed.detail}`] : []), ...remarks.map((remark) => `  ${remark}`)];
  return `${lines.join("\n")}\n`;
}

async function main(args) {
  const given = options(args);
  if (given === null) {
    process.stderr.write(USAGE);
    return 2;
  }
  if (given.batch) {
    const { createInterface } = await import("node:readline");
    for await (const path of createInterface({ input: process.stdin })) {
      if (path !== "") process.stdout.write(`${JSON.stringify({ path, ...(await verifyPath(path, given.pins)) })}\n`);
    }
    return 0;
  }
  const found = await verifyPath(given.paths[0], given.pins);
  process.stdout.write(given.json ? `${JSON.stringify(found)}\n` : show(found));
  return exitOf(found.verdict);
}

if (NODE && process.argv[1]) {
  const { pathToFileURL } = await import("node:url");
  let called;
  try {
    called = pathToFileURL(nodeFs.realpathSync(process.argv[1])).href;
  } catch {
    called = "";
  }
  if (called === import.meta.url) process.exitCode = await main(process.argv.slice(2));
}
