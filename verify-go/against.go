package main

import (
	"bufio"
	"errors"
	"fmt"
)

// Section 8: ledger and receipt together.

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
	ids := checkIDs[10:16]
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
		p.skip("needs a ledger with its checkpoints", checkIDs[10:17]...)
		p.skip("needs a ledger", checkIDs[17:22]...)
		return
	}
	if p.failed {
		return
	}
	r, l := p.receipt, p.ledger
	if r == nil {
		p.skip("needs a receipt", checkIDs[16:21]...)
	} else {
		if r.kind() == "from-memory" {
			p.skip("made where the file could not be written", "checkpoints.last")
		} else if p.notes == nil {
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
	if cutOff || p.receipt != nil && p.receipt.recovered() {
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

func (p *procedure) against() {
	if p.receipt == nil || p.ledger == nil {
		p.skip("needs a receipt and a ledger", checkIDs[37:43]...)
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

// wrongLatency compares the members that F-4 defines.
func (f *Figures) wrongLatency(latency *Value) string {
	for _, pair := range []struct {
		name    string
		samples *Samples
	}{{"total", &f.total}, {"first_byte", &f.firstByte}} {
		want, err := parse([]byte(pair.samples.json()))
		if err != nil {
			return pair.name
		}
		for _, name := range []string{"count", "p50", "p95", "p99", "max"} {
			have, wanted := latency.At(pair.name, name), want.Get(name)
			if (have == nil) != (wanted == nil) || have != nil && string(have.Raw) != string(wanted.Raw) {
				return pair.name + "." + name
			}
		}
	}
	return ""
}

// wrongActivity names the count of F-5 that is not what the events give.
func (f *Figures) wrongActivity(r *Value) string {
	hits := "0"
	if cache := r.Get("cache"); cache != nil {
		hits = string(cache.Get("hits").Raw)
	}
	if hits != number(f.cacheHits) {
		return "cache.hits"
	}
	survivors := "["
	for i, pid := range f.survivors {
		if i > 0 {
			survivors += ","
		}
		survivors += number(pid)
	}
	drill := "false"
	if f.faults > 0 {
		drill = "true"
	}
	if saved := r.At("cache", "saved_usd"); saved != nil && saved.Text() != f.saved.spell() {
		return "cache.saved_usd"
	}
	breach := r.At("session", "breach")
	lost := breach != nil && breach.Get("seq") == nil && f.breach == "" // its event is among the lost ones
	if (breach == nil) != (f.breach == "") && !lost {
		return "session.breach"
	}
	if f.breach != "" {
		want, _ := parse([]byte(f.breach))
		for i, name := range want.Names {
			if have := r.At("session", "breach", name); have == nil || string(have.Raw) != string(want.Items[i].Raw) {
				return "session.breach." + name
			}
		}
	}
	return differing([]said{
		{"session.elapsed_us", r.At("session", "elapsed_us"), number(f.elapsed)},
		{"session.orphans", r.At("session", "orphans"), number(f.orphans)},
		{"session.survivors", r.At("session", "survivors"), survivors + "]"},
		{"session.drill", r.At("session", "drill"), drill},
		{"session.sessions", r.At("session", "sessions"), number(f.sessions)},
		{"files.changes", r.At("files", "changes"), f.changes.json()},
		{"files.snapshots", r.At("files", "snapshots"), number(f.snapshots)},
		{"network.allowed", r.At("network", "allowed"), number(f.allowed)},
		{"network.denied", r.At("network", "denied"), number(f.refused)},
		{"network.forwarded", r.At("network", "forwarded"), f.forwarded.json()},
		{"network.unauthorized", r.At("network", "unauthorized"), number(f.unauthorized)},
		{"tools.calls", r.At("tools", "calls"), number(f.toolCalls)},
		{"tools.results", r.At("tools", "results"), number(f.toolResults)},
		{"resilience.breaker.open", r.At("resilience", "breaker", "open"), number(f.breakerOpen)},
		{"resilience.breaker.half-open", r.At("resilience", "breaker", "half-open"), number(f.breakerHalfOpen)},
		{"resilience.breaker.closed", r.At("resilience", "breaker", "closed"), number(f.breakerClosed)},
		{"resilience.clock_steps", r.At("resilience", "clock_steps"), number(f.clockSteps)},
		{"resilience.faults_injected", r.At("resilience", "faults_injected"), number(f.faults)},
		{"resilience.rate_limited", r.At("resilience", "rate_limited"), number(f.rateLimited)},
		{"resilience.denied_by_code", r.At("resilience", "denied_by_code"), f.deniedBy.json()},
		{"enforcement.violations", r.At("enforcement", "violations"), number(f.violations)},
	})
}
