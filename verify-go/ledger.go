package main

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
)

// Section 3: the ledger, event by event (P-3), in memory that does not grow with it.

// Failure is the first check that does not hold.
type Failure struct {
	check  string
	detail string
}

// Session is what is kept of a session.start and of what followed it.
type Session struct {
	start *Event
	end   *Event // the last session.end
	note  *Note  // the last checkpoint
}

func (s *Session) runKey() []byte { return bytesOf(s.start.Data.Get("run_key")) }

// Ledger is the state that the events so far left.
type Ledger struct {
	tree     Frontier
	head     digest
	elapsed  int64
	sessions []*Session
	calls    *Calls
	figures  *Figures
	last     string // type of the last event
	gaps     *Value // evidence of the last event, where it is a session.end
	fragment bool
	unknown  map[string]bool
	withheld map[string]bool
	parser   parser
	row      Row
}

func newLedger(used func([]byte)) *Ledger {
	genesis := hashPlain([]byte("docket-ledger/1"))
	return &Ledger{head: genesis, calls: newCalls(), figures: newFigures(used), unknown: map[string]bool{}, withheld: map[string]bool{}}
}

func (l *Ledger) current() *Session { return l.sessions[len(l.sessions)-1] }

// place judges an event's place: its number, links, hash and time.
func (l *Ledger) place(e *Event) *Failure {
	switch {
	case e.Seq != l.tree.size:
		return &Failure{"ledger.seq", fmt.Sprintf("event %d says seq %d", l.tree.size, e.Seq)}
	case e.Prev != l.head:
		return &Failure{"ledger.prev", fmt.Sprintf("event %d: prev is not the hash before it", e.Seq)}
	case e.sealedHash() != e.Hash:
		return &Failure{"ledger.hash", fmt.Sprintf("event %d does not give its hash", e.Seq)}
	case e.Elapsed < l.elapsed:
		return &Failure{"ledger.time", fmt.Sprintf("event %d: elapsed_us decreases", e.Seq)}
	}
	return nil
}

// session judges L-10.
func (l *Ledger) session(e *Event) error {
	if e.Type != "session.start" {
		if e.Seq == 0 {
			return errors.New("the first event is no session.start")
		}
		return nil
	}
	continues := e.Data.Get("continues")
	if e.int("session") != int64(len(l.sessions)) || len(l.sessions) >= maxSessions {
		return errors.New("not the next session")
	}
	if (continues == nil) != (e.Seq == 0) {
		return errors.New("continues stands where it must not, or is missing")
	}
	if continues == nil {
		return nil
	}
	if continues.Get("size").Num != e.Seq || digestOf(continues.Get("head")) != e.Prev || digestOf(continues.Get("root")) != l.tree.root() {
		return errors.New("continues is not where the ledger stands")
	}
	if string(e.Data.Get("docket").Raw) != string(l.sessions[0].start.Data.Get("docket").Raw) {
		return errors.New("another docket")
	}
	for _, earlier := range l.sessions {
		if string(earlier.start.Data.Get("run_key").Raw) == string(e.Data.Get("run_key").Raw) {
			return errors.New("a run key is used twice")
		}
	}
	return nil
}

// add judges one event and takes it (P-3).
func (l *Ledger) add(line []byte) *Failure {
	e, err := readLine(&l.parser, line)
	if err == nil && strings.HasPrefix(e.Type, "session.") { // these are kept
		e, err = readLine(new(parser), bytes.Clone(line))
	}
	if err != nil {
		return &Failure{"ledger.form", fmt.Sprintf("event %d: %v", l.tree.size, err)}
	}
	if failure := l.place(e); failure != nil {
		return failure
	}
	at := func(check string, err error) *Failure {
		return &Failure{check, fmt.Sprintf("event %d: %v", e.Seq, err)}
	}
	if err := l.session(e); err != nil {
		return at("ledger.sessions", err)
	}
	if err := l.calls.add(e); err != nil {
		return at("ledger.calls", err)
	}
	row, err := l.metered(e)
	if err != nil {
		return at("ledger.usage", err)
	}
	if e.Type == "session.end" {
		if name := l.figures.wrongTotals(e.Data.Get("totals"), e.Data.At("ops", "evidence")); name != "" {
			return at("ledger.end", fmt.Errorf("totals.%s is not what the events give", name))
		}
		if name := l.figures.wrongTree(e.Data.Get("usage_tree")); name != "" {
			return at("ledger.end", fmt.Errorf("usage_tree.%s is not what the events give", name))
		}
	}
	if err := l.figures.add(e, row); err != nil {
		return at("ledger.usage", err)
	}
	l.take(e)
	return nil
}

// metered gives the bill of an event, until the next; nil where it has none.
func (l *Ledger) metered(e *Event) (*Row, error) {
	if e.Type != "model.response" && e.Type != "model.error" || e.Data.Get("usage") == nil {
		return nil, nil
	}
	var err error
	row := &l.row
	*row, err = readUsage(e.Data.Get("usage"))
	row.Provider, row.Upstream = e.Data.Get("provider"), e.Data.Get("upstream")
	row.Model, row.Tier = e.Data.Get("model"), e.Data.Get("tier")
	return row, err
}

func (l *Ledger) take(e *Event) {
	l.tree.add(e.Hash)
	l.head, l.elapsed, l.last, l.gaps = e.Hash, e.Elapsed, e.Type, nil
	switch e.Type {
	case "session.start":
		l.sessions = append(l.sessions, &Session{start: e})
	case "session.end":
		l.current().end = e
		l.gaps = e.Data.At("ops", "evidence", "gaps")
	default:
		if !knownTypes[e.Type] && len(l.unknown) < maxKeys {
			l.unknown[e.Type] = true
		}
	}
	withheldNames(&e.doc, l.withheld)
}
