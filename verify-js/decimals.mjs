// Section 1, C-8: decimals. An amount is a BigInt of 1e-12 USD; nothing is ever rounded.

const DECIMAL = /^(0|-?[1-9][0-9]{0,14}(\.[0-9]{0,11}[1-9])?|-?0\.[0-9]{0,11}[1-9])$/;
export const isAmount = (v) => typeof v === "string" && v[0] !== "-" && DECIMAL.test(v);
export const isPrice = (v) => isAmount(v) && (v.split(".")[1] ?? "").length <= 6;

const PICO = 10n ** 12n;
export const AMOUNT_LIMIT = 10n ** 15n * PICO; // what an amount is below: it has at most 15 whole digits

let lastAmount = ""; // a cost is read where it is judged, and again where it is summed
let lastPico = 0n;

export function picoOf(amount) {
  if (amount === lastAmount) return lastPico;
  const dot = amount.indexOf(".");
  lastPico =
    dot < 0 ? BigInt(amount) * PICO : BigInt(amount.slice(0, dot) + amount.slice(dot + 1).padEnd(12, "0"));
  lastAmount = amount;
  return lastPico;
}

export function amountOf(pico) {
  const fraction = (pico % PICO).toString().padStart(12, "0").replace(/0+$/, "");
  return `${pico / PICO}${fraction === "" ? "" : `.${fraction}`}`;
}
