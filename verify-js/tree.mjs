// Section 4, T-1: Merkle trees and proofs of inclusion.

import { fromHex, NODE, sha256hex } from "./hashing.mjs";

const innerNode = NODE ? Buffer.alloc(65) : new Uint8Array(65);
innerNode[0] = 1;

/** SHA-256(0x01 || left || right), hex in and out. */
function nodeHash(left, right) {
  if (NODE) {
    innerNode.write(left, 1, 32, "hex");
    innerNode.write(right, 33, 32, "hex");
    return sha256hex(innerNode);
  }
  innerNode.set(fromHex(left), 1);
  innerNode.set(fromHex(right), 33);
  return sha256hex(innerNode);
}

/** An RFC 9162 tree while it grows: the roots of its full subtrees (T-1). */
export class Tree {
  size = 0;
  #stack = [];

  push(leaf) {
    this.#stack.push(leaf);
    for (let n = this.size; n % 2 === 1; n = (n - 1) / 2) {
      const right = this.#stack.pop();
      this.#stack.push(nodeHash(this.#stack.pop(), right));
    }
    this.size += 1;
  }

  root() {
    if (this.size === 0) return sha256hex("");
    return this.#stack.reduceRight((right, left) => nodeHash(left, right));
  }
}

/** RFC 9162 section 2.1.3.2. */
function included(leaf, proof, root) {
  let fn = proof.index;
  let sn = proof.size - 1;
  if (fn > sn) return false;
  let hash = leaf;
  for (const sibling of proof.hashes) {
    if (sn === 0) return false;
    if (fn % 2 === 1 || fn === sn) {
      hash = nodeHash(sibling, hash);
      while (fn % 2 === 0 && fn !== 0) {
        fn /= 2;
        sn = Math.floor(sn / 2);
      }
    } else {
      hash = nodeHash(hash, sibling);
    }
    fn = Math.floor(fn / 2);
    sn = Math.floor(sn / 2);
  }
  return sn === 0 && hash === root;
}

/** Whether the proof beside an event leads to `root` over `size` events. */
export const rightProof = ({ event, proof }, size, root) =>
  proof.index === event.seq && proof.size === size && included(event.hash, proof, root);
