// Section 7, R-1, R-2 and R-14: the members of a receipt.

import { documentOf } from "./canonical.mjs";
import { Fail } from "./checks.mjs";
import { isAmount, isPrice } from "./decimals.mjs";
import { MAX_PAIRS, MAX_PRICES, MAX_SENTENCES, MAX_SEQS, MAX_SESSIONS, MAX_SURVIVORS } from "./limits.mjs";
import {
  exactly, isBoolean, isCount, isCounts, isDocket, isEvidence, isExit, isHex128, isHex64, isName, isNatural,
  isObject, isPair, isProof, isString, isTime, listOf, oneOf, optional, shape,
} from "./shapes.mjs";

const isRow = exactly({
  call: isCount, model: isString, provider: isString, tier: isString, upstream: isString, seq: isNatural, usage: isObject,
});
const isLatency = (v) => {
  const names = ["p50", "p95", "p99", "max"];
  return isObject(v) && isNatural(v.count) && names.every((name) => (v.count > 0 ? isNatural(v[name]) : v[name] === undefined));
};
const hasFigure = shape({ is: oneOf("exact", "at-least", "at-most"), usd: isAmount });
const hasNone = shape({ is: oneOf("unknown"), usd: (v) => v === undefined });
const isFinding = shape({
  rule: isName, severity: oneOf("info", "warning", "error"), confidence: oneOf("deterministic", "heuristic"), summary: isString,
  seqs: listOf(isNatural, MAX_SEQS, 1), count: isCount, impact: (v) => hasFigure(v) || hasNone(v), remedy: isString,
});
/** Whether the events of a finding grow, are as many as its count says, and lie in a ledger of that size. */
const refers = ({ seqs, count }, size) =>
  seqs.every((seq, i) => i === 0 || seq > seqs[i - 1]) && seqs.at(-1) < size && count <= size && seqs.length === Math.min(count, MAX_SEQS);
const isUse = shape({ booked: isNatural, limit: optional(isNatural) });
const isReceipt = shape({
  format: oneOf("docket-receipt/1"),
  docket: isDocket,
  created_at: isTime,
  tool: isObject,
  kind: oneOf("complete", "recovered", "from-memory"),
  session: shape({
    outcome: oneOf("completed", "failed", "breached", "interrupted", "lost"), exit: isExit, elapsed_us: isNatural,
    orphans: isNatural, survivors: listOf(isCount, MAX_SURVIVORS), sessions: isCount, drill: isBoolean,
    breach: optional(shape({ cap: isString, limit: isString, observed: isString, seq: optional(isNatural) })),
  }),
  policy: shape({ digest: isHex64, document: isObject }),
  prices: shape({
    tables: listOf(shape({ digest: isHex64, source: optional(isString), date: optional(isString) }), MAX_SESSIONS),
    rows: listOf(exactly({
      provider: isString, model: isString, tier: isString, kind: isName, unit_usd: isPrice, per: oneOf(1, 1_000_000),
    }), MAX_PRICES),
  }),
  totals: shape({
    calls: isNatural, errors: isNatural, denied: isNatural, lost: isNatural, unmetered: isNatural, tokens: isCounts,
    by_source: exactly({ none: isNatural, partial: isNatural, reported: isNatural }),
    by_model: listOf(
      shape({ provider: isString, upstream: isString, model: isString, calls: isNatural, cost_usd: optional(isAmount) }), MAX_PAIRS + 1,
    ),
    cost_usd: optional(isAmount), cost_is: oneOf("approximate", "exact", "lower-bound", "none"),
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
  findings: listOf(isFinding, MAX_SENTENCES),
  ledger: shape({ format: oneOf("docket-ledger/1"), size: isCount, root: isHex64, head: isHex64, checkpoint: isString }),
  starts: listOf(
    exactly({ event: isObject, proof: isProof, checkpoint: optional(isString), end: optional(isPair) }), MAX_SESSIONS, 1,
  ),
  end: optional(isPair),
  limits: listOf(isString, MAX_SENTENCES, 1),
  signatures: listOf(exactly({ role: oneOf("run", "operator"), alg: oneOf("ed25519"), key: isHex64, value: isHex128 }), 2),
});

/** The receipt that bytes state: {receipt, parsed}. Throws Fail. */
export function receiptOf(bytes) {
  const parsed = documentOf(bytes, "receipt.form", "signatures");
  const receipt = parsed.value;
  if (!isReceipt(receipt)) throw new Fail("receipt.form", "a member is missing or of another shape");
  const roles = receipt.signatures.map((signature) => signature.role).join();
  if (receipt.kind !== "complete" && receipt.end !== undefined) {
    throw new Fail("receipt.form", "a receipt that is not complete, with an end");
  }
  if (receipt.kind === "recovered") {
    if (roles !== "") throw new Fail("receipt.form", "a recovered receipt with a signature");
  } else if (receipt.ledger.checkpoint === "" || (roles !== "run" && roles !== "run,operator")) {
    throw new Fail("receipt.form", "a signed receipt without checkpoint or run signature");
  }
  if (!receipt.findings.every((finding) => refers(finding, receipt.ledger.size))) {
    throw new Fail("receipt.form", "a finding whose events do not grow, lie outside the ledger, or are not as many as it says");
  }
  return { receipt, parsed };
}
