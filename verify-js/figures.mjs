// Section 6: figures.

import { encode, order, same } from "./canonical.mjs";
import { Fail } from "./checks.mjs";
import { AMOUNT_LIMIT, amountOf, picoOf } from "./decimals.mjs";
import { SILENT, TYPES } from "./events.mjs";
import { sha256hex } from "./hashing.mjs";
import { MAX_KEYS, MAX_PAIRS, MAX_SURVIVORS } from "./limits.mjs";
import { Tree } from "./tree.mjs";
import { costOf, priceKeys, usageFault } from "./usage.mjs";

const sum = (a, b) => {
  const total = a + b;
  if (!Number.isSafeInteger(total)) throw new Fail("ledger.usage", "a sum above 2^53-1");
  return total;
};

const sumOfUsd = (a, b) => {
  const total = a + b;
  if (total >= AMOUNT_LIMIT) throw new Fail("ledger.usage", "a sum of USD of 10^15 or more");
  return total;
};

/** Counts by key in order of first appearance; from the 65th key on they count as `other`. */
class Limited {
  counts = {};
  #keys = new Set();

  add(key, n) {
    let at = key;
    if (!this.#keys.has(key)) {
      if (this.#keys.size >= MAX_KEYS) at = "other";
      this.#keys.add(at);
    }
    const before = Object.hasOwn(this.counts, at) ? this.counts[at] : 0;
    const value = sum(before, n);
    if (at === "__proto__") Object.defineProperty(this.counts, at, { value, enumerable: true, configurable: true });
    else this.counts[at] = value;
  }
}

/** One string for three, whatever characters are in them. */
const lineKey = (provider, upstream, model) => `${provider.length},${upstream.length}:${provider}${upstream}${model}`;

/** Rows of usage, folded (F-1). */
export class Bill {
  rows = 0;
  tokens = new Limited();
  bySource = { none: 0, partial: 0, reported: 0 };
  cost = 0n;
  costed = 0;
  exact = true; // every row is reported and has a cost
  assumed = false; // some cost rests on an assumed breakdown
  #pairs = new Map();

  add({ provider, upstream, model, usage }) {
    this.rows += 1;
    this.bySource[usage.source] += 1;
    for (const item of usage.items) if (item.per !== 1) this.tokens.add(item.kind, item.quantity);
    const pair = this.#pair(provider, upstream, model);
    pair.calls += 1;
    if (usage.cost_usd === undefined) {
      this.exact = false;
      return;
    }
    this.cost = sumOfUsd(this.cost, picoOf(usage.cost_usd));
    this.costed += 1;
    this.assumed ||= usage.assumed !== undefined;
    if (usage.source !== "reported") this.exact = false;
    pair.cost ??= 0n;
    if (usage.items.every((item) => item.model === undefined)) {
      pair.cost += picoOf(usage.cost_usd);
      return;
    }
    for (const item of usage.items) {
      const by = item.model === undefined ? pair : this.#pair(provider, upstream, item.model);
      by.cost = (by.cost ?? 0n) + costOf([item]);
    }
  }

  #pair(provider, upstream, model) {
    const known = this.#pairs.get(lineKey(provider, upstream, model));
    if (known !== undefined) return known;
    if (this.#pairs.size >= MAX_PAIRS) provider = upstream = model = "other";
    const key = lineKey(provider, upstream, model);
    if (!this.#pairs.has(key)) this.#pairs.set(key, { provider, upstream, model, calls: 0, cost: null });
    return this.#pairs.get(key);
  }

  byModel() {
    return [...this.#pairs.values()]
      .sort((a, b) => order(a.provider, b.provider) || order(a.upstream, b.upstream) || order(a.model, b.model))
      .map(({ cost, ...pair }) => (cost === null ? pair : { ...pair, cost_usd: amountOf(cost) }));
  }

  /** `cost_is`, where `whole` says that nothing else is known to be missing. */
  costIs(whole) {
    if (this.rows > 0 && this.costed === 0) return "none";
    if (this.assumed) return "approximate";
    return this.exact && whole ? "exact" : "lower-bound";
  }

  costUsd(costIs) {
    return costIs === "none" ? undefined : amountOf(this.cost);
  }
}

export const isWhole = (evidence) =>
  evidence.ledger_complete === true && evidence.unwritten_events === 0 && Object.keys(evidence.gaps).length === 0;

/** Samples cut to three significant digits, and their percentiles (F-4). */
class Samples {
  count = 0;
  #cut = new Map();

  add(sample) {
    const scale = 10 ** Math.max(0, String(sample).length - 3);
    const value = Math.floor(sample / scale) * scale;
    this.#cut.set(value, (this.#cut.get(value) ?? 0) + 1);
    this.count += 1;
  }

  summary() {
    if (this.count === 0) return { count: 0 };
    const ascending = [...this.#cut].sort((a, b) => a[0] - b[0]);
    const at = (rank) => {
      let seen = 0;
      for (const [value, n] of ascending) if ((seen += n) >= rank) return value;
      return ascending.at(-1)[0];
    };
    const rank = (p) => Number((BigInt(p) * BigInt(this.count) + 99n) / 100n);
    return { count: this.count, p50: at(rank(50)), p95: at(rank(95)), p99: at(rank(99)), max: ascending.at(-1)[0] };
  }
}

/** Everything that events come to. */
export class Figures {
  bill = new Bill();
  usageTree = new Tree();
  types = new Map();
  ends = 0;
  denied = 0;
  lost = 0;
  lostTypes = {};
  unauthorized = 0;
  rateLimited = 0;
  changes = new Limited();
  forwarded = new Limited();
  deniedByCode = new Limited();
  total = new Samples();
  firstByte = new Samples();
  survivors = [];
  breach = undefined;
  saved = 0n;
  elapsed = 0;

  constructor(prices) {
    this.prices = prices; // of the receipt: key → used, or null
    this.strangePrice = false;
  }

  of(type) {
    return this.types.get(type) ?? 0;
  }

  /** Take a right event; throws Fail for a bill that is wrong or a sum that is too large. */
  add(e, indexed) {
    const { type, data } = e;
    if (Object.hasOwn(TYPES, type) || SILENT.has(type)) this.types.set(type, this.of(type) + 1);
    this.elapsed = e.elapsed_us;
    switch (type) {
      case "model.response":
        if (data.duration_us !== undefined) this.total.add(data.duration_us);
        if (data.first_byte_us !== undefined) this.firstByte.add(data.first_byte_us);
      // falls through
      case "model.error":
        this.ends += 1;
        if (data.usage !== undefined) this.#row(e, data, indexed);
        break;
      case "model.denied":
        this.denied = sum(this.denied, data.count);
        this.deniedByCode.add(data.code, data.count);
        break;
      case "model.cache_hit":
        if (data.saved_usd !== undefined) this.saved = sumOfUsd(this.saved, picoOf(data.saved_usd));
        break;
      case "session.start":
        this.breach = undefined;
        break;
      case "cap.exceeded":
        this.breach ??= { cap: data.cap, limit: data.limit, observed: data.observed, seq: e.seq };
        break;
      case "fs.change":
        this.changes.add(data.change, 1);
        break;
      case "proc.orphan":
        if (data.ended === "survived" && this.survivors.length < MAX_SURVIVORS) this.survivors.push(data.pid);
        break;
      case "x-docket.forwarded":
        this.forwarded.add(data.endpoint_class, 1);
        if (data.endpoint_class === "unmetered") this.unmetered = (this.unmetered ?? 0) + 1;
        break;
      case "x-docket.unauthorized":
        this.unauthorized = sum(this.unauthorized, data.count);
        break;
      case "x-docket.rate-limited":
        this.rateLimited = sum(this.rateLimited, data.count);
        break;
      case "x-docket.ledger-gap":
        this.lost = sum(this.lost, data.lost.count);
        for (const name of ["model.request", "model.response", "model.error", "model.cache_hit"]) {
          if (Object.hasOwn(data.lost.types, name)) {
            this.lostTypes[name] = sum(this.lostTypes[name] ?? 0, data.lost.types[name]);
          }
        }
        break;
    }
  }

  #row(e, { call, model, provider, tier, upstream, usage }, indexed) {
    const fault = usageFault(usage);
    if (fault !== null) throw new Fail("ledger.usage", `event ${e.seq}: ${fault}`);
    this.bill.add({ provider, upstream, model, usage });
    const row = { call, model, provider, seq: e.seq, tier, upstream, usage }; // in canonical order, and so is what was parsed
    this.usageTree.push(sha256hex(`\u0000${indexed ? encode(row) : JSON.stringify(row)}`));
    if (this.prices === null) return;
    for (const key of priceKeys(provider, model, tier, usage)) {
      if (this.prices.has(key)) this.prices.set(key, true);
      else this.strangePrice = true;
    }
  }

  totals(evidence) {
    const unmetered = this.unmetered ?? 0;
    const requests = this.of("model.request");
    const whole = this.lost === 0 && unmetered === 0 && requests <= this.ends && isWhole(evidence);
    const costIs = this.bill.costIs(whole);
    return {
      calls: requests,
      errors: this.of("model.error"),
      denied: this.denied,
      lost: this.lost,
      unmetered,
      tokens: this.bill.tokens.counts,
      by_source: this.bill.bySource,
      by_model: this.bill.byModel(),
      cost_usd: this.bill.costUsd(costIs),
      cost_is: costIs,
    };
  }
}

export const TOTALS = ["calls", "errors", "denied", "lost", "unmetered", "tokens", "by_source", "by_model", "cost_usd", "cost_is"];

/** The first of `names` whose member differs; null where none does. */
export const differing = (said, found, names) => names.find((name) => !same(said[name], found[name])) ?? null;
