// Section 4, T-5, and P-4: the file of checkpoints beside the ledger.

import { textOf } from "./canonical.mjs";
import { Fail, Malformed } from "./checks.mjs";
import { MAX_NOTE_LINE } from "./limits.mjs";
import { Lines } from "./lines.mjs";
import { noteOf, noteSignedBy } from "./notes.mjs";

/** Judges the file of checkpoints while the ledger is read (P-4). */
export class Notes {
  fault = null;
  judged = 0;
  last = null; // text of the last note up to the receipt's size
  follows = false; // something stands behind it
  #lines;
  #next = null;
  #before = { size: 0, lost: Infinity };
  #lost = 0;
  #most;

  constructor(source, most) {
    this.#lines = new Lines(source, MAX_NOTE_LINE);
    this.#most = most;
  }

  /** Read the next note, if the reading goes on. */
  async advance() {
    this.#next = null;
    if (this.fault !== null || this.follows) return;
    const lines = [];
    while (lines.length < 6) {
      const line = await this.#lines.next();
      if (line === null) {
        if (this.#lines.rest >= MAX_NOTE_LINE) this.#fail("checkpoints.form", "a line that is too long");
        this.follows = lines.length > 0 || this.#lines.rest > 0;
        return;
      }
      if (line.length >= MAX_NOTE_LINE) return this.#fail("checkpoints.form", "a line that is too long");
      lines.push(line);
    }
    let note;
    try {
      note = noteOf(lines.map(textOf));
    } catch (error) {
      if (!(error instanceof Malformed)) throw error;
      return this.#fail("checkpoints.form", error.message);
    }
    const { size, lost } = this.#before;
    if (note.size < size || (note.size === size && note.lost <= lost)) {
      return this.#fail("checkpoints.order", "neither size nor losses grow");
    }
    if (note.size > this.#most) {
      this.follows = true;
      return;
    }
    this.#next = note;
    this.#before = note;
  }

  #fail(check, detail) {
    this.fault ??= new Fail(check, detail);
  }

  /** Judge the notes over `size` events, if there are any; the ledger has `told` of so many losses. */
  async at(size, origin, tree, starts, told) {
    while (this.#next !== null && this.#next.size === size) {
      const note = this.#next;
      const session = starts.findLast((start) => start.seq < size);
      if (note.origin !== origin) this.#fail("checkpoints.order", "another origin");
      else if (note.root !== tree.root()) this.#fail("checkpoints.root", `over ${size} events`);
      else if (!(await noteSignedBy(note, session.data.run_key))) this.#fail("checkpoints.signature", `over ${size} events`);
      else if (note.lost < this.#lost || note.lost < told) this.#fail("checkpoints.lost", `over ${size} events`);
      if (this.fault !== null) return;
      this.#lost = note.lost;
      this.judged += 1;
      this.last = note.text;
      session.note = note.text;
      await this.advance();
    }
  }

  get wanted() {
    return this.#next === null ? -1 : this.#next.size;
  }

  /** The ledger ended. */
  end() {
    if (this.#next !== null) this.#fail("checkpoints.size", `a note over ${this.#next.size} events`);
  }
}
