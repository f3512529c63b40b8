// Section 8: ledger and receipt together.

import { same } from "./canonical.mjs";
import { Notes } from "./checkpoints.mjs";
import { Fail, LEDGER_CHECKS, NOTE_CHECKS } from "./checks.mjs";
import { amountOf } from "./decimals.mjs";
import { differing, TOTALS } from "./figures.mjs";
import { Ledger } from "./ledger.mjs";

/** Read the ledger with its notes; what it binds (B-1 to B-3). */
export async function readLedger(p) {
  const { receipt } = p;
  p.ledger = new Ledger(receipt);
  const source = p.given.checkpoints;
  const notes = source === null ? null : new Notes(source, receipt === null ? Infinity : receipt.ledger.size);
  await p.ledger.read(p.given.ledger, notes);
  p.pass(...LEDGER_CHECKS);
  if (notes !== null) {
    if (notes.fault !== null) throw notes.fault;
    if (notes.judged > 0) p.pass(...NOTE_CHECKS);
  }
  const { ledger } = p;
  if (receipt !== null) {
    if (notes !== null) lastNote(p, notes);
    p.need("binding.size", ledger.size === receipt.ledger.size, `the ledger has ${ledger.size} events`);
    p.need("binding.root", ledger.tree.root() === receipt.ledger.root);
    p.need("binding.head", ledger.head === receipt.ledger.head);
    p.need("binding.tail", ledger.tail !== "other" || receipt.end === undefined, "something follows");
    if (ledger.tail === "other") p.remarks.push("beyond the receipt: the ledger goes on");
    if (ledger.continued) p.remarks.push("continued by a later session");
  }
  if (ledger.torn) p.remarks.push("a torn last line");
  openCalls(p);
}

/** B-3. */
function lastNote(p, notes) {
  if (p.receipt.kind === "from-memory") return; // made where the file could not be written
  const quoted = p.receipt.ledger.checkpoint;
  p.need("checkpoints.last", (notes.last ?? "") === quoted, "not the note that the receipt quotes");
  if (p.receipt.end !== undefined && !p.ledger.continued && notes.follows) {
    throw new Fail("checkpoints.last", "something follows it");
  }
}

/** L-13. */
function openCalls(p) {
  const { receipt, ledger } = p;
  const { calls, figures, last } = ledger;
  const sealed = last?.type === "session.end" && !ledger.torn;
  const evidence = receipt !== null ? receipt.ops.evidence : last?.evidence;
  const gaps = evidence?.gaps ?? {};
  const lost = (type) =>
    BigInt(figures.lostTypes[type] ?? 0) + BigInt(Object.hasOwn(gaps, type) ? gaps[type] : 0);
  const unseen = BigInt(calls.unseen.size);
  const hits = unseen < lost("model.cache_hit") ? unseen : lost("model.cache_hit");
  const gone = unseen - hits;
  const ends = BigInt(calls.open.size) <= lost("model.response") + lost("model.error");
  const requests = BigInt(calls.headless) + gone <= lost("model.request");
  const forgiven = receipt !== null ? receipt.kind === "recovered" : !sealed;
  p.need("calls.open", forgiven || (ends && requests), "more is missing than was disclosed");
}

/** B-4 and B-5. */
export function againstLedger(p) {
  const { receipt, ledger } = p;
  const { figures } = ledger;
  const found = ledger.starts;
  const alike = receipt.starts.length === found.length && receipt.starts.every((start, k) => {
    if (start.event.hash !== found[k].hash) return false;
    if (k === found.length - 1) return true;
    if ((start.end?.event.hash ?? null) !== found[k].end) return false;
    return p.given.checkpoints === null || (start.checkpoint ?? null) === found[k].note;
  });
  p.need("against.starts", alike);
  const { usage } = receipt;
  p.need("against.usage", usage.size === figures.usageTree.size && usage.root === figures.usageTree.root());
  const total = differing(receipt.totals, figures.totals(receipt.ops.evidence), TOTALS);
  p.need("against.totals", total === null, String(total));
  const unused = [...figures.prices.values()].some((used) => !used);
  p.need("against.prices", !unused && !figures.strangePrice);
  const named = ["count", "p50", "p95", "p99", "max"];
  const late = differing(receipt.latency.total, figures.total.summary(), named)
    ?? differing(receipt.latency.first_byte, figures.firstByte.summary(), named);
  p.need("against.latency", late === null, String(late));
  const other = differingActivity(p, figures);
  p.need("against.activity", other === null, String(other));
}

/** The first count of F-5 that the ledger does not give; null where it gives all. */
function differingActivity(p, figures) {
  const { session, files, network, tools, resilience, enforcement, cache } = p.receipt;
  const of = (type) => figures.of(type);
  const x = (name) => of(`x-docket.${name}`);
  const breach = session.breach && ["cap", "limit", "observed", "seq"].map((name) => session.breach[name]);
  const breachLost = session.breach?.seq === undefined && figures.breach === undefined; // its event is among the lost ones
  const rows = {
    elapsed_us: [session.elapsed_us, figures.elapsed],
    orphans: [session.orphans, of("proc.orphan")],
    survivors: [session.survivors, figures.survivors],
    drill: [session.drill, x("fault-injected") > 0],
    breach: breachLost ? [0, 0] : [breach, figures.breach && Object.values(figures.breach)],
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
    rate_limited: [resilience.rate_limited, figures.rateLimited],
    denied_by_code: [resilience.denied_by_code, figures.deniedByCode.counts],
    violations: [enforcement.violations, of("policy.violation")],
    hits: [cache?.hits ?? 0, of("model.cache_hit")],
    saved_usd: cache?.saved_usd === undefined ? [0, 0] : [cache.saved_usd, amountOf(figures.saved)],
  };
  return Object.keys(rows).find((name) => !same(...rows[name])) ?? null;
}
