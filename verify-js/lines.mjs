// Section 3, L-1: lines of a source that is read piece by piece.

import { NODE } from "./hashing.mjs";
import { CHUNK } from "./limits.mjs";

/** Lines of a source, which is {read(offset, length) → bytes or a promise of them}. */
export class Lines {
  #source;
  #offset = 0;
  #buffer = new Uint8Array(0);
  #start = 0;
  #limit;
  ended = false;

  constructor(source, limit) {
    this.#source = source;
    this.#limit = limit;
  }

  /** The next whole line without its LF; null where more must be read first. */
  take() {
    const at = this.#buffer.indexOf(10, this.#start);
    if (at < 0) return null;
    const line = this.#buffer.subarray(this.#start, at);
    this.#start = at + 1;
    return line;
  }

  /** Bytes read that no LF has ended yet. */
  get rest() {
    return this.#buffer.length - this.#start;
  }

  /** Read on; false at the end of the source, or where what has no LF yet is too long already. */
  async fill() {
    if (this.ended || this.rest >= this.#limit) return false;
    const reading = this.#source.read(this.#offset, CHUNK);
    const chunk = reading instanceof Uint8Array ? reading : await reading;
    if (chunk.length === 0) {
      this.ended = true;
      return false;
    }
    this.#offset += chunk.length;
    const rest = this.#buffer.subarray(this.#start);
    if (rest.length === 0) {
      this.#buffer = chunk;
    } else {
      const joined = NODE ? Buffer.allocUnsafe(rest.length + chunk.length) : new Uint8Array(rest.length + chunk.length);
      joined.set(rest);
      joined.set(chunk, rest.length);
      this.#buffer = joined;
    }
    this.#start = 0;
    return true;
  }

  /** The next whole line, or null. */
  async next() {
    let line;
    while ((line = this.take()) === null) if (!(await this.fill())) return null;
    return line;
  }
}
