// Section 3, L-12: calls.

import { Fail } from "./checks.mjs";
import { MAX_OPEN } from "./limits.mjs";

/** The calls of a ledger (L-12). */
export class Calls {
  next = 1;
  open = new Set();
  unseen = new Set();
  headless = 0; // ends without a request

  #introduce(call) {
    if (this.unseen.size + (call - this.next) > MAX_OPEN) throw new Fail("ledger.calls", "too many numbers passed over");
    for (let n = this.next; n < call; n++) this.unseen.add(n);
    this.next = call + 1;
  }

  add(type, call) {
    if (type === "model.request" || type === "model.cache_hit") {
      if (call < this.next) throw new Fail("ledger.calls", `call ${call} is introduced twice or out of order`);
      this.#introduce(call);
      if (type === "model.request") this.open.add(call);
      if (this.open.size > MAX_OPEN) throw new Fail("ledger.calls", "too many open calls");
    } else if (type === "model.response" || type === "model.error") {
      if (this.open.delete(call)) return;
      if (call >= this.next) this.#introduce(call);
      else if (!this.unseen.delete(call)) throw new Fail("ledger.calls", `call ${call} ends twice`);
      this.headless += 1;
    }
  }
}
