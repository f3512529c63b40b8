// Section 1: canonical form. Private members, where they stand in it, are those of sealed.mjs.

import { bad, Fail, Malformed } from "./checks.mjs";
import { encoder, NODE, nodeBuffer } from "./hashing.mjs";
import { MAX_DEPTH } from "./limits.mjs";
import { parsePrivate } from "./sealed.mjs";

const strictUtf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
const SPECIAL = /[\\\u0000-\u001f]/;
const PLAIN = /^[^"\\\u0000-\u001f]*$/;
const SHORT = new Set([...'"\\bfnrt'].map((letter) => letter.charCodeAt(0)));
const LONG = /^u00(0[0-7bef]|1[0-9a-f])$/;
const NAME = /^[\x20-\x7e]{1,128}$/;
const ASCII = /^[\x00-\x7f]*$/;

/** The text of UTF-8 bytes. Throws Malformed. */
export function textOf(bytes) {
  if (NODE && nodeBuffer.isAscii(bytes)) {
    return Buffer.prototype.latin1Slice.call(bytes, 0, bytes.length);
  }
  try {
    return strictUtf8.decode(bytes);
  } catch {
    return bad("no UTF-8");
  }
}

export const byteLength = (text) => (ASCII.test(text) ? text.length : encoder.encode(text).length);

/**
 * The object that the canonical text states, in sealed form: {value, rest, withheld, light, indexed}.
 * `rest` is the canonical text of the sealed object without its member `name`; `light` is what the text would weigh
 * more with every private member in its longer form (L-2); `indexed` says whether a name looks like an index of an array:
 * such members lose their place in an object. Throws Malformed.
 */
export function parse(text, name) {
  const p = { text, at: 0, edits: [], withheld: [], light: 0, indexed: false, plain: !SPECIAL.test(text), name, span: undefined };
  if (text.charCodeAt(0) !== 123) bad("not an object");
  const value = parseObject(p, 1, false);
  if (p.at !== text.length) bad("something after the object");
  const { edits, withheld, light, indexed, span } = p;
  return { value, withheld, light, indexed, rest: sealedText(text, edits, span) };
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

export function parseValue(p, depth, data) {
  const c = p.text.charCodeAt(p.at);
  if (c === 34) return parseString(p);
  if (c === 123) return parseObject(p, depth, data);
  if (c === 91) return parseArray(p, depth, data);
  if (c === 45 || (c >= 48 && c <= 57)) return parseNumber(p);
  if (p.text.startsWith("true", p.at)) return (p.at += 4), true;
  if (p.text.startsWith("false", p.at)) return (p.at += 5), false;
  if (p.text.startsWith("null", p.at)) return (p.at += 4), null;
  return bad(`no value at ${p.at}`);
}

function parseNumber(p) {
  const start = p.at;
  if (p.text.charCodeAt(p.at) === 45) p.at += 1;
  const first = p.text.charCodeAt(p.at);
  if (first === 48) {
    if (p.at !== start) bad("minus zero");
    p.at += 1;
    return 0;
  }
  if (!(first >= 49 && first <= 57)) bad("no number");
  for (let c = first; c >= 48 && c <= 57; c = p.text.charCodeAt(p.at)) p.at += 1;
  const n = p.at - start > 17 ? NaN : Number(p.text.slice(start, p.at));
  return Number.isSafeInteger(n) ? n : bad("a number out of range");
}

function parseString(p) {
  const start = p.at + 1;
  const end = p.text.indexOf('"', start);
  if (end < 0) bad("a string without end");
  const piece = p.text.slice(start, end);
  if (p.plain || PLAIN.test(piece)) {
    p.at = end + 1;
    return piece;
  }
  return parseEscaped(p, start);
}

/** A string with escapes, from behind its first quote: every escape is the one that C-2 demands. */
function parseEscaped(p, start) {
  const { text } = p;
  let at = start;
  for (;;) {
    const c = text.charCodeAt(at);
    if (Number.isNaN(c) || c < 32) bad("a raw control character, or a string without end");
    if (c === 34) break;
    if (c !== 92) at += 1;
    else if (SHORT.has(text.charCodeAt(at + 1))) at += 2;
    else if (LONG.test(text.slice(at + 1, at + 6))) at += 6;
    else bad("an escape that is not needed");
  }
  p.at = at + 1;
  return JSON.parse(text.slice(start - 1, p.at));
}

function parseArray(p, depth, data) {
  if (depth > MAX_DEPTH) bad("nested too deeply");
  const list = [];
  p.at += 1;
  if (p.text.charCodeAt(p.at) === 93) return (p.at += 1), list;
  for (;;) {
    list.push(parseValue(p, depth + 1, data));
    const c = p.text.charCodeAt(p.at);
    p.at += 1;
    if (c === 93) return list;
    if (c !== 44) bad(`no comma at ${p.at - 1}`);
  }
}

/** A name behind the names before it, and the names that came behind it: members recur in their order. */
class Step {
  next = null; // what came last
  kept = false;
  #known = null;

  constructor(name) {
    this.name = name;
    this.spelled = `"${name}":`;
  }

  /** The step to `name`; a new one is kept while there are few. */
  to(name) {
    let step = this.#known?.get(name);
    if (step === undefined) {
      if (!NAME.test(name)) bad("a name of another form");
      if (this.name !== null && !(name > this.name)) bad("members out of order, or twice");
      step = new Step(name);
      if (steps < MAX_STEPS && !/["\\]/.test(name)) {
        steps += 1;
        step.kept = true;
        this.#known ??= new Map();
        this.#known.set(name, step);
      }
    }
    return step;
  }
}

const MAX_STEPS = 4096;
let steps = 0;
export const FIRST = new Step(null);

/** The step to the name of the next member; leaves the position on its value. */
export function parseName(p, before) {
  const { next } = before;
  if (next !== null && p.text.startsWith(next.spelled, p.at)) {
    p.at += next.spelled.length;
    return next;
  }
  if (p.text.charCodeAt(p.at) !== 34) bad(`no name at ${p.at}`);
  const step = before.to(parseString(p));
  if (p.text.charCodeAt(p.at) !== 58) bad(`no colon at ${p.at}`);
  p.at += 1;
  if (p.plain && step.kept) before.next = step; // as it is spelled: without escapes
  return step;
}

function parseObject(p, depth, data) {
  if (depth > MAX_DEPTH) bad("nested too deeply");
  const object = {};
  p.at += 1;
  if (p.text.charCodeAt(p.at) === 125) return (p.at += 1), object;
  for (let before = FIRST; ; ) {
    const start = p.at;
    before = parseName(p, before);
    const { name } = before;
    if (name.charCodeAt(0) <= 57) p.indexed = true;
    const value = name === "private" && !data ? parsePrivate(p, depth + 1) : parseValue(p, depth + 1, data);
    if (name === "__proto__") Object.defineProperty(object, name, { value, enumerable: true });
    else object[name] = value;
    if (depth === 1 && name === p.name) p.span = [start, p.at];
    const c = p.text.charCodeAt(p.at);
    p.at += 1;
    if (c === 125) return object;
    if (c !== 44) bad(`no comma at ${p.at - 1}`);
  }
}

/** A document of one line (C-1) in sealed form. Throws Fail(check). */
export function documentOf(bytes, check, name) {
  if (bytes.at(-1) !== 10) throw new Fail(check, "without its line feed");
  try {
    return parse(textOf(bytes.subarray(0, bytes.length - 1)), name);
  } catch (error) {
    if (!(error instanceof Malformed)) throw error;
    throw new Fail(check, error.message);
  }
}

/** Canonical text of a value. */
export function encode(value) {
  if (typeof value === "string") return JSON.stringify(value);
  if (typeof value !== "object" || value === null) return String(value);
  if (Array.isArray(value)) return `[${value.map(encode).join(",")}]`;
  const members = Object.keys(value)
    .sort()
    .map((name) => `${JSON.stringify(name)}:${encode(value[name])}`);
  return `{${members.join(",")}}`;
}

export const same = (a, b) => (a === undefined || b === undefined ? a === b : encode(a) === encode(b));

/** Order of Unicode code points (C-7). */
export function order(a, b) {
  const left = [...a];
  const right = [...b];
  for (let i = 0; i < Math.min(left.length, right.length); i++) {
    if (left[i] !== right[i]) return left[i].codePointAt(0) - right[i].codePointAt(0);
  }
  return left.length - right.length;
}
