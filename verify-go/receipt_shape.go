package main

import (
	"errors"
	"fmt"
)

// Section 7, R-1, R-2 and R-14: the members of a receipt.

var (
	isRow        = exactly(need("call", isCount), need("model", isString), need("provider", isString), need("tier", isString), need("upstream", isString), need("seq", isNatural), need("usage", isObject))
	isModelTotal = object(need("provider", isString), need("upstream", isString), need("model", isString), need("calls", isNatural), maybe("cost_usd", isAmount))
	isPriceRow   = exactly(need("provider", isString), need("model", isString), need("tier", isString), need("kind", isName), need("unit_usd", isPrice), need("per", isPer))
	isStart      = exactly(need("event", isObject), need("proof", isProof), maybe("checkpoint", isString), maybe("end", isPair))
	isFinding    = object(
		need("rule", isName), need("severity", oneOf("info", "warning", "error")), need("confidence", oneOf("deterministic", "heuristic")),
		need("summary", isString), need("seqs", listOf(1, maxSeqs, isNatural)), need("count", isCount), need("impact", isImpact), need("remedy", isString),
	)
	isBounded     = object(need("booked", isNatural), maybe("limit", isNatural))
	receiptFields = []field{
		need("format", oneOf("docket-receipt/1")),
		need("docket", isDocket),
		need("created_at", isTime),
		need("tool", isObject),
		need("kind", oneOf("complete", "recovered", "from-memory")),
		need("session", object(
			need("outcome", oneOf("completed", "failed", "breached", "interrupted", "lost")), need("exit", isExit),
			need("elapsed_us", isNatural), need("orphans", isNatural), need("survivors", listOf(0, maxSurvivors, isCount)),
			need("sessions", isCount), need("drill", isBool),
			maybe("breach", object(need("cap", isString), need("limit", isString), need("observed", isString), maybe("seq", isNatural))),
		)),
		need("policy", object(need("digest", hex64), need("document", isObject))),
		need("prices", object(
			need("tables", listOf(0, maxSessions, object(need("digest", hex64), maybe("source", isString), maybe("date", isString)))),
			need("rows", listOf(0, maxPrices, isPriceRow)),
		)),
		need("totals", object(
			need("calls", isNatural), need("errors", isNatural), need("denied", isNatural), need("lost", isNatural),
			need("unmetered", isNatural), need("tokens", isCounts),
			need("by_source", exactly(need("none", isNatural), need("partial", isNatural), need("reported", isNatural))),
			need("by_model", listOf(0, maxModels+1, isModelTotal)), maybe("cost_usd", isAmount),
			need("cost_is", oneOf("approximate", "exact", "lower-bound", "none")),
		)),
		need("usage", object(need("size", isNatural), need("root", hex64), maybe("rows", listOf(0, maxRows, isRow)))),
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
		need("findings", listOf(0, maxSentences, isFinding)),
		need("ledger", object(need("format", oneOf("docket-ledger/1")), need("size", isCount), need("root", hex64), need("head", hex64), need("checkpoint", isString))),
		need("starts", listOf(1, maxSessions, isStart)),
		maybe("end", isPair),
		need("limits", listOf(1, maxSentences, isString)),
		need("signatures", listOf(0, 2, exactly(need("role", oneOf("run", "operator")), need("alg", oneOf("ed25519")), need("key", hex64), need("value", hex128)))),
	}
)

// isImpact has a figure exactly where it is not unknown.
func isImpact(v *Value) bool {
	known := object(need("is", oneOf("exact", "at-least", "at-most")), need("usd", isAmount))
	return known(v) || object(need("is", oneOf("unknown")))(v) && v.Get("usd") == nil
}

// refers says whether the events of a finding grow, are as many as its count says, and lie in a ledger of that size.
func refers(finding *Value, size int64) bool {
	seqs, count := finding.Get("seqs").Items, finding.Get("count").Num
	for i := 1; i < len(seqs); i++ {
		if seqs[i].Num <= seqs[i-1].Num {
			return false
		}
	}
	return seqs[len(seqs)-1].Num < size && count <= size && int64(len(seqs)) == min(count, maxSeqs)
}

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

func (r *Receipt) kind() string     { return r.doc.Get("kind").Text() }
func (r *Receipt) recovered() bool  { return r.kind() == "recovered" }
func (r *Receipt) evidence() *Value { return r.doc.At("ops", "evidence") }
func (r *Receipt) rows() *Value     { return r.doc.At("usage", "rows") }
func (r *Receipt) checkpoint() string {
	return r.doc.At("ledger", "checkpoint").Text()
}
func (r *Receipt) docket() string { return r.doc.Get("docket").Text() }

// readReceipt judges the form.
func readReceipt(data []byte) (*Receipt, error) {
	doc, err := document(data)
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
	case r.kind() != "complete" && doc.Get("end") != nil || r.recovered() && roles != "":
		return nil, errors.New("a receipt that is not complete with an end, or a recovered one with a signature")
	case !r.recovered() && r.checkpoint() == "":
		return nil, errors.New("a signed receipt without a checkpoint")
	case !r.recovered() && roles != "run " && roles != "run operator ":
		return nil, errors.New("the roles of the signatures are neither run nor run, operator")
	}
	for i := range doc.Get("findings").Items {
		if !refers(&doc.Get("findings").Items[i], r.size) {
			return nil, fmt.Errorf("findings[%d]: its events do not grow, lie outside the ledger, or are not as many as it says", i)
		}
	}
	return r, nil
}
