package main

import (
	"bufio"
	"errors"
	"fmt"
	"sort"
)

// Section 10: the procedure.

var checkIDs = []string{
	"receipt.form", "ledger.form", "ledger.seq", "ledger.prev", "ledger.hash", "ledger.time", "ledger.sessions", "ledger.calls",
	"ledger.usage", "ledger.end", "checkpoints.form", "checkpoints.order", "checkpoints.size", "checkpoints.root",
	"checkpoints.signature", "checkpoints.last", "binding.size", "binding.root", "binding.head", "binding.tail", "calls.open",
	"starts.event", "starts.proof", "starts.sessions", "end.event", "end.proof", "end.figures", "usage.rows", "usage.root",
	"totals.rows", "totals.bindings", "policy.digest", "prices.tables", "prices.rows", "ops.evidence", "against.starts",
	"against.usage", "against.totals", "against.prices", "against.latency", "against.activity", "checkpoint.form",
	"checkpoint.binding", "checkpoint.signature", "proof.form", "proof.event", "proof.inclusion", "proof.checkpoint",
	"endorsement", "signature.run", "signature.operator", "pin.run_key", "pin.root", "pin.operator",
}

// Check is one line of an answer.
type Check struct {
	ID     string `json:"id"`
	Status string `json:"status"`
	Detail string `json:"detail"`
}

// Answer is the outcome of a verification.
type Answer struct {
	Path    string   `json:"path,omitempty"`
	Verdict string   `json:"verdict"`
	Checks  []Check  `json:"checks"`
	Remarks []string `json:"remarks"`
}

// Pins are what the caller knows beforehand; empty means not pinned.
type Pins struct{ runKey, root, operator string }

// procedure runs checks in their order; after the first failure every check is a skip.
type procedure struct {
	status map[string]Check
	failed bool
	input  *Input
	pins   Pins

	receipt  *Receipt
	proof    *Value
	ledger   *Ledger
	notes    *Checkpoints
	used     *Used // prices of the ledger
	tail     error
	short    bool // something follows what the receipt binds
	resumed  bool // continued
	start    *Event
	remarks  []string
	rowBills *Bills
	rowUsed  *Used
}

func (p *procedure) set(id, status, detail string) {
	p.status[id] = Check{id, status, detail}
	p.failed = p.failed || status == "fail"
}

// check runs one check, unless one failed before.
func (p *procedure) check(id string, run func() error) {
	if p.failed {
		return
	}
	if err := run(); err != nil {
		p.set(id, "fail", err.Error())
	} else {
		p.set(id, "pass", "")
	}
}

func (p *procedure) skip(reason string, ids ...string) {
	if p.failed {
		return
	}
	for _, id := range ids {
		p.set(id, "skip", reason)
	}
}

func holds(right bool, says string) func() error {
	return func() error {
		if right {
			return nil
		}
		return errors.New(says)
	}
}

// verify judges what was given.
func verify(input *Input, pins Pins) Answer {
	p := &procedure{status: map[string]Check{}, input: input, pins: pins}
	if input.unreadable != "" {
		p.remark(input.unreadable)
		return p.answer("unreadable")
	}
	if err := p.run(); err != nil {
		p.remark(err.Error())
		return p.answer("unreadable")
	}
	return p.answer(p.verdict())
}

func (p *procedure) run() error {
	if p.input.receipt != nil {
		p.check("receipt.form", func() (err error) {
			p.receipt, err = readReceipt(p.input.receipt)
			return err
		})
	} else {
		p.skip("needs a receipt", "receipt.form")
	}
	if p.input.ledger != nil && !p.failed {
		if err := p.readLedger(); err != nil {
			return err
		}
	}
	p.bindings()
	p.ofReceipt()
	p.against()
	p.checkpoint()
	p.ofProof()
	p.vouching()
	p.pinned()
	return nil
}

// ── the ledger and its checkpoints ──

func (p *procedure) readLedger() error {
	named := map[string]bool{}
	limit, docket := int64(-1), ""
	if p.receipt != nil {
		limit, docket = p.receipt.size, p.receipt.docket()
		named = p.receipt.priceKeys()
	}
	p.used = newUsed(named)
	p.ledger = newLedger(p.used.add)
	if p.input.notes != nil {
		p.notes = &Checkpoints{reader: &NoteReader{in: bufio.NewReaderSize(p.input.notes, 4*maxNoteLine)}, limit: limit, docket: docket}
		p.notes.advance()
	}
	lines := &Lines{bufio.NewReaderSize(p.input.ledger, maxLine+1)}
	failure, err := p.readEvents(lines, limit)
	if err != nil {
		return err
	}
	if failure != nil {
		p.set(failure.check, "fail", failure.detail)
		return nil
	}
	for _, id := range checkIDs[1:10] {
		p.set(id, "pass", "")
	}
	if p.notes != nil {
		p.notes.end(p.ledger)
	}
	p.judgedNotes()
	return nil
}

func (p *procedure) readEvents(lines *Lines, limit int64) (*Failure, error) {
	for limit < 0 || p.ledger.tree.size < limit {
		line, whole, err := lines.next()
		if err == bufio.ErrBufferFull {
			return &Failure{"ledger.form", fmt.Sprintf("event %d: line longer than 1 MiB", p.ledger.tree.size)}, nil
		}
		if err != nil {
			return nil, err
		}
		if !whole {
			p.ledger.fragment = len(line) > 0
			return nil, nil
		}
		if failure := p.ledger.add(line); failure != nil {
			return failure, nil
		}
		if p.notes != nil {
			p.notes.reached(p.ledger)
		}
	}
	p.readTail(lines)
	return nil, nil
}

// readTail looks at what follows the events that the receipt binds (B-2).
func (p *procedure) readTail(lines *Lines) {
	line, whole, err := lines.next()
	if err == nil && !whole && len(line) == 0 {
		return
	}
	p.short = true
	if err != nil || !whole {
		p.tail = errors.New("a fragment follows")
		return
	}
	e, err := readLine(new(parser), line)
	switch {
	case err != nil:
		p.tail = err
	case e.Type != "session.start":
		p.tail = errors.New("an event follows that is no session.start")
	default:
		if failure := p.ledger.place(e); failure != nil {
			p.tail = errors.New(failure.detail)
		} else if p.tail = p.ledger.session(e); p.tail == nil {
			p.tail = endorsements([]*Event{p.ledger.current().start, e})
		}
	}
	p.resumed = p.tail == nil
}

func (p *procedure) judgedNotes() {
	ids := checkIDs[10:15]
	switch {
	case p.notes == nil:
		p.skip("needs a ledger with its checkpoints", ids...)
	case !p.notes.judged:
		p.skip("no whole note to judge", ids...)
	case p.notes.failure != nil:
		p.set(p.notes.failure.check, "fail", p.notes.failure.detail)
	default:
		for _, id := range ids {
			p.set(id, "pass", "")
		}
	}
}

func (p *procedure) bindings() {
	if p.input.ledger == nil {
		p.skip("needs a ledger", checkIDs[1:10]...)
		p.skip("needs a ledger with its checkpoints", checkIDs[10:16]...)
		p.skip("needs a ledger", checkIDs[16:21]...)
		return
	}
	if p.failed {
		return
	}
	r, l := p.receipt, p.ledger
	if r == nil {
		p.skip("needs a receipt", checkIDs[15:20]...)
	} else {
		if p.notes == nil {
			p.skip("needs a receipt and a ledger with its checkpoints", "checkpoints.last")
		} else {
			p.check("checkpoints.last", p.lastNote)
		}
		p.check("binding.size", holds(l.tree.size == r.size, fmt.Sprintf("the receipt binds %d events, the ledger has %d", r.size, l.tree.size)))
		p.check("binding.root", holds(l.tree.root() == r.root, "the ledger has another root"))
		p.check("binding.head", holds(hexOf(l.head) == r.doc.At("ledger", "head").Text(), "the ledger has another head"))
		p.check("binding.tail", func() error {
			if r.doc.Get("end") == nil {
				return nil
			}
			return p.tail
		})
	}
	p.check("calls.open", p.openCalls)
}

func (p *procedure) lastNote() error {
	last := ""
	if p.notes.last != nil {
		last = p.notes.last.raw
	}
	if last != p.receipt.checkpoint() {
		return errors.New("the last note is not the one that the receipt quotes")
	}
	if p.receipt.doc.Get("end") != nil && !p.resumed && p.notes.followed() {
		return errors.New("something follows the last note")
	}
	return nil
}

func (p *procedure) openCalls() error {
	cutOff := p.receipt == nil && (p.ledger.gaps == nil || p.ledger.fragment)
	if cutOff || p.receipt != nil && !p.receipt.complete() {
		return nil
	}
	gaps := p.ledger.gaps
	if p.receipt != nil {
		gaps = p.receipt.evidence().Get("gaps")
	}
	p.ledger.calls.disclose(gaps)
	if !p.ledger.calls.explained() {
		return errors.New("a call lacks its number, request or end, and no loss was disclosed")
	}
	return nil
}

// ── the receipt ──

func (p *procedure) ofReceipt() {
	r := p.receipt
	if r == nil {
		p.skip("needs a receipt", checkIDs[21:35]...)
		return
	}
	p.check("starts.event", r.startsEvent)
	p.check("starts.proof", r.startsProof)
	p.check("starts.sessions", r.startsSessions)
	if r.doc.Get("end") == nil {
		p.skip("needs a receipt with an end", "end.event", "end.proof", "end.figures")
	} else {
		p.check("end.event", r.endEvent)
		p.check("end.proof", r.endProof)
		p.check("end.figures", r.endFigures)
	}
	if r.rows() == nil {
		p.skip("needs a receipt with rows: above 10,000 they stand in the ledger only", "usage.rows", "usage.root", "totals.rows")
	} else {
		p.check("usage.rows", p.usageRows)
		p.check("usage.root", func() error {
			return holds(hexOf(p.rowBills.tree.root()) == r.doc.At("usage", "root").Text(), "the rows give another root")()
		})
		p.check("totals.rows", func() error { return r.totalsRows(p.rowBills) })
	}
	p.check("totals.bindings", r.bindings)
	p.check("policy.digest", r.policyDigest)
	p.check("prices.tables", r.priceTables)
	p.check("prices.rows", p.priceRows)
	if !p.failed && r.rows() == nil {
		p.set("prices.rows", "skip", "needs a receipt with rows")
	}
	p.check("ops.evidence", r.evidenceRule)
}

func (p *procedure) usageRows() (err error) {
	p.rowUsed = newUsed(p.receipt.priceKeys())
	p.rowBills, err = p.receipt.usageRows(p.rowUsed.add)
	return err
}

func (p *procedure) priceRows() error {
	if !p.receipt.pricesSorted() {
		return errors.New("prices.rows is not sorted")
	}
	if p.rowUsed != nil && !p.rowUsed.equal() {
		return errors.New("prices.rows is not the set of prices that the rows used")
	}
	return nil
}

func (p *procedure) against() {
	if p.receipt == nil || p.ledger == nil {
		p.skip("needs a receipt and a ledger", checkIDs[35:41]...)
		return
	}
	d := &p.receipt.doc
	named := func(what, name string) error {
		if name == "" {
			return nil
		}
		return fmt.Errorf("%s%s is not what the ledger gives", what, name)
	}
	p.check("against.starts", p.againstStarts)
	p.check("against.usage", func() error { return named("usage.", p.ledger.figures.wrongTree(d.Get("usage"))) })
	p.check("against.totals", func() error {
		return named("totals.", p.ledger.figures.wrongTotals(d.Get("totals"), p.receipt.evidence()))
	})
	p.check("against.prices", holds(p.used.equal(), "prices.rows is not the set of prices that the ledger used"))
	p.check("against.latency", func() error { return named("latency.", p.ledger.figures.wrongLatency(d.Get("latency"))) })
	p.check("against.activity", func() error { return named("", p.ledger.figures.wrongActivity(d)) })
}

func (p *procedure) againstStarts() error {
	r := p.receipt
	if len(p.ledger.sessions) != len(r.starts) {
		return errors.New("not as many starts as the ledger has")
	}
	for i, session := range p.ledger.sessions {
		if session.start.Hash != r.starts[i].Hash {
			return fmt.Errorf("start %d is another than the ledger's", i)
		}
		if i == len(p.ledger.sessions)-1 {
			continue
		}
		if (session.end == nil) != (r.ends[i] == nil) || session.end != nil && session.end.Hash != r.ends[i].Hash {
			return fmt.Errorf("the end of session %d is another than the ledger's", i)
		}
		if p.notes != nil {
			have, note := r.doc.Get("starts").Items[i].Get("checkpoint"), session.note
			if (have == nil) != (note == nil) || note != nil && have.Text() != note.raw {
				return fmt.Errorf("the checkpoint of session %d is not its last", i)
			}
		}
	}
	return nil
}

func (p *procedure) checkpoint() {
	ids := checkIDs[41:44]
	if p.receipt == nil || p.receipt.checkpoint() == "" {
		p.skip("needs a receipt with a checkpoint", ids...)
		return
	}
	r := p.receipt
	var note *Note
	p.check(ids[0], func() (err error) {
		note, err = readNote(r.checkpoint())
		return err
	})
	p.check(ids[1], func() error {
		right := note.origin == originOf(r.docket()) && note.size >= 1 && note.size <= r.size &&
			(r.doc.Get("end") == nil || note.size == r.size) && (note.size < r.size || note.root == r.root)
		return holds(right, "the checkpoint is of another docket, size or root")()
	})
	p.check(ids[2], func() error {
		key := []byte(nil)
		for _, start := range r.starts {
			if start.Seq < note.size {
				key = bytesOf(start.Data.Get("run_key"))
			}
		}
		return holds(note.signedBy(key), "the checkpoint is not signed by the run key of its session")()
	})
}

// ── a proof ──

const maxProof = 4 << 20

var proofShape = exactly(need("format", oneOf("docket-proof/1")), need("docket", isDocket), need("checkpoint", isString), need("event", isPair), need("start", isPair))

func (p *procedure) ofProof() {
	ids := checkIDs[44:48]
	if p.input.proof == nil {
		p.skip("needs a proof", ids...)
		return
	}
	var doc Value
	var note *Note
	var event *Event
	p.check(ids[0], func() (err error) {
		if doc, err = document(p.input.proof, maxProof); err != nil {
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

// ── who vouches ──

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
	if p.receipt == nil || !p.receipt.complete() {
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

// ── verdict and answer ──

func (p *procedure) verdict() string {
	switch {
	case p.failed:
		return "failed"
	case p.proof != nil:
		return "verified"
	case p.receipt != nil:
		return p.ofKind()
	case p.ledger.last == "session.end" && !p.ledger.fragment:
		return "unsealed"
	}
	return "unfinished"
}

func (p *procedure) ofKind() string {
	r := p.receipt
	if !r.complete() {
		if p.ledger != nil {
			return "recovered"
		}
		return "incomplete"
	}
	e := r.evidence()
	open := !isWhole(e) || e.Get("intact").Kind != 't' || r.doc.At("totals", "lost").Num > 0 || r.end == nil ||
		len(r.doc.At("session", "survivors").Items) > 0
	for i := range r.starts[1:] {
		open = open || !r.closed(i)
	}
	if open {
		return "incomplete"
	}
	return "verified"
}

func (p *procedure) remark(text string) { p.remarks = append(p.remarks, text) }

func (p *procedure) answer(verdict string) Answer {
	checks := make([]Check, len(checkIDs))
	for i, id := range checkIDs {
		if done, ok := p.status[id]; ok && verdict != "unreadable" {
			checks[i] = done
			continue
		}
		checks[i] = Check{id, "skip", "an earlier check failed"}
		if verdict == "unreadable" {
			checks[i].Detail = "nothing to read"
		}
	}
	if !p.failed && verdict != "unreadable" {
		p.say()
	}
	return Answer{Verdict: verdict, Checks: checks, Remarks: append([]string{}, p.remarks...)}
}

// say makes the remarks of P-10.
func (p *procedure) say() {
	starts := p.startEvents()
	endorsers, vouching := 0, "nobody vouches"
	for _, start := range starts {
		if start.Data.Get("endorsement") != nil {
			endorsers++
		}
	}
	if len(starts) > 0 && (p.receipt == nil || p.receipt.complete()) {
		last := starts[len(starts)-1].Data
		vouching = "vouched for by the run key " + last.Get("run_key").Text()
		if e := last.Get("endorsement"); e != nil {
			vouching += " and the operator key " + e.Get("key").Text()
		}
	}
	p.remark(vouching)
	if p.pins == (Pins{}) {
		p.remark("nothing was pinned: consistent, not authentic")
	}
	if len(starts) > 1 && endorsers < len(starts) {
		p.remark("sessions not linked")
	}
	if p.receipt != nil && p.receipt.doc.At("session", "drill").Kind == 't' || p.receipt == nil && p.ledger != nil && p.ledger.figures.faults > 0 {
		p.remark("this was a drill: faults were injected on purpose")
	}
	if p.resumed {
		p.remark("continued: a later session follows what this receipt binds")
	} else if p.short {
		p.remark("beyond the receipt: bytes follow what it binds")
	}
	if p.ledger != nil {
		if p.ledger.fragment {
			p.remark("a torn last line was ignored")
		}
		p.list("unknown types: ", p.ledger.unknown)
		p.list("withheld members: ", p.ledger.withheld)
	}
	if p.receipt != nil {
		found := map[string]bool{}
		withheldNames(&p.receipt.doc, found)
		p.list("withheld members of the receipt: ", found)
		if name := unnamed(&p.receipt.doc, receiptFields); name != "" && name != "private" {
			p.remark("unknown member of the receipt: " + name)
		}
	}
}

func (p *procedure) list(title string, found map[string]bool) {
	if len(found) == 0 {
		return
	}
	names := make([]string, 0, len(found))
	for name := range found {
		names = append(names, name)
	}
	sort.Strings(names)
	for i, name := range names {
		if i > 0 {
			title += ", "
		}
		title += fmt.Sprintf("%q", name)
	}
	p.remark(title)
}
