package main

// Section 9: the proof of one event.

var proofShape = exactly(need("format", oneOf("docket-proof/1")), need("docket", isDocket), need("checkpoint", isString), need("event", isPair), need("start", isPair))

func (p *procedure) ofProof() {
	ids := checkIDs[47:51]
	if p.input.proof == nil {
		p.skip("needs a proof", ids...)
		return
	}
	var doc Value
	var note *Note
	var event *Event
	p.check(ids[0], func() (err error) {
		if doc, err = document(p.input.proof); err != nil {
			return err
		}
		p.proof = &doc
		return holds(proofShape(&doc), "not exactly the members of a proof")()
	})
	p.check(ids[1], func() (err error) {
		if p.start, err = quotedEvent(doc.At("start", "event"), "session.start", doc.Get("docket").Text()); err != nil {
			return err
		}
		event, err = quotedEvent(doc.At("event", "event"), "", "")
		return err
	})
	p.check(ids[2], func() (err error) {
		if note, err = readNote(doc.Get("checkpoint").Text()); err != nil {
			return err
		}
		right := included(event.Hash, note.root, doc.At("event", "proof"), event.Seq, note.size) &&
			included(p.start.Hash, note.root, doc.At("start", "proof"), p.start.Seq, note.size)
		return holds(right, "the event or the start is not in the checkpoint's tree")()
	})
	p.check(ids[3], func() error {
		right := note.origin == originOf(doc.Get("docket").Text()) && note.signedBy(bytesOf(p.start.Data.Get("run_key")))
		return holds(right, "the checkpoint is of another docket or not signed by the start's run key")()
	})
}
