// Section 4, T-6: Ed25519.

import { NODE, nodeCrypto, toHex } from "./hashing.mjs";

const P25519 = 2n ** 255n - 19n;
const L25519 = 2n ** 252n + 27742317777372353535851937790883648493n;
const SMALL_ORDER_Y = new Set([
  0n, 1n, P25519 - 1n,
  0x7a03ac9277fdc74ec6cc392cfa53202a0f67100d760b3cba4fd83d3d706a17c7n,
  P25519 - 0x7a03ac9277fdc74ec6cc392cfa53202a0f67100d760b3cba4fd83d3d706a17c7n,
]);
const MAX_KEYS_KEPT = 64;
const keysKept = new Map();
const SPKI = NODE ? Buffer.from("302a300506032b6570032100", "hex") : null;

function littleEndian(bytes) {
  let n = 0n;
  for (let i = bytes.length - 1; i >= 0; i--) n = (n << 8n) | BigInt(bytes[i]);
  return n;
}

function soundPoint(bytes) {
  const y = littleEndian(bytes) & ((1n << 255n) - 1n);
  return y < P25519 && !SMALL_ORDER_Y.has(y);
}

/** Whether `signature` (64 bytes) by the public key (32 bytes) over `message` (bytes) holds. */
export async function signedBy(key, signature, message) {
  if (!soundPoint(key) || !soundPoint(signature.subarray(0, 32))) return false;
  if (littleEndian(signature.subarray(32)) >= L25519) return false;
  try {
    if (NODE) {
      const name = toHex(key);
      let known = keysKept.get(name);
      if (known === undefined) {
        known = nodeCrypto.createPublicKey({ key: Buffer.concat([SPKI, key]), format: "der", type: "spki" });
        if (keysKept.size < MAX_KEYS_KEPT) keysKept.set(name, known);
      }
      return nodeCrypto.verify(null, message, known, signature);
    }
    const imported = await crypto.subtle.importKey("raw", key, { name: "Ed25519" }, false, ["verify"]);
    return await crypto.subtle.verify({ name: "Ed25519" }, imported, signature, message);
  } catch (error) {
    if (error?.name === "NotSupportedError") throw error; // a browser without Ed25519 must not say "failed"
    return false;
  }
}
