// Section 7, R-3 to R-11: a receipt by itself.

import { encode, order, same } from "./canonical.mjs";
import { Fail, Malformed } from "./checks.mjs";
import { amountOf } from "./decimals.mjs";
import { rightEvent } from "./events.mjs";
import { Bill, differing, isWhole } from "./figures.mjs";
import { sha256hex } from "./hashing.mjs";
import { noteOfText, noteSignedBy } from "./notes.mjs";
import { rightProof, Tree } from "./tree.mjs";
import { priceKey, priceKeys, usageFault } from "./usage.mjs";

/** */
export async function startsAndEnd(p) {
  const { docket, starts, ledger, end, session, ops, totals, usage } = p.receipt;
  for (const start of starts) {
    const sound = rightEvent(start.event, "session.start") && start.event.data.docket === docket;
    if (!sound || (start.end !== undefined && !rightEvent(start.end.event, "session.end"))) {
      throw new Fail("starts.event", `start ${starts.indexOf(start)}`);
    }
  }
  p.pass("starts.event");
  const proven = starts.every((start) =>
    rightProof(start, ledger.size, ledger.root) && (start.end === undefined || rightProof(start.end, ledger.size, ledger.root)));
  p.need("starts.proof", proven);
  p.need("starts.sessions", await sessionsFollow(p));
  if (end === undefined) return;
  const { event } = end;
  p.need("end.event", rightEvent(event, "session.end") && event.seq === ledger.size - 1 && event.hash === ledger.head);
  p.need("end.proof", rightProof(end, ledger.size, ledger.root));
  const said = { outcome: session.outcome, exit: session.exit, totals, usage_tree: { size: usage.size, root: usage.root }, ops };
  const other = differing(event.data, said, Object.keys(said));
  p.need("end.figures", other === null, String(other));
}

/** */
async function sessionsFollow(p) {
  const { starts, session, docket } = p.receipt;
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

/** */
export function usageRows(p) {
  const { usage, starts, ledger, end, totals, ops } = p.receipt;
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
  p.need("usage.rows", rows.length === usage.size && calls.size === rows.length, "their number, or a call twice");
  const tree = new Tree();
  for (const row of rows) tree.push(sha256hex(`\u0000${encode(row)}`));
  p.need("usage.root", tree.root() === usage.root);
  const bill = new Bill();
  p.rowPrices = new Set();
  for (const row of rows) {
    try {
      bill.add(row);
    } catch (error) {
      if (error instanceof Fail) throw new Fail("totals.rows", error.message);
      throw error;
    }
    for (const key of priceKeys(row.provider, row.model, row.tier, row.usage)) p.rowPrices.add(key);
  }
  const costIs = bill.costIs(totals.lost === 0 && totals.unmetered === 0 && isWhole(ops.evidence));
  const found = {
    tokens: bill.tokens.counts, by_source: bill.bySource, by_model: bill.byModel(), cost_usd: bill.costUsd(costIs),
  };
  const other = differing(totals, found, Object.keys(found));
  const cautious = costIs === "exact" && end === undefined && totals.cost_is === "lower-bound";
  p.need("totals.rows", other === null && (totals.cost_is === costIs || cautious), other ?? "cost_is");
}

/** */
export function agreeWithin(p) {
  const { totals, usage, caps, session, resilience, network, policy, prices, starts, ops, end } = p.receipt;
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
  p.need("totals.bindings", other === undefined, other);
  const digest = sha256hex(encode(policy.document));
  p.need("policy.digest", digest === policy.digest && starts.at(-1).event.data.policy === digest);
  const wrong = otherLimit(caps, policy.document);
  p.need("caps.limits", wrong === undefined, wrong);
  const named = starts.map(({ event }) => event.data.prices);
  p.need("prices.tables", same(prices.tables.map((table) => table.digest), named));
  priceRows(p, prices.rows);
  const { evidence } = ops;
  const clean = evidence.unwritten_events === 0 && Object.keys(evidence.gaps).length === 0
    && evidence.first_failing_seq === undefined && end !== undefined;
  const unseen = session.breach !== undefined && session.breach.seq === undefined && evidence.unwritten_events === 0;
  p.need("ops.evidence", evidence.ledger_complete !== true || clean, "complete, and yet not");
  p.need("ops.evidence", !unseen, "a breach without its event, and no event is lost");
}

/** The cap whose limit is not the one of the policy. */
function otherLimit(caps, { caps: asked, budget }) {
  const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);
  const of = (name) => (isObject(asked) && Object.hasOwn(asked, name) ? asked[name] ?? undefined : undefined);
  const quota = isObject(budget) && budget.mode === "quota";
  const wall = caps.wall_us.limit;
  const pairs = {
    usd: [caps.usd.limit, quota ? undefined : of("max_usd")],
    tokens: [caps.tokens.limit, of("max_tokens")],
    calls: [caps.calls.limit, of("max_model_calls")],
    wall_us: [wall === undefined ? undefined : amountOf(BigInt(wall) * 1_000_000n), of("max_wall_seconds")],
  };
  return Object.keys(pairs).find((name) => pairs[name][0] !== pairs[name][1]);
}

function priceRows(p, rows) {
  const names = ["provider", "model", "tier", "kind", "unit_usd"];
  for (let n = 1; n < rows.length; n++) {
    const [a, b] = [rows[n - 1], rows[n]];
    const name = names.find((each) => a[each] !== b[each]);
    const grows = name === undefined ? a.per < b.per : order(a[name], b[name]) < 0;
    if (!grows) throw new Fail("prices.rows", `row ${n} is out of order`);
  }
  if (p.rowPrices === undefined) return;
  const used = rows.length === p.rowPrices.size && rows.every((row) => p.rowPrices.has(priceKey(row)));
  p.need("prices.rows", used, "not those that the rows used");
}

/** */
export async function quotedNote(p) {
  const { docket, ledger, starts, end } = p.receipt;
  if (ledger.checkpoint === "") return;
  let note;
  try {
    note = noteOfText(ledger.checkpoint);
  } catch (error) {
    if (!(error instanceof Malformed)) throw error;
    throw new Fail("checkpoint.form", error.message);
  }
  p.pass("checkpoint.form");
  const bound = note.origin === `docket/${docket}` && note.size >= 1 && note.size <= ledger.size
    && (end === undefined || note.size === ledger.size) && (note.size !== ledger.size || note.root === ledger.root);
  p.need("checkpoint.binding", bound);
  const signer = starts.findLast(({ event }) => event.seq < note.size);
  p.need("checkpoint.signature", await noteSignedBy(note, signer.event.data.run_key));
  const lost = p.receipt.ops.evidence.unwritten_events;
  p.need("checkpoint.lost", lost === note.lost || (lost > note.lost && end === undefined), `the checkpoint says ${note.lost}`);
}
