package main

import (
	"errors"
	"fmt"
	"strings"
)

// Section 3, L-2 to L-9: events, their types and the members that are read.

// Event is one line of a ledger, or an event in a receipt or proof.
type Event struct {
	doc     Value
	Seq     int64
	Elapsed int64
	Type    string
	Data    *Value
	Prev    digest
	Hash    digest
}

var (
	eventFields = []field{
		need("seq", isNatural), need("ts", isTime), need("elapsed_us", isNatural), need("type", isType), need("by", isString),
		need("data", isObject), need("prev", hex64), need("hash", hex64),
	}
	endFields = []field{
		need("call", isCount), need("provider", isString), need("model", isString), need("tier", isString), need("upstream", isString), need("reason", isString),
		maybe("usage", isObject), maybe("duration_us", isNatural), maybe("first_byte_us", isNatural),
	}
	dataFields = map[string][]field{
		"session.start": {
			need("docket", isDocket), need("session", isNatural), need("run_key", hex64), need("policy", hex64),
			need("prices", hex64), maybe("endorsement", isEndorsement), maybe("continues", isContinues),
		},
		"session.end": {
			need("outcome", isString), need("exit", isExit), need("totals", isObject),
			need("usage_tree", object(need("size", isNatural), need("root", hex64))), need("ops", isOps),
		},
		"model.request":         {need("call", isCount)},
		"model.response":        endFields,
		"model.error":           endFields,
		"model.denied":          {need("code", isName), need("count", isCount)},
		"model.cache_hit":       {need("call", isCount), maybe("saved_usd", isAmount)},
		"cap.exceeded":          {need("cap", isString), need("limit", isString), need("observed", isString)},
		"fs.change":             {need("change", isName)},
		"proc.orphan":           {need("pid", isCount), need("ended", isString)},
		"x-docket.forwarded":    {need("endpoint_class", isName)},
		"x-docket.unauthorized": {need("count", isCount)},
		"x-docket.rate-limited": {need("count", isCount)},
		"x-docket.ledger-gap":   {need("lost", object(need("count", isCount), need("types", isCounts)))},
	}
	plainTypes = strings.Fields(`policy.applied policy.violation cap.warning tool.call tool.result fs.snapshot proc.spawn
		proc.exit net.allowed net.denied note x-docket.breaker-open x-docket.breaker-half-open x-docket.breaker-closed
		x-docket.fault-injected x-docket.ledger-recovered x-docket.clock-step
		x-docket.budget-leased x-docket.budget-refused x-docket.budget-returned x-docket.retry-scheduled
		x-docket.rollback-applied x-docket.rollback-refused`)
	knownTypes = func() map[string]bool {
		known := map[string]bool{}
		for name := range dataFields {
			known[name] = true
		}
		for _, name := range plainTypes {
			known[name] = true
		}
		return known
	}()
)

// readLine reads one line of a ledger without its line feed (ledger.form); p's memory holds the event.
func readLine(p *parser, line []byte) (*Event, error) {
	if len(line)+1 > maxLine {
		return nil, errors.New("line longer than 1 MiB")
	}
	doc, err := p.document(line)
	if err != nil {
		return nil, err
	}
	if len(line)+1+longerBy(&doc) > maxLine {
		return nil, errors.New("line longer than 1 MiB with its private members in their longer form")
	}
	return fillEvent(&p.event, doc)
}

// readEvent judges the shape of an event whose private members are whole.
func readEvent(doc Value) (*Event, error) { return fillEvent(new(Event), doc) }

func fillEvent(e *Event, doc Value) (*Event, error) {
	if err := lacking("event", misfit(&doc, eventFields)); err != nil {
		return nil, err
	}
	*e = Event{doc: doc}
	for i, name := range doc.Names {
		switch value := &doc.Items[i]; name {
		case "seq":
			e.Seq = value.Num
		case "elapsed_us":
			e.Elapsed = value.Num
		case "type":
			e.Type = value.Text()
		case "data":
			e.Data = value
		case "prev":
			e.Prev = digestOf(value)
		case "hash":
			e.Hash = digestOf(value)
		}
	}
	if err := asserted(e, doc.Get("by").Text()); err != nil {
		return nil, err
	}
	return e, lacking(e.Type, misfit(e.Data, dataFields[e.Type]))
}

// asserted applies L-4.
func asserted(e *Event, by string) error {
	right := true
	switch by {
	case "boundary":
	case "supervisor":
		right = !strings.HasPrefix(e.Type, "model.")
	case "doctor":
		reason := e.Data.Get("reason")
		lost := e.Type == "model.error" && reason != nil && reason.Text() == "lost"
		right = !strings.HasPrefix(e.Type, "model.") || lost
	case "agent":
		right = e.Type == "note" || e.Type == "tool.call" || e.Type == "tool.result"
	default:
		right = false
	}
	if !right {
		return fmt.Errorf("%q may not assert %s", by, e.Type)
	}
	return nil
}

// quotedEvent judges an event that stands in a receipt or proof.
func quotedEvent(doc *Value, kind, docket string) (*Event, error) {
	e, err := readEvent(*doc)
	if err != nil {
		return nil, err
	}
	switch {
	case kind != "" && e.Type != kind:
		return nil, fmt.Errorf("a %s where a %s must stand", e.Type, kind)
	case e.sealedHash() != e.Hash:
		return nil, errors.New("the event does not give its hash")
	case kind == "session.start" && e.Data.Get("docket").Text() != docket:
		return nil, errors.New("a start of another docket")
	}
	return e, nil
}

// sealedHash is what hash must be (L-6).
func (e *Event) sealedHash() digest {
	sealed = appendSealed(append(sealed[:0], 0), &e.doc, "hash")
	return hashPlain(sealed)
}

var sealed []byte // what is hashed of the event at hand

func (e *Event) int(name string) int64 { return e.Data.Get(name).Num }
