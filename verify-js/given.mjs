// Section 10, P-1: what is given.

import { encoder, NODE } from "./hashing.mjs";
import { CHUNK, MAX_LINE, MAX_MARKS, MAX_PROOF, MAX_RECEIPT } from "./limits.mjs";
import { Lines } from "./lines.mjs";
import { unreadable, verify } from "./procedure.mjs";

function contains(bytes, words) {
  if (NODE) return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).includes(words);
  const wanted = encoder.encode(words);
  for (let at = bytes.indexOf(wanted[0]); at >= 0; at = bytes.indexOf(wanted[0], at + 1)) {
    if (wanted.every((byte, n) => bytes[at + n] === byte)) return true;
  }
  return false;
}

/** The first line of `source`, of which at most `most` bytes are looked at. */
async function firstLine(source, most) {
  const head = await source.read(0, Math.min(CHUNK, most));
  const end = head.indexOf(10);
  if (end >= 0) return head.subarray(0, end);
  const more = await source.read(0, most);
  const later = more.indexOf(10);
  return later < 0 ? more : more.subarray(0, later);
}

/** Why a receipt or proof is more than a verifier takes (P-1); null where it is not. */
function tooLarge(bytes, most) {
  if (bytes.length > most) return `longer than ${most} bytes`;
  let marks = 0;
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at];
    if (byte === 44 || byte === 91 || byte === 123) marks += 1;
  }
  return marks > MAX_MARKS ? `of more than ${MAX_MARKS} bytes , [ and {` : null;
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
    if (contains(line, '"format":"docket-proof/')) given.proof = await files.only.read(0, MAX_PROOF + 1);
    else if (contains(line, '"format":"docket-receipt/')) given.receipt = await files.only.read(0, MAX_RECEIPT + 1);
    else if (contains(line, '"prev":"')) given.ledger = files.only;
    else return "not a document of docket-receipt/1";
  }
  if (given.receipt !== null && !contains(given.receipt, '"format":"docket-receipt/1"')) return "a receipt of another version";
  if (given.proof !== null && !contains(given.proof, '"format":"docket-proof/1"')) return "a proof of another version";
  for (const [name, most] of [["receipt", MAX_RECEIPT], ["proof", MAX_PROOF]]) {
    const why = given[name] === null ? null : tooLarge(given[name], most);
    if (why !== null) return `the ${name} is ${why}`;
  }
  if (given.ledger !== null && given.receipt === null) {
    const lines = new Lines(given.ledger, MAX_LINE);
    if ((await lines.next()) === null && lines.rest < MAX_LINE) return "a ledger without a whole line";
  }
  return given;
}

export async function answer(files, isDirectory, pins) {
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
