// Section 10: the checks in their order (checks.toml), and what ends them.

/** Every check in the order of the procedure (checks.toml). */
export const CHECKS = [
  "receipt.form",
  "ledger.form", "ledger.seq", "ledger.prev", "ledger.hash", "ledger.time", "ledger.sessions", "ledger.calls",
  "ledger.usage", "ledger.end",
  "checkpoints.form", "checkpoints.order", "checkpoints.size", "checkpoints.root", "checkpoints.signature",
  "checkpoints.lost", "checkpoints.last",
  "binding.size", "binding.root", "binding.head", "binding.tail", "calls.open",
  "starts.event", "starts.proof", "starts.sessions", "end.event", "end.proof", "end.figures",
  "usage.rows", "usage.root", "totals.rows", "totals.bindings",
  "policy.digest", "caps.limits", "prices.tables", "prices.rows", "ops.evidence",
  "against.starts", "against.usage", "against.totals", "against.prices", "against.latency", "against.activity",
  "checkpoint.form", "checkpoint.binding", "checkpoint.signature", "checkpoint.lost",
  "proof.form", "proof.event", "proof.inclusion", "proof.checkpoint",
  "endorsement", "signature.run", "signature.operator", "pin.run_key", "pin.root", "pin.operator",
];
export const LEDGER_CHECKS = CHECKS.filter((id) => id.startsWith("ledger."));
export const NOTE_CHECKS = CHECKS.slice(CHECKS.indexOf("checkpoints.form"), CHECKS.indexOf("checkpoints.last"));

export class Fail extends Error {
  constructor(check, detail) {
    super(detail);
    this.check = check;
  }
}

export class Malformed extends Error {}

export const bad = (why) => {
  throw new Malformed(why);
};
