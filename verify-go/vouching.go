package main

import (
	"errors"
	"fmt"
)

// Section 7, R-12 and R-13, and P-6: who vouches.

func (p *procedure) startEvents() []*Event {
	switch {
	case p.receipt != nil:
		return p.receipt.starts
	case p.proof != nil:
		return []*Event{p.start}
	}
	var starts []*Event
	if p.ledger != nil {
		for _, session := range p.ledger.sessions {
			starts = append(starts, session.start)
		}
	}
	return starts
}

func (p *procedure) vouching() {
	if p.failed {
		return
	}
	starts := p.startEvents()
	known := false
	for _, start := range starts {
		known = known || start.Data.Get("endorsement") != nil
	}
	if !known {
		p.skip("no start is endorsed", "endorsement")
	} else {
		p.check("endorsement", func() error { return endorsements(starts) })
	}
	if p.receipt == nil || p.receipt.recovered() {
		p.skip("needs a complete receipt", "signature.run", "signature.operator")
		return
	}
	last := starts[len(starts)-1].Data
	p.check("signature.run", func() error {
		return holds(p.receipt.signature(0, last.Get("run_key")), "the run signature is not by the run key of the last start, or does not hold")()
	})
	two := len(p.receipt.doc.Get("signatures").Items) == 2
	if !p.failed && !two && last.Get("endorsement") == nil {
		p.skip("the last start is not endorsed", "signature.operator")
		return
	}
	p.check("signature.operator", func() error {
		if two != (last.Get("endorsement") != nil) {
			return errors.New("an operator signature without an endorsement, or an endorsement without a signature")
		}
		return holds(p.receipt.signature(1, last.At("endorsement", "key")), "the operator signature is not by the endorsing key, or does not hold")()
	})
}

// endorsed judges one start's endorsement.
func endorsed(start *Event) bool {
	d := start.Data
	message := []byte("docket-endorse/1\x00")
	message = append(message, `{"continues":`...)
	if continues := d.Get("continues"); continues != nil {
		message = append(message, continues.Raw...)
	} else {
		message = append(message, "null"...)
	}
	for _, name := range []string{"docket", "policy", "prices", "run_key", "session"} {
		message = append(append(message, `,"`+name+`":`...), d.Get(name).Raw...)
	}
	message = append(message, '}')
	e := d.Get("endorsement")
	return signed(bytesOf(e.Get("key")), message, bytesOf(e.Get("value")))
}

// endorsements judges all starts; it holds where none is endorsed.
func endorsements(starts []*Event) error {
	key := ""
	for i, start := range starts {
		e := start.Data.Get("endorsement")
		switch {
		case e == nil && key == "":
		case e == nil:
			return fmt.Errorf("session %d is not endorsed, an earlier one is", i)
		case key != "" && e.Get("key").Text() != key:
			return fmt.Errorf("session %d is endorsed by another key", i)
		case !endorsed(start):
			return fmt.Errorf("the endorsement of session %d does not hold", i)
		default:
			key = e.Get("key").Text()
		}
	}
	return nil
}

// signature judges the signature number i, which must be by key.
func (r *Receipt) signature(i int, key *Value) bool {
	s := &r.doc.Get("signatures").Items[i]
	message := append([]byte("docket-receipt/1\x00"+s.Get("role").Text()+"\x00"), appendSealed(nil, &r.doc, "signatures")...)
	return string(s.Get("key").Raw) == string(key.Raw) && signed(bytesOf(s.Get("key")), message, bytesOf(s.Get("value")))
}

func (p *procedure) pinned() {
	if p.failed {
		return
	}
	starts := p.startEvents()
	var last *Value
	if len(starts) > 0 {
		last = starts[len(starts)-1].Data
	}
	text := func(v *Value) string {
		if v == nil {
			return ""
		}
		return v.Text()
	}
	p.pin("pin.run_key", "no run key was pinned", p.pins.runKey, text(last.At("run_key")))
	p.pin("pin.root", "no root was pinned", p.pins.root, p.rootSaid())
	p.pin("pin.operator", "no operator key was pinned", p.pins.operator, text(last.At("endorsement", "key")))
}

func (p *procedure) pin(id, none, pinned, have string) {
	if pinned == "" {
		p.skip(none, id)
		return
	}
	p.check(id, holds(pinned == have, "not the pinned one"))
}

func (p *procedure) rootSaid() string {
	switch {
	case p.receipt != nil:
		return p.receipt.doc.At("ledger", "root").Text()
	case p.proof != nil:
		note, err := readNote(p.proof.Get("checkpoint").Text())
		if err != nil {
			return ""
		}
		return hexOf(note.root)
	}
	return hexOf(p.ledger.tree.root())
}
