// Section 9: the proof of one event.

import { Fail, Malformed } from "./checks.mjs";
import { rightEvent } from "./events.mjs";
import { noteOfText, noteSignedBy } from "./notes.mjs";
import { documentOf } from "./canonical.mjs";
import { exactly, isDocket, isPair, isString, oneOf } from "./shapes.mjs";
import { rightProof } from "./tree.mjs";

/** O-1 and O-2. */
export async function proofOfOneEvent(p) {
  const { value: proof, withheld } = documentOf(p.given.proof, "proof.form");
  const whole = exactly({
    format: oneOf("docket-proof/1"), docket: isDocket, checkpoint: isString, event: isPair, start: isPair,
  });
  p.need("proof.form", whole(proof), "a member is missing, of another shape, or too many");
  p.proof = proof;
  p.withheld = withheld;
  const start = proof.start.event;
  const right = rightEvent(start, "session.start") && start.data.docket === proof.docket;
  p.need("proof.event", right && rightEvent(proof.event.event, null));
  let note;
  try {
    note = noteOfText(proof.checkpoint);
  } catch (error) {
    if (!(error instanceof Malformed)) throw error;
    throw new Fail("proof.inclusion", error.message);
  }
  const inside = rightProof(proof.start, note.size, note.root) && rightProof(proof.event, note.size, note.root);
  p.need("proof.inclusion", inside);
  const vouched = note.origin === `docket/${proof.docket}` && (await noteSignedBy(note, start.data.run_key));
  p.need("proof.checkpoint", vouched);
  p.proofRoot = note.root;
}
