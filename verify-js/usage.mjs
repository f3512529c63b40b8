// Section 5: the bill of a metered event; F-6: the prices that it used.

import { isAmount, isPrice, picoOf } from "./decimals.mjs";
import { isName, isNatural, isObject, isString, listOf, optional } from "./shapes.mjs";

const isServed = optional(isString);
const isItem = (item) =>
  isObject(item) &&
  isName(item.kind) &&
  isNatural(item.quantity) &&
  item.quantity <= 1_000_000_000 &&
  isServed(item.model) &&
  isServed(item.tier) &&
  (item.unit_usd === undefined) === (item.per === undefined) &&
  (item.unit_usd === undefined || (isPrice(item.unit_usd) && (item.per === 1 || item.per === 1_000_000)));
const isItems = listOf(isItem, 64);
const isNamed = optional(listOf(isName, 16, 1));
const isStated = optional(isAmount);

const MAX_RATES = 1024;
const rates = { 1: new Map(), 1000000: new Map() };

/** Picodollars of one piece: exact, since a price has at most six fractional digits. A number where that is safe. */
function rateOf(unit, per) {
  let rate = rates[per].get(unit);
  if (rate === undefined) {
    rate = per === 1 ? picoOf(unit) : picoOf(unit) / 1_000_000n;
    if (rate <= BigInt(Number.MAX_SAFE_INTEGER)) rate = Number(rate);
    if (rates[per].size < MAX_RATES) rates[per].set(unit, rate);
  }
  return rate;
}

/** Picodollars of priced items; null where one has no price (U-3). */
export function costOf(items) {
  let sum = 0n;
  let small = 0; // what still fits a number
  for (const { quantity, unit_usd: unit, per } of items) {
    if (unit === undefined) return null;
    const rate = rateOf(unit, per);
    const more = typeof rate === "number" ? small + rate * quantity : NaN;
    if (Number.isSafeInteger(more)) small = more; // so was the product, which is no greater
    else sum += BigInt(rate) * BigInt(quantity);
  }
  return sum + BigInt(small);
}

/** Whether `said` is the amount of `cost`, absent exactly where that is null. */
const saysCost = (said, cost) =>
  cost === null ? said === undefined : isAmount(said) && picoOf(said) === cost;

/** Why a bill is not right (U-2 to U-4, U-6); null where it is. */
export function usageFault(usage) {
  if (!["reported", "partial", "none"].includes(usage.source)) return "source";
  if (!isItems(usage.items) || (usage.source === "none" && usage.items.length > 0)) return "items";
  if (!saysCost(usage.cost_usd, usage.source === "none" ? null : costOf(usage.items))) return "cost_usd";
  if (usage.inconsistent !== undefined && usage.inconsistent !== true) return "inconsistent";
  if (!isNamed(usage.unread) || (usage.unread !== undefined && usage.source === "reported")) return "unread";
  if (!isNamed(usage.assumed)) return "assumed";
  if (!isStated(usage.stated_usd)) return "stated_usd";
  const guess = usage.estimate;
  if (guess === undefined) return null;
  if (usage.source === "reported" || !isObject(guess) || !isItems(guess.items) || !isString(guess.method)) return "estimate";
  return saysCost(guess.cost_usd, costOf(guess.items)) ? null : "cost_usd of the estimate";
}

const keyOf = (provider, model, tier, { kind, unit_usd: unit, per }) =>
  `${provider.length},${model.length},${tier.length},${kind.length}:${provider}${model}${tier}${kind}${unit}/${per}`;

/** A used price as one string, whatever characters are in its members. */
export const priceKey = (row) => keyOf(row.provider, row.model, row.tier, row);

export function priceKeys(provider, model, tier, usage) {
  const keys = [];
  for (const item of usage.items) {
    if (item.unit_usd !== undefined) keys.push(keyOf(provider, item.model ?? model, item.tier ?? tier, item));
  }
  return keys;
}
