// Section 2: the sealed form. Every private member stands for its commitment.

import { byteLength, FIRST, parseName, parseValue } from "./canonical.mjs";
import { bad } from "./checks.mjs";
import { HEX64, sha256hex } from "./hashing.mjs";
import { MAX_DEPTH, MAX_NAMED } from "./limits.mjs";

const HEX32 = /^[0-9a-f]{32}$/;

/** The object of a member named `private`: every member replaced by its commitment (S-1 to S-3). */
export function parsePrivate(p, depth) {
  if (depth + 1 > MAX_DEPTH) bad("nested too deeply");
  if (p.text.charCodeAt(p.at) !== 123) bad("private is no object");
  const object = {};
  p.at += 1;
  for (let before = FIRST; ; ) {
    const nameAt = p.at;
    before = parseName(p, before);
    const { name } = before;
    if (name === "private") bad("a private member is named private");
    const spelled = p.text.slice(nameAt, p.at - 1);
    const start = p.at;
    const commitment = parseCommitted(p, name, spelled, depth + 1);
    p.edits.push([start, p.at, `"${commitment}"`]);
    if (name === "__proto__") Object.defineProperty(object, name, { value: commitment, enumerable: true });
    else object[name] = commitment;
    const c = p.text.charCodeAt(p.at);
    p.at += 1;
    if (c === 125) return object;
    if (c !== 44) bad(`no comma at ${p.at - 1}`);
  }
}

function parseCommitted(p, name, spelled, depth) {
  if (p.text.startsWith('{"commitment":"', p.at)) {
    const hex = p.text.slice(p.at + 15, p.at + 79);
    if (!HEX64.test(hex) || !p.text.startsWith('"}', p.at + 79)) bad("a commitment of another form");
    p.at += 81;
    if (p.withheld.length < MAX_NAMED) p.withheld.push(name);
    return hex;
  }
  const salt = p.text.slice(p.at + 9, p.at + 41);
  if (!p.text.startsWith('{"salt":"', p.at) || !HEX32.test(salt) || !p.text.startsWith('","value":', p.at + 41)) {
    bad("a private member is neither disclosed nor withheld");
  }
  p.at += 51;
  const from = p.at;
  parseValue(p, depth + 1, true);
  const raw = p.text.slice(from, p.at);
  if (p.text.charCodeAt(p.at) !== 125) bad("a private member with more members");
  p.at += 1;
  if (raw.length < 29) p.light += Math.max(0, 29 - byteLength(raw));
  return sha256hex(`\u0002[${spelled},"${salt}",${raw}]`);
}
