// Section 4, T-2 to T-4: a signed note.

import { byteLength } from "./canonical.mjs";
import { bad } from "./checks.mjs";
import { encoder, fromHex, sha256hex, toHex } from "./hashing.mjs";
import { MAX_NOTE_LINE } from "./limits.mjs";
import { signedBy } from "./signatures.mjs";

function base64(text, length) {
  if (!/^[A-Za-z0-9+/]*={0,2}$/.test(text) || text.length % 4 !== 0) bad("no base64");
  const binary = atob(text);
  if (btoa(binary) !== text || binary.length !== length) bad("base64 of another value or length");
  return Uint8Array.from(binary, (character) => character.charCodeAt(0));
}

function countOf(text, what) {
  if (!/^(0|[1-9][0-9]*)$/.test(text)) bad(what);
  const count = text.length > 16 ? NaN : Number(text);
  if (!Number.isSafeInteger(count)) bad(what);
  return count;
}

/** A note from its six lines (T-2, T-3). Throws Malformed. */
export function noteOf(lines) {
  const [origin, sizeText, rootText, lostText, empty, signed] = lines;
  if (lines.some((line) => byteLength(line) >= MAX_NOTE_LINE)) bad("a line that is too long");
  const size = countOf(sizeText, "size");
  if (!lostText.startsWith("lost ")) bad("not a number of lost events");
  const lost = countOf(lostText.slice("lost ".length), "lost events");
  const root = toHex(base64(rootText, 32));
  const prefix = `\u2014 ${origin} `;
  if (empty !== "" || origin === "" || !signed.startsWith(prefix)) bad("not a signed note");
  const blob = base64(signed.slice(prefix.length), 68);
  return {
    origin, size, root, lost, keyId: toHex(blob.subarray(0, 4)), signature: blob.subarray(4),
    signed: `${origin}\n${sizeText}\n${rootText}\n${lostText}\n`, text: `${lines.join("\n")}\n`,
  };
}

/** A note from its whole text. Throws Malformed. */
export function noteOfText(text) {
  const lines = text.split("\n");
  if (lines.length !== 7 || lines[6] !== "") bad("not six lines");
  return noteOf(lines.slice(0, 6));
}

export async function noteSignedBy(note, key) {
  const bytes = fromHex(key);
  const origin = encoder.encode(note.origin);
  const named = new Uint8Array(origin.length + 2 + 32);
  named.set(origin);
  named.set([10, 1], origin.length);
  named.set(bytes, origin.length + 2);
  if (sha256hex(named).slice(0, 8) !== note.keyId) return false;
  return signedBy(bytes, note.signature, encoder.encode(note.signed));
}
