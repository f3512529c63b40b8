// Section 3: the ledger, event by event (P-3), with its notes beside it (P-4).

import { Calls } from "./calls.mjs";
import { parse, textOf } from "./canonical.mjs";
import { Fail, Malformed } from "./checks.mjs";
import { eventFault, SILENT, TYPES } from "./events.mjs";
import { differing, Figures, TOTALS } from "./figures.mjs";
import { sha256hex } from "./hashing.mjs";
import { MAX_LINE, MAX_NAMED, MAX_SESSIONS } from "./limits.mjs";
import { Lines } from "./lines.mjs";
import { Tree } from "./tree.mjs";
import { priceKey } from "./usage.mjs";
import { endorses } from "./vouching.mjs";

const ZERO_HASH = "docket-ledger/1";

/** A ledger while it is read. */
export class Ledger {
  tree = new Tree();
  starts = [];
  calls = new Calls();
  unknown = new Set();
  withheld = new Set();
  head = sha256hex(ZERO_HASH);
  elapsed = 0;
  last = null; // the last event's type and evidence
  torn = false;
  continued = false;
  tail = "nothing"; // behind what the receipt binds: nothing, continued, other

  constructor(receipt) {
    this.receipt = receipt;
    const rows = receipt?.prices.rows ?? null;
    this.figures = new Figures(rows === null ? null : new Map(rows.map((row) => [priceKey(row), false])));
  }

  get size() {
    return this.tree.size;
  }

  /** Judge one line and take it in (P-3). Throws Fail. */
  add(line) {
    const { value: e, rest, withheld, indexed } = this.#form(line);
    if (e.seq !== this.size) throw new Fail("ledger.seq", `line ${this.size} has seq ${e.seq}`);
    if (e.prev !== this.head) throw new Fail("ledger.prev", `event ${e.seq}`);
    if (sha256hex(`\u0000${rest}`) !== e.hash) throw new Fail("ledger.hash", `event ${e.seq}`);
    if (e.elapsed_us < this.elapsed) throw new Fail("ledger.time", `event ${e.seq}`);
    this.#sessions(e);
    if (e.type.startsWith("model.")) this.calls.add(e.type, e.data.call);
    const { type, data } = e;
    if (type !== "session.end") this.figures.add(e, indexed);
    else this.#end(e);
    this.tree.push(e.hash);
    this.head = e.hash;
    this.elapsed = e.elapsed_us;
    this.last = { type, evidence: type === "session.end" ? data.ops.evidence : null };
    if (type === "session.start") this.starts.push({ seq: e.seq, hash: e.hash, data, end: null, note: null });
    else if (type === "session.end") this.starts.at(-1).end = e.hash;
    if (!Object.hasOwn(TYPES, type) && !SILENT.has(type) && this.unknown.size < MAX_NAMED) this.unknown.add(type);
    for (const name of withheld) if (this.withheld.size < MAX_NAMED) this.withheld.add(name);
  }

  #form(line) {
    const where = `line ${this.size}`;
    if (line.length + 1 > MAX_LINE) throw new Fail("ledger.form", `${where} is too long`);
    let parsed;
    try {
      parsed = parse(textOf(line), "hash");
    } catch (error) {
      if (!(error instanceof Malformed)) throw error;
      throw new Fail("ledger.form", `${where}: ${error.message}`);
    }
    if (line.length + 1 + parsed.light > MAX_LINE) throw new Fail("ledger.form", `${where} is too long`);
    const fault = eventFault(parsed.value, this.head);
    if (fault !== null) throw new Fail("ledger.form", `${where}: ${fault}`);
    return parsed;
  }

  #sessions(e) {
    const { type, data } = e;
    const wrong = (why) => {
      throw new Fail("ledger.sessions", `event ${e.seq}: ${why}`);
    };
    if (e.seq === 0) {
      if (type !== "session.start" || data.session !== 0 || data.continues !== undefined) wrong("no first start");
      return;
    }
    if (type !== "session.start") return;
    if (this.starts.length >= MAX_SESSIONS) wrong("too many sessions");
    if (data.session !== this.starts.length) wrong("session number");
    if (data.docket !== this.starts[0].data.docket) wrong("another docket");
    if (this.starts.some((start) => start.data.run_key === data.run_key)) wrong("a run key twice");
    const from = data.continues;
    if (from === undefined || from.size !== e.seq || from.head !== e.prev || from.root !== this.tree.root()) wrong("continues");
  }

  #end(e) {
    const { totals, usage_tree: tree, ops } = e.data;
    this.figures.add(e, true);
    const found = this.figures.totals(ops.evidence);
    const other = differing(totals, found, TOTALS);
    if (other !== null) throw new Fail("ledger.end", `event ${e.seq}: totals.${other}`);
    const { usageTree } = this.figures;
    if (tree.size !== usageTree.size || tree.root !== usageTree.root()) {
      throw new Fail("ledger.end", `event ${e.seq}: usage_tree`);
    }
  }

  /** Read a whole ledger, with its notes; throws Fail for the first bad event. */
  async read(source, notes) {
    const most = this.receipt === null ? Infinity : this.receipt.ledger.size;
    const lines = new Lines(source, MAX_LINE);
    if (notes !== null) await notes.advance();
    while (this.size < most) {
      const line = lines.take();
      if (line === null) {
        if (await lines.fill()) continue;
        break;
      }
      this.add(line);
      if (notes !== null && notes.wanted === this.size) {
        const docket = this.receipt?.docket ?? this.starts[0].data.docket;
        await notes.at(this.size, `docket/${docket}`, this.tree, this.starts, this.figures.lost);
      }
    }
    if (this.size < most) {
      if (lines.rest >= MAX_LINE) throw new Fail("ledger.form", `line ${this.size} is too long`);
      this.torn = lines.rest > 0;
    } else {
      await this.#behind(lines);
    }
    notes?.end();
  }

  async #behind(lines) {
    const line = await lines.next();
    if (line === null) {
      this.tail = lines.rest > 0 ? "other" : "nothing";
      return;
    }
    this.tail = (await this.#isNextStart(line)) ? "continued" : "other";
    this.continued = this.tail === "continued";
  }

  /** Whether a line is a right start of a further session here (B-2). */
  async #isNextStart(line) {
    try {
      const { value: e, rest } = this.#form(line);
      if (e.type !== "session.start" || e.seq !== this.size || e.prev !== this.head) return false;
      if (sha256hex(`\u0000${rest}`) !== e.hash || e.elapsed_us < this.elapsed) return false;
      this.#sessions(e);
      const before = this.starts.at(-1).data.endorsement;
      if (before !== undefined && e.data.endorsement?.key !== before.key) return false;
      return e.data.endorsement === undefined || (await endorses(e.data));
    } catch (error) {
      if (error instanceof Fail) return false;
      throw error;
    }
  }
}
