package main

import (
	"errors"
	"fmt"
	"strings"
)

// Section 7 on: the receipt's own figures, and who vouches.

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
		row.Provider, row.Model, row.Tier = rows[i].Get("provider"), rows[i].Get("model"), rows[i].Get("tier")
		if err := bills.add(row, hashPlain(appendSealed([]byte{0}, &rows[i], ""))); err != nil {
			return nil, fmt.Errorf("row %d: %w", i, err)
		}
	}
	return bills, nil
}

// totalsRows compares totals with what the rows give.
func (r *Receipt) totalsRows(bills *Bills) error {
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

// Used collects used prices against those that a receipt names, in the receipt's own memory.
type Used struct {
	named  map[string]bool
	met    map[string]bool
	beyond bool
}

func newUsed(named map[string]bool) *Used { return &Used{named: named, met: map[string]bool{}} }

func (u *Used) add(key []byte) {
	if u.met[string(key)] {
		return
	}
	if u.named[string(key)] {
		u.met[string(key)] = true
	} else {
		u.beyond = true
	}
}

func (u *Used) equal() bool { return !u.beyond && len(u.met) == len(u.named) }

// evidenceRule judges R-9.
func (r *Receipt) evidenceRule() error {
	e := r.evidence()
	if e.Get("ledger_complete").Kind != 't' {
		return nil
	}
	if e.Get("unwritten_events").Num != 0 || len(e.Get("gaps").Items) != 0 || e.Get("first_failing_seq") != nil || r.complete() && r.doc.Get("end") == nil {
		return errors.New("ledger_complete is contradicted")
	}
	return nil
}

// ── who vouches ──

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
