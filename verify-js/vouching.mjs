// Section 7, R-12 and R-13, and P-6: who vouches.

import { encode } from "./canonical.mjs";
import { Fail } from "./checks.mjs";
import { encoder, fromHex } from "./hashing.mjs";
import { signedBy } from "./signatures.mjs";

function endorsementMessage(data) {
  const { docket, policy, prices, run_key, session } = data;
  return encoder.encode(
    `docket-endorse/1\u0000${encode({ continues: data.continues ?? null, docket, policy, prices, run_key, session })}`,
  );
}

/** Whether the endorsement of a start's data holds. */
export const endorses = (data) =>
  signedBy(fromHex(data.endorsement.key), fromHex(data.endorsement.value), endorsementMessage(data));

/** once a start is endorsed, every later one is, by the same key. */
export async function endorsements(p) {
  const { starts } = p;
  const first = starts.findIndex((data) => data.endorsement !== undefined);
  if (first < 0) return;
  for (const data of starts.slice(first)) {
    const sound = data.endorsement?.key === starts[first].endorsement.key && (await endorses(data));
    if (!sound) throw new Fail("endorsement", `session ${data.session}`);
  }
  p.pass("endorsement");
}

/** */
export async function signedByRoles(p) {
  const { signatures } = p.receipt;
  const last = p.starts.at(-1);
  const holds = ({ role, key, value }) =>
    signedBy(fromHex(key), fromHex(value), encoder.encode(`docket-receipt/1\u0000${role}\u0000${p.signedText}`));
  const [run, operator] = signatures;
  p.need("signature.run", run.key === last.run_key && (await holds(run)));
  if ((operator !== undefined) !== (last.endorsement !== undefined)) {
    throw new Fail("signature.operator", "an operator signature without an endorsement, or the reverse");
  }
  if (operator === undefined) return;
  p.need("signature.operator", operator.key === last.endorsement.key && (await holds(operator)));
}

/** P-6. */
export function pinnedValues(p) {
  const last = p.starts.at(-1);
  const root = p.receipt?.ledger.root ?? p.proofRoot ?? p.ledger?.tree.root();
  const found = { run_key: last.run_key, root, operator: last.endorsement?.key };
  for (const [name, wanted] of Object.entries(p.pins)) {
    if (wanted !== undefined) p.need(`pin.${name}`, found[name] === wanted, `it is ${found[name] ?? "nobody's"}`);
  }
}
