// Section 10, P-2 to P-10: the procedure, its verdict, and what a person is told beside it.

import { againstLedger, readLedger } from "./against.mjs";
import { CHECKS, Fail, LEDGER_CHECKS, NOTE_CHECKS } from "./checks.mjs";
import { isWhole } from "./figures.mjs";
import { noteOfText } from "./notes.mjs";
import { proofOfOneEvent } from "./proof.mjs";
import { agreeWithin, quotedNote, startsAndEnd, usageRows } from "./receipt.mjs";
import { receiptOf } from "./receipt_shape.mjs";
import { endorsements, pinnedValues, signedByRoles } from "./vouching.mjs";

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
      this.signedText = parsed.rest;
      this.withheld = parsed.withheld;
      this.pass("receipt.form");
    }
    if (this.given.ledger !== null) await readLedger(this);
    if (this.receipt !== null) {
      await startsAndEnd(this);
      usageRows(this);
      agreeWithin(this);
      if (this.ledger !== null) againstLedger(this);
      await quotedNote(this);
    }
    if (this.given.proof !== null) await proofOfOneEvent(this);
    await endorsements(this);
    if (this.receipt !== null && this.receipt.kind !== "recovered") await signedByRoles(this);
    pinnedValues(this);
  }

  /** `data` of every start at hand. */
  get starts() {
    if (this.receipt !== null) return this.receipt.starts.map(({ event }) => event.data);
    if (this.proof !== null) return [this.proof.start.event.data];
    return this.ledger.starts.map(({ data }) => data);
  }

  verdict() {
    const { receipt, ledger } = this;
    if (this.proof !== null) return "verified";
    if (receipt === null) return ledger.last?.type === "session.end" && !ledger.torn ? "unsealed" : "unfinished";
    if (receipt.kind === "recovered") return ledger !== null ? "recovered" : "incomplete";
    const { evidence } = receipt.ops;
    const disclosed = !isWhole(evidence) || !evidence.intact || receipt.totals.lost > 0 || receipt.end === undefined
      || receipt.session.survivors.length > 0;
    return disclosed || !this.closed() || !linked(this.starts) ? "incomplete" : "verified";
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

/** Whether what vouched for each session vouches for the next: one operator key endorses every start (P-7). */
const linked = (starts) => starts.length < 2 || starts.every((data) => data.endorsement !== undefined);

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
  if (!linked(starts)) said.push("sessions not linked");
  if (receipt?.session.drill || (ledger?.figures.of("x-docket.fault-injected") ?? 0) > 0) said.push("a drill");
  const withheld = new Set([...(procedure.withheld ?? []), ...(ledger?.withheld ?? [])]);
  if (withheld.size > 0) said.push(`withheld: ${[...withheld].sort().join(", ")}`);
  if (ledger !== null && ledger.unknown.size > 0) said.push(`unknown types: ${[...ledger.unknown].join(", ")}`);
  return said;
}

export const unreadable = (why) => ({
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
