package main

import (
	"errors"
	"fmt"
	"strings"
)

// Section 7, R-3 to R-11: a receipt by itself.

func (p *procedure) ofReceipt() {
	r := p.receipt
	if r == nil {
		p.skip("needs a receipt", checkIDs[22:37]...)
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
	p.check("caps.limits", r.capsLimits)
	p.check("prices.tables", r.priceTables)
	p.check("prices.rows", p.priceRows)
	if !p.failed && r.rows() == nil {
		p.set("prices.rows", "skip", "needs a receipt with rows")
	}
	p.check("ops.evidence", r.evidenceRule)
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

func (p *procedure) usageRows() (err error) {
	p.rowUsed = newUsed(p.receipt.priceKeys())
	p.rowBills, err = p.receipt.usageRows(p.rowUsed.add)
	return err
}

// usageRows judges the rows and folds them.
func (r *Receipt) usageRows(used func([]byte)) (*Bills, error) {
	rows := r.rows().Items
	if int64(len(rows)) != r.doc.At("usage", "size").Num {
		return nil, errors.New("usage.size is not the number of rows")
	}
	bills, seen := newBills(used), map[int64]bool{}
	before, limit := r.starts[0].Seq, r.size
	if r.end != nil {
		limit--
	}
	for i := range rows {
		row, err := readUsage(rows[i].Get("usage"))
		if err != nil {
			return nil, fmt.Errorf("row %d: %w", i, err)
		}
		seq, call := rows[i].Get("seq").Num, rows[i].Get("call").Num
		if seq <= before || seq >= limit || seen[call] {
			return nil, fmt.Errorf("row %d: not in order, not in the run, or a call twice", i)
		}
		before, seen[call] = seq, true
		row.Provider, row.Upstream = rows[i].Get("provider"), rows[i].Get("upstream")
		row.Model, row.Tier = rows[i].Get("model"), rows[i].Get("tier")
		if err := bills.add(row, hashPlain(appendSealed([]byte{0}, &rows[i], ""))); err != nil && bills.excess == nil {
			bills.excess = fmt.Errorf("row %d: %w", i, err) // of totals.rows, behind usage.root
		}
	}
	return bills, nil
}

// totalsRows compares totals with what the rows give.
func (r *Receipt) totalsRows(bills *Bills) error {
	if bills.excess != nil {
		return bills.excess
	}
	totals := r.doc.Get("totals")
	costIs := bills.costIs(totals.Get("lost").Num, totals.Get("unmetered").Num, false, r.evidence())
	if costIs == "exact" && r.end == nil && totals.Get("cost_is").Text() == "lower-bound" {
		costIs = "lower-bound"
	}
	costUsd := quoted(bills.cost.spell())
	if costIs == "none" {
		costUsd = ""
	}
	name := differing([]said{
		{"tokens", totals.Get("tokens"), bills.tokens.json()},
		{"by_source", totals.Get("by_source"), bills.sources()},
		{"by_model", totals.Get("by_model"), bills.byModel()},
		{"cost_usd", totals.Get("cost_usd"), costUsd},
		{"cost_is", totals.Get("cost_is"), quoted(costIs)},
	})
	if name != "" {
		return fmt.Errorf("totals.%s is not what the rows give", name)
	}
	return nil
}

func sumOf(v *Value) uint64 {
	var sum uint64
	for i := range v.Items {
		sum += uint64(v.Items[i].Num)
	}
	return sum
}

// bindings judges R-8.
func (r *Receipt) bindings() error {
	d := &r.doc
	totals, size := d.Get("totals"), uint64(d.At("usage", "size").Num)
	var calls uint64
	for i := range totals.Get("by_model").Items {
		calls += uint64(totals.Get("by_model").Items[i].Get("calls").Num)
	}
	forwarded := int64(0)
	if n := d.At("network", "forwarded", "unmetered"); n != nil {
		forwarded = n.Num
	}
	same := func(a, b *Value) bool {
		return (a == nil) == (b == nil) && (a == nil || string(a.Raw) == string(b.Raw))
	}
	cost := totals.Get("cost_usd")
	rules := []struct {
		holds bool
		says  string
	}{
		{sumOf(totals.Get("by_source")) == size, "totals.by_source does not add up to usage.size"},
		{calls == size, "totals.by_model does not add up to usage.size"},
		{same(d.At("caps", "usd", "billed"), cost), "caps.usd.billed is not totals.cost_usd"},
		{uint64(d.At("caps", "tokens", "billed").Num) == sumOf(totals.Get("tokens")), "caps.tokens.billed is not the sum of totals.tokens"},
		{d.At("caps", "calls", "booked").Num == totals.Get("calls").Num, "caps.calls.booked is not totals.calls"},
		{d.At("caps", "wall_us", "booked").Num == d.At("session", "elapsed_us").Num, "caps.wall_us.booked is not session.elapsed_us"},
		{sumOf(d.At("resilience", "denied_by_code")) == uint64(totals.Get("denied").Num), "resilience.denied_by_code does not add up to totals.denied"},
		{forwarded == totals.Get("unmetered").Num, "network.forwarded.unmetered is not totals.unmetered"},
		{(d.At("session", "drill").Kind == 't') == (d.At("resilience", "faults_injected").Num > 0), "session.drill contradicts resilience.faults_injected"},
		{(cost == nil) == (totals.Get("cost_is").Text() == "none"), "cost_usd contradicts cost_is"},
		{size <= uint64(totals.Get("calls").Num)+uint64(totals.Get("lost").Num), "more rows than calls"},
	}
	for _, rule := range rules {
		if !rule.holds {
			return errors.New(rule.says)
		}
	}
	return nil
}

func (r *Receipt) policyDigest() error {
	want := hexOf(hashPlain(appendSealed(nil, r.doc.At("policy", "document"), "")))
	last := r.starts[len(r.starts)-1]
	if r.doc.At("policy", "digest").Text() != want || last.Data.Get("policy").Text() != want {
		return errors.New("the policy document does not give its digest, or the last start names another")
	}
	return nil
}

// capsLimits holds the limits of the caps against the policy document.
func (r *Receipt) capsLimits() error {
	caps, document := r.doc.Get("caps"), r.doc.At("policy", "document")
	asked := func(name string) string {
		table := document.Get("caps")
		if table == nil || table.Kind != 'o' {
			return ""
		}
		value := table.Get(name)
		if value == nil || string(value.Raw) == "null" {
			return ""
		}
		return string(value.Raw)
	}
	limit := func(cap string) string {
		if value := caps.At(cap, "limit"); value != nil {
			return string(value.Raw)
		}
		return ""
	}
	usd, wall := asked("max_usd"), limit("wall_us")
	if budget := document.Get("budget"); budget != nil && budget.Kind == 'o' {
		if mode := budget.Get("mode"); mode != nil && string(mode.Raw) == `"quota"` {
			usd = ""
		}
	}
	if wall != "" {
		us := caps.At("wall_us", "limit").Num
		seconds := strings.TrimRight(fmt.Sprintf("%d.%06d", us/1_000_000, us%1_000_000), "0")
		wall = quoted(strings.TrimSuffix(seconds, "."))
	}
	for _, pair := range [...][3]string{
		{"usd", limit("usd"), usd}, {"tokens", limit("tokens"), asked("max_tokens")},
		{"calls", limit("calls"), asked("max_model_calls")}, {"wall_us", wall, asked("max_wall_seconds")},
	} {
		if pair[1] != pair[2] {
			return fmt.Errorf("caps.%s.limit is not what the policy document says", pair[0])
		}
	}
	return nil
}

func (r *Receipt) priceTables() error {
	tables := r.doc.At("prices", "tables").Items
	if len(tables) != len(r.starts) {
		return errors.New("not one table a start")
	}
	for i, start := range r.starts {
		if tables[i].Get("digest").Text() != start.Data.Get("prices").Text() {
			return fmt.Errorf("start %d names another price table", i)
		}
	}
	return nil
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

// priceKeys are the prices that prices.rows names.
func (r *Receipt) priceKeys() map[string]bool {
	keys, rows := map[string]bool{}, r.doc.At("prices", "rows").Items
	for i := range rows {
		keys[priceRowKey(&rows[i])] = true
	}
	return keys
}

func (r *Receipt) pricesSorted() bool {
	rows := r.doc.At("prices", "rows").Items
	for i := 1; i < len(rows); i++ {
		if !priceBefore(&rows[i-1], &rows[i]) {
			return false
		}
	}
	return true
}

func priceBefore(a, b *Value) bool {
	for _, name := range []string{"provider", "model", "tier", "kind", "unit_usd"} {
		if order := strings.Compare(a.Get(name).Text(), b.Get(name).Text()); order != 0 {
			return order < 0
		}
	}
	return a.Get("per").Num < b.Get("per").Num
}

// evidenceRule judges R-9.
func (r *Receipt) evidenceRule() error {
	e := r.evidence()
	if breach := r.doc.At("session", "breach"); breach != nil && breach.Get("seq") == nil && e.Get("unwritten_events").Num == 0 {
		return errors.New("a breach without its event, and no event is lost")
	}
	if e.Get("ledger_complete").Kind != 't' {
		return nil
	}
	if e.Get("unwritten_events").Num != 0 || len(e.Get("gaps").Items) != 0 || e.Get("first_failing_seq") != nil || r.doc.Get("end") == nil {
		return errors.New("ledger_complete is contradicted")
	}
	return nil
}

func (p *procedure) checkpoint() {
	ids := checkIDs[43:47]
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
	p.check(ids[3], func() error {
		said := r.evidence().Get("unwritten_events").Num
		right := said == note.lost || said > note.lost && r.doc.Get("end") == nil
		return holds(right, fmt.Sprintf("%d events lost, the checkpoint says %d", said, note.lost))()
	})
}
