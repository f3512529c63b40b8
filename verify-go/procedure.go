package main

import (
	"errors"
	"fmt"
	"sort"
)

// Section 10, P-2 to P-10: the procedure, its verdict, and what a person is told beside it.

var checkIDs = []string{
	"receipt.form", "ledger.form", "ledger.seq", "ledger.prev", "ledger.hash", "ledger.time", "ledger.sessions", "ledger.calls",
	"ledger.usage", "ledger.end", "checkpoints.form", "checkpoints.order", "checkpoints.size", "checkpoints.root",
	"checkpoints.signature", "checkpoints.lost", "checkpoints.last", "binding.size", "binding.root", "binding.head", "binding.tail", "calls.open",
	"starts.event", "starts.proof", "starts.sessions", "end.event", "end.proof", "end.figures", "usage.rows", "usage.root",
	"totals.rows", "totals.bindings", "policy.digest", "caps.limits", "prices.tables", "prices.rows", "ops.evidence", "against.starts",
	"against.usage", "against.totals", "against.prices", "against.latency", "against.activity", "checkpoint.form",
	"checkpoint.binding", "checkpoint.signature", "checkpoint.lost", "proof.form", "proof.event", "proof.inclusion", "proof.checkpoint",
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
	if r.recovered() {
		if p.ledger != nil {
			return "recovered"
		}
		return "incomplete"
	}
	e := r.evidence()
	open := !isWhole(e) || e.Get("intact").Kind != 't' || r.doc.At("totals", "lost").Num > 0 || r.end == nil ||
		len(r.doc.At("session", "survivors").Items) > 0
	for i := range r.starts[1:] {
		open = open || !r.closed(i) || !p.linked()
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

// linked tells whether what vouched for each session vouches for the next: one operator key endorses every start (P-7).
func (p *procedure) linked() bool {
	starts := p.startEvents()
	for _, start := range starts {
		if len(starts) > 1 && start.Data.Get("endorsement") == nil {
			return false
		}
	}
	return true
}

// say makes the remarks of P-10.
func (p *procedure) say() {
	starts := p.startEvents()
	vouching := "nobody vouches"
	if len(starts) > 0 && (p.receipt == nil || !p.receipt.recovered()) {
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
	if !p.linked() {
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
