// Shapes of values: what sections 3, 7 and 9 say of their members.

import { HEX64 } from "./hashing.mjs";
import { MAX_COUNTS } from "./limits.mjs";

export const isObject = (v) => typeof v === "object" && v !== null && !Array.isArray(v);
export const isString = (v) => typeof v === "string";
export const isNatural = (v) => typeof v === "number" && v >= 0;
export const isCount = (v) => typeof v === "number" && v >= 1;
export const isBoolean = (v) => typeof v === "boolean";
export const isHex64 = (v) => typeof v === "string" && HEX64.test(v);
export const isHex128 = (v) => typeof v === "string" && /^[0-9a-f]{128}$/.test(v);
export const isName = (v) => typeof v === "string" && /^[\x20-\x7e]{1,64}$/.test(v);
export const isCounts = (v) => {
  if (!isObject(v)) return false;
  const names = Object.keys(v);
  return names.length <= MAX_COUNTS && names.every((name) => isNatural(v[name]));
};
export const isDocket = (v) => typeof v === "string" && /^DKT-[0-9]{8}-[0-9A-HJKMNP-TV-Z]{10}$/.test(v);
const TIME = /^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]\.[0-9]{6}Z$/;
export const isTime = (v) => typeof v === "string" && TIME.test(v);
export const oneOf = (...words) => (v) => words.includes(v);
export const optional = (shape) => (v) => v === undefined || shape(v);
export const listOf = (shape, most = Infinity, least = 0) => (v) =>
  Array.isArray(v) && v.length >= least && v.length <= most && v.every(shape);
/** An object with these members; others are unknown. */
export const shape = (members) => {
  const rows = Object.entries(members);
  return (v) => isObject(v) && rows.every(([name, check]) => check(v[name]));
};
/** An object with these members and no others. */
export const exactly = (members) => {
  const known = shape(members);
  return (v) => known(v) && Object.keys(v).every((name) => Object.hasOwn(members, name));
};

export const isExit = shape({ code: optional(isNatural), signal: optional(isCount) });
export const isEvidence = shape({
  ledger_complete: oneOf(true, false, "unknown"), intact: isBoolean, unwritten_events: isNatural, write_failures: isNatural, gaps: isCounts,
  first_failing_seq: optional(isNatural),
});
export const isProof = exactly({ index: isNatural, size: isNatural, hashes: listOf(isHex64, 64) });
export const isPair = exactly({ event: isObject, proof: isProof });
