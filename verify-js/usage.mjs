// Section 5: the bill of a metered event; F-6: the prices that it used.

import { encode } from "./canonical.mjs";
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

const microCache = new Map();

/** Picodollars of priced items; null where one has no price (U-3). */
export function costOf(items) {
  let sum = 0n;
  for (const { quantity, unit_usd: unit, per } of items) {
    if (unit === undefined) return null;
    let pico = microCache.get(unit);
    if (pico === undefined) {
      pico = picoOf(unit);
      if (microCache.size < 1024) microCache.set(unit, pico);
    }
    sum += per === 1 ? BigInt(quantity) * pico : (BigInt(quantity) * pico) / 1_000_000n; // a price has six digits: exact
  }
  return sum;
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

export const priceKey = (row) => encode([row.provider, row.model, row.tier, row.kind, row.unit_usd, row.per]);

export const priceKeys = (provider, model, tier, usage) =>
  usage.items
    .filter((item) => item.unit_usd !== undefined)
    .map((item) => priceKey({ ...item, provider, model: item.model ?? model, tier: item.tier ?? tier }));
