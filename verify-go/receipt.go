package main

import (
	"bytes"
	"errors"
	"fmt"
)

// Section 7: the receipt.

const maxReceipt = 64 << 20

var (
	isRow         = exactly(need("call", isCount), need("model", isString), need("provider", isString), need("tier", isString), need("seq", isNatural), need("usage", isObject))
	isModelTotal  = object(need("provider", isString), need("model", isString), need("calls", isNatural), maybe("cost_usd", isAmount))
	isPriceRow    = exactly(need("provider", isString), need("model", isString), need("tier", isString), need("kind", isName), need("unit_usd", isPrice), need("per", isPer))
	isStart       = exactly(need("event", isObject), need("proof", isProof), maybe("checkpoint", isString), maybe("end", isPair))
	isBounded     = object(need("booked", isNatural), maybe("limit", isNatural))
	receiptFields = []field{
		need("format", oneOf("docket-receipt/1")),
		need("docket", isDocket),
		need("created_at", isTime),
		need("tool", isObject),
		need("kind", oneOf("complete", "recovered")),
		need("session", object(
			need("outcome", oneOf("completed", "failed", "breached", "interrupted", "lost")), need("exit", isExit),
			need("elapsed_us", isNatural), need("orphans", isNatural), need("survivors", listOf(0, maxNamed, isCount)),
			need("sessions", isCount), need("drill", isBool),
			maybe("breach", object(need("cap", isString), need("limit", isString), need("observed", isString), need("seq", isNatural))),
		)),
		need("policy", object(need("digest", hex64), need("document", isObject))),
		need("prices", object(
			need("tables", listOf(0, maxSessions, object(need("digest", hex64), maybe("source", isString), maybe("date", isString)))),
			need("rows", listOf(0, maxReceipt, isPriceRow)),
		)),
		need("totals", object(
			need("calls", isNatural), need("errors", isNatural), need("denied", isNatural), need("lost", isNatural),
			need("unmetered", isNatural), need("tokens", isCounts),
			need("by_source", exactly(need("none", isNatural), need("partial", isNatural), need("reported", isNatural))),
			need("by_model", listOf(0, maxModels+1, isModelTotal)), maybe("cost_usd", isAmount),
			need("cost_is", oneOf("exact", "lower-bound", "none")),
		)),
		need("usage", object(need("size", isNatural), need("root", hex64), maybe("rows", listOf(0, 10_000, isRow)))),
		need("latency", object(need("unit", oneOf("us")), need("total", isPercentiles), need("first_byte", isPercentiles))),
		need("caps", object(
			need("usd", object(need("booked", isAmount), maybe("limit", isAmount), maybe("billed", isAmount))),
			need("tokens", object(need("booked", isNatural), need("billed", isNatural), maybe("limit", isNatural))),
			need("calls", isBounded), need("wall_us", isBounded),
		)),
		need("files", object(need("changes", isCounts), need("snapshots", isNatural))),
		need("network", object(need("allowed", isNatural), need("denied", isNatural), need("unauthorized", isNatural), need("forwarded", isCounts))),
		need("tools", object(need("calls", isNatural), need("results", isNatural))),
		need("resilience", object(
			need("breaker", object(need("open", isNatural), need("half-open", isNatural), need("closed", isNatural))),
			need("clock_steps", isNatural), need("faults_injected", isNatural), need("rate_limited", isNatural), need("denied_by_code", isCounts),
		)),
		need("enforcement", object(need("mechanisms", isObject), need("violations", isNatural))),
		need("ops", isOps),
		maybe("cache", object(need("hits", isNatural), maybe("policy", isObject), maybe("saved_usd", isAmount))),
		need("findings", listOf(0, maxReceipt, isObject)),
		need("ledger", object(need("format", oneOf("docket-ledger/1")), need("size", isCount), need("root", hex64), need("head", hex64), need("checkpoint", isString))),
		need("starts", listOf(1, maxSessions, isStart)),
		maybe("end", isPair),
		need("limits", listOf(1, maxReceipt, isString)),
		need("signatures", listOf(0, 2, exactly(need("role", oneOf("run", "operator")), need("alg", oneOf("ed25519")), need("key", hex64), need("value", hex128)))),
	}
)

func isPercentiles(v *Value) bool {
	if !object(need("count", isNatural))(v) {
		return false
	}
	for _, name := range []string{"p50", "p95", "p99", "max"} {
		p := v.Get(name)
		if (p != nil) != (v.Get("count").Num != 0) || p != nil && !isNatural(p) {
			return false
		}
	}
	return true
}

// Receipt is a document whose shape is right. starts and ends are its events once they were judged.
type Receipt struct {
	doc    Value
	size   int64
	root   digest
	starts []*Event
	ends   []*Event // of earlier sessions, by number; nil where there is none
	end    *Event
}

func (r *Receipt) complete() bool   { return r.doc.Get("kind").Text() == "complete" }
func (r *Receipt) evidence() *Value { return r.doc.At("ops", "evidence") }
func (r *Receipt) rows() *Value     { return r.doc.At("usage", "rows") }
func (r *Receipt) checkpoint() string {
	return r.doc.At("ledger", "checkpoint").Text()
}
func (r *Receipt) docket() string { return r.doc.Get("docket").Text() }

// document takes one document and its single LF (C-1).
func document(data []byte, most int) (Value, error) {
	if len(data) > most {
		return Value{}, fmt.Errorf("longer than %d bytes", most)
	}
	if !bytes.HasSuffix(data, []byte{'\n'}) {
		return Value{}, errors.New("does not end in a line feed")
	}
	return new(parser).document(data[:len(data)-1])
}

// readReceipt judges the form.
func readReceipt(data []byte) (*Receipt, error) {
	doc, err := document(data, maxReceipt)
	if err != nil {
		return nil, err
	}
	if err := lacking("receipt", misfit(&doc, receiptFields)); err != nil {
		return nil, err
	}
	r := &Receipt{doc: doc, size: doc.At("ledger", "size").Num, root: digestOf(doc.At("ledger", "root"))}
	roles := ""
	for i := range doc.Get("signatures").Items {
		roles += doc.Get("signatures").Items[i].Get("role").Text() + " "
	}
	switch {
	case !r.complete() && (doc.Get("end") != nil || roles != ""):
		return nil, errors.New("a recovered receipt with an end or a signature")
	case r.complete() && r.checkpoint() == "":
		return nil, errors.New("a complete receipt without a checkpoint")
	case r.complete() && roles != "run " && roles != "run operator ":
		return nil, errors.New("the roles of the signatures are neither run nor run, operator")
	}
	return r, nil
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

// startsEvent judges R-3 and fills starts and ends.
func (r *Receipt) startsEvent() error {
	for i := range r.doc.Get("starts").Items {
		item := &r.doc.Get("starts").Items[i]
		start, err := quotedEvent(item.Get("event"), "session.start", r.docket())
		if err != nil {
			return err
		}
		var end *Event
		if pair := item.Get("end"); pair != nil {
			if end, err = quotedEvent(pair.Get("event"), "session.end", ""); err != nil {
				return err
			}
		}
		r.starts, r.ends = append(r.starts, start), append(r.ends, end)
	}
	return nil
}

func (r *Receipt) startsProof() error {
	for i := range r.doc.Get("starts").Items {
		item := &r.doc.Get("starts").Items[i]
		if !included(r.starts[i].Hash, r.root, item.Get("proof"), r.starts[i].Seq, r.size) {
			return fmt.Errorf("start %d is not in the tree", i)
		}
		if end := r.ends[i]; end != nil && !included(end.Hash, r.root, item.At("end", "proof"), end.Seq, r.size) {
			return fmt.Errorf("the end of session %d is not in the tree", i)
		}
	}
	return nil
}

// startsSessions judges R-5.
func (r *Receipt) startsSessions() error {
	items := r.doc.Get("starts").Items
	if r.doc.At("session", "sessions").Num != int64(len(items)) {
		return errors.New("session.sessions is not the number of starts")
	}
	keys := map[string]bool{}
	for i, start := range r.starts {
		continues := start.Data.Get("continues")
		key := start.Data.Get("run_key").Text()
		switch {
		case start.int("session") != int64(i):
			return errors.New("a session has another number")
		case keys[key]:
			return errors.New("a run key is used twice")
		case (continues == nil) != (i == 0) || i == 0 && start.Seq != 0:
			return errors.New("the first start is not the first, or a later one continues nothing")
		case i > 0 && (continues.Get("size").Num != start.Seq || digestOf(continues.Get("head")) != start.Prev):
			return errors.New("a start does not continue where it stands")
		}
		keys[key] = true
	}
	last := &items[len(items)-1]
	if last.Get("checkpoint") != nil || last.Get("end") != nil {
		return errors.New("the last start carries a checkpoint or an end")
	}
	for i := range items[:len(items)-1] {
		if err := r.earlier(i, &items[i]); err != nil {
			return fmt.Errorf("session %d: %w", i, err)
		}
	}
	return nil
}

func (r *Receipt) earlier(i int, item *Value) error {
	start, next := r.starts[i], r.starts[i+1]
	if next.Seq <= start.Seq {
		return errors.New("the next start does not come later")
	}
	if end := r.ends[i]; end != nil {
		if end.Seq <= start.Seq || end.Seq >= next.Seq || end.Seq == next.Seq-1 && end.Hash != next.Prev {
			return errors.New("its end does not stand in it")
		}
	}
	text := item.Get("checkpoint")
	if text == nil {
		return nil
	}
	note, err := readNote(text.Text())
	if err != nil {
		return err
	}
	switch {
	case note.origin != originOf(r.docket()) || note.size <= start.Seq || note.size > next.Seq:
		return errors.New("its checkpoint is of another docket or size")
	case note.size == next.Seq && note.root != digestOf(next.Data.At("continues", "root")):
		return errors.New("its checkpoint has another root")
	case !note.signedBy(bytesOf(start.Data.Get("run_key"))):
		return errors.New("its checkpoint is not signed by its run key")
	}
	return nil
}

// closed says whether an earlier session ended and its end is attested (P-7).
func (r *Receipt) closed(i int) bool {
	next := r.starts[i+1].Seq
	text := r.doc.Get("starts").Items[i].Get("checkpoint")
	if r.ends[i] == nil || r.ends[i].Seq != next-1 || text == nil {
		return false
	}
	note, err := readNote(text.Text())
	return err == nil && note.size == next
}

// endEvent judges the first part of R-6.
func (r *Receipt) endEvent() error {
	end, err := quotedEvent(r.doc.At("end", "event"), "session.end", "")
	if err != nil {
		return err
	}
	if end.Seq != r.size-1 || end.Hash != digestOf(r.doc.At("ledger", "head")) {
		return errors.New("the end is not the last event")
	}
	r.end = end
	return nil
}

func (r *Receipt) endProof() error {
	if !included(r.end.Hash, r.root, r.doc.At("end", "proof"), r.end.Seq, r.size) {
		return errors.New("the end is not in the tree")
	}
	return nil
}

func (r *Receipt) endFigures() error {
	want := func(path ...string) string { return string(appendSealed(nil, r.doc.At(path...), "")) }
	tree := r.end.Data.Get("usage_tree")
	name := differing([]said{
		{"outcome", r.end.Data.Get("outcome"), want("session", "outcome")},
		{"exit", r.end.Data.Get("exit"), want("session", "exit")},
		{"totals", r.end.Data.Get("totals"), want("totals")},
		{"usage_tree", tree, `{"root":` + want("usage", "root") + `,"size":` + want("usage", "size") + `}`},
		{"ops", r.end.Data.Get("ops"), want("ops")},
	})
	if name != "" {
		return fmt.Errorf("%s is not what session.end says", name)
	}
	return nil
}
