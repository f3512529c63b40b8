// Section 3, L-3 to L-9: events, their types and the members that are read.

import { encode } from "./canonical.mjs";
import { isAmount } from "./decimals.mjs";
import { sha256hex } from "./hashing.mjs";
import {
  exactly, isCount, isCounts, isDocket, isEvidence, isExit, isHex128, isHex64, isName, isNatural, isObject,
  isString, isTime, oneOf, optional, shape,
} from "./shapes.mjs";

const END = {
  call: isCount, provider: isString, model: isString, tier: isString, upstream: isString, reason: isString, usage: optional(isObject),
  duration_us: optional(isNatural), first_byte_us: optional(isNatural),
};

/** The members of `data` that are read, by type (L-9). */
export const TYPES = {
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
  "x-docket.rate-limited": shape({ count: isCount }),
  "x-docket.ledger-gap": shape({ lost: shape({ count: isCount, types: isCounts }) }),
};
export const SILENT = new Set([
  "policy.applied", "policy.violation", "cap.warning", "tool.call", "tool.result", "fs.snapshot", "proc.spawn", "proc.exit",
  "net.allowed", "net.denied", "note", "x-docket.breaker-open", "x-docket.breaker-half-open", "x-docket.breaker-closed",
  "x-docket.fault-injected", "x-docket.ledger-recovered", "x-docket.clock-step",
  "x-docket.budget-leased", "x-docket.budget-refused", "x-docket.budget-returned", "x-docket.retry-scheduled",
  "x-docket.rollback-applied", "x-docket.rollback-refused",
]);
const AGENT_SAYS = new Set(["note", "tool.call", "tool.result"]);
const ASSERTERS = new Set(["boundary", "supervisor", "agent", "doctor"]);

/** Why a sealed object is no event (L-3 to L-5, L-9); null where it is one. `head` is a hash that `prev` may be. */
export function eventFault(e, head = "") {
  if (!isObject(e)) return "not an object";
  if (!isNatural(e.seq) || !isNatural(e.elapsed_us)) return "seq or elapsed_us";
  if (!isString(e.type) || e.type === "" || (e.type.length > 128 && [...e.type].length > 128)) return "type";
  if (!isObject(e.data) || !(e.prev === head || isHex64(e.prev)) || !isHex64(e.hash)) return "data, prev or hash";
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

/** Whether an event in another document has the form, the type (any where null) and the hash that it says. */
export const rightEvent = (event, type) => eventFault(event) === null && (type === null || event.type === type) && hashOf(event) === event.hash;
