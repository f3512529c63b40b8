package main

import (
	"errors"
	"fmt"
	"slices"
	"sort"
	"strconv"
)

// Section 6: figures. Nothing here grows with the number of events.

var errSum = errors.New("a sum beyond 2^53-1, or of 10^15 USD or more")

// Counts is an object of counts with at most 64 keys and other (limited counts).
type Counts map[string]int64

func (c Counts) add(key string, n int64) error {
	if _, known := c[key]; !known && len(c) >= maxKeys {
		key = "other"
	}
	c[key] += n
	if c[key] > maxInt {
		return errSum
	}
	return nil
}

func (c Counts) json() string {
	names := make([]string, 0, len(c))
	for name := range c {
		names = append(names, name)
	}
	sort.Strings(names)
	out := []byte{'{'}
	for i, name := range names {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(appendText(out, name), ':')
		out = strconv.AppendInt(out, c[name], 10)
	}
	return string(append(out, '}'))
}

type modelSum struct {
	names   [3][]byte // provider, upstream and model, canonical strings
	sortKey [3]string
	calls   int64
	cost    Money
	costed  bool
}

// Samples is a histogram of latencies (F-4).
type Samples struct {
	count int64
	by    map[int64]int64
}

func (s *Samples) add(us int64) {
	scale := int64(1)
	for us/scale >= 1000 {
		scale *= 10
	}
	s.by[us/scale*scale]++
	s.count++
}

func (s *Samples) json() string {
	if s.count == 0 {
		return `{"count":0}`
	}
	values := make([]int64, 0, len(s.by))
	for value := range s.by {
		values = append(values, value)
	}
	sort.Slice(values, func(i, j int) bool { return values[i] < values[j] })
	at := func(percent int64) int64 {
		rank, seen := (percent*s.count+99)/100, int64(0)
		for _, value := range values {
			if seen += s.by[value]; seen >= rank {
				return value
			}
		}
		return values[len(values)-1]
	}
	return fmt.Sprintf(`{"count":%d,"max":%d,"p50":%d,"p95":%d,"p99":%d}`, s.count, values[len(values)-1], at(50), at(95), at(99))
}

// Bills is the fold of rows.
type Bills struct {
	tree     Frontier
	tokens   Counts
	bySource map[string]int64
	models   map[string]*modelSum
	cost     Money
	costed   int64
	assumed  bool
	used     func(key []byte)
	key      []byte
	excess   error // the first sum that is too large
}

func newBills(used func(key []byte)) *Bills {
	return &Bills{tokens: Counts{}, bySource: map[string]int64{}, models: map[string]*modelSum{}, used: used}
}

func (b *Bills) add(row Row, leaf digest) error {
	b.tree.add(leaf)
	b.bySource[row.Source]++
	elsewhere := false
	for i := range row.Items.Items {
		item := &row.Items.Items[i]
		unit, per := item.Get("unit_usd"), item.Get("per")
		elsewhere = elsewhere || item.Get("model") != nil
		if per == nil || per.Num != 1 {
			if err := b.tokens.add(item.Get("kind").Text(), item.Get("quantity").Num); err != nil {
				return err
			}
		}
		if unit != nil {
			b.key = priceKey(b.key[:0], row.Provider, served(item, "model", row.Model), served(item, "tier", row.Tier), item.Get("kind"), unit, per)
			b.used(b.key)
		}
	}
	sum := b.model(row, row.Model)
	sum.calls++
	if !row.HasCost {
		return nil
	}
	b.costed++
	b.cost.add(row.Cost)
	if b.cost.beyond() {
		return errSum
	}
	b.assumed = b.assumed || row.Assumed
	sum.costed = true
	if !elsewhere {
		sum.cost.add(row.Cost)
		return nil
	}
	for i := range row.Items.Items {
		item := &row.Items.Items[i]
		price, _ := amount(item.Get("unit_usd"), 6)
		by := sum
		if model := item.Get("model"); model != nil {
			by = b.model(row, model)
			by.costed = true
		}
		by.cost.add(price.times(item.Get("quantity").Num, item.Get("per").Num))
	}
	return nil
}

// served is what served an item: its own member of that name, else the row's.
func served(item *Value, name string, row *Value) *Value {
	if own := item.Get(name); own != nil {
		return own
	}
	return row
}

func (b *Bills) model(row Row, model *Value) *modelSum {
	b.key = append(append(append(b.key[:0], row.Provider.Raw...), '\n'), row.Upstream.Raw...)
	b.key = append(append(b.key, '\n'), model.Raw...)
	if sum := b.models[string(b.key)]; sum != nil {
		return sum
	}
	key, sum := string(b.key), &modelSum{}
	for i, part := range [...]*Value{row.Provider, row.Upstream, model} {
		sum.names[i], sum.sortKey[i] = append([]byte{}, part.Raw...), part.Text()
	}
	if len(b.models) >= maxModels {
		key, sum = "\"other\"\n\"other\"\n\"other\"", &modelSum{sortKey: [3]string{"other", "other", "other"}}
		for i := range sum.names {
			sum.names[i] = []byte(`"other"`)
		}
		if known := b.models[key]; known != nil {
			return known
		}
	}
	b.models[key] = sum
	return sum
}

func (b *Bills) byModel() string {
	sums := make([]*modelSum, 0, len(b.models))
	for _, sum := range b.models {
		sums = append(sums, sum)
	}
	sort.Slice(sums, func(i, j int) bool {
		left, right := sums[i].sortKey, sums[j].sortKey
		return slices.Compare(left[:], right[:]) < 0
	})
	out := "["
	for i, sum := range sums {
		if i > 0 {
			out += ","
		}
		out += fmt.Sprintf(`{"calls":%d`, sum.calls)
		if sum.costed {
			out += `,"cost_usd":"` + sum.cost.spell() + `"`
		}
		out += fmt.Sprintf(`,"model":%s,"provider":%s,"upstream":%s}`, sum.names[2], sum.names[0], sum.names[1])
	}
	return out + "]"
}

func (b *Bills) sources() string {
	return fmt.Sprintf(`{"none":%d,"partial":%d,"reported":%d}`, b.bySource["none"], b.bySource["partial"], b.bySource["reported"])
}

// costIs applies F-1; open says whether there are more requests than ends.
func (b *Bills) costIs(lost, unmetered int64, open bool, evidence *Value) string {
	rows := b.tree.size
	switch {
	case rows > 0 && b.costed == 0:
		return "none"
	case b.assumed:
		return "approximate"
	case b.bySource["reported"] == rows && b.costed == rows && lost == 0 && unmetered == 0 && !open && isWhole(evidence):
		return "exact"
	}
	return "lower-bound"
}

func isWhole(evidence *Value) bool {
	return evidence.Get("ledger_complete").Kind == 't' && evidence.Get("unwritten_events").Num == 0 && len(evidence.Get("gaps").Items) == 0
}

// Figures is the fold of a ledger.
type Figures struct {
	*Bills
	requests, ends, errors, denied, lost, unmetered int64
	total, firstByte                                Samples
	elapsed, orphans, sessions                      int64
	survivors                                       []int64
	breach                                          string
	faults, clockSteps, rateLimited, violations     int64
	snapshots, allowed, refused, unauthorized       int64
	toolCalls, toolResults, cacheHits               int64
	breakerOpen, breakerHalfOpen, breakerClosed     int64
	changes, forwarded, deniedBy                    Counts
	saved                                           Money // by cache hits
	lostBy                                          map[string]int64
}

func newFigures(used func(key []byte)) *Figures {
	return &Figures{
		Bills: newBills(used), total: Samples{by: map[int64]int64{}}, firstByte: Samples{by: map[int64]int64{}},
		changes: Counts{}, forwarded: Counts{}, deniedBy: Counts{}, lostBy: map[string]int64{},
	}
}

// add takes an event whose shape is right; row is its bill, where it is metered.
func (f *Figures) add(e *Event, row *Row) error {
	f.elapsed = e.Elapsed
	switch e.Type {
	case "session.start":
		f.sessions++
		f.breach = ""
	case "model.request":
		f.requests++
	case "model.response":
		f.ends++
		if us := e.Data.Get("duration_us"); us != nil {
			f.total.add(us.Num)
		}
		if us := e.Data.Get("first_byte_us"); us != nil {
			f.firstByte.add(us.Num)
		}
	case "model.error":
		f.ends++
		f.errors++
	case "model.denied":
		f.denied += e.int("count")
		if err := f.deniedBy.add(e.Data.Get("code").Text(), e.int("count")); err != nil || f.denied > maxInt {
			return errSum
		}
	case "model.cache_hit":
		f.cacheHits++
		if saved := e.Data.Get("saved_usd"); saved != nil {
			amount, _ := amount(saved, pico)
			f.saved.add(amount)
			if f.saved.beyond() {
				return errSum
			}
		}
	case "cap.exceeded":
		if f.breach == "" {
			f.breach = fmt.Sprintf(`{"cap":%s,"limit":%s,"observed":%s,"seq":%d}`,
				e.Data.Get("cap").Raw, e.Data.Get("limit").Raw, e.Data.Get("observed").Raw, e.Seq)
		}
	case "policy.violation":
		f.violations++
	case "tool.call":
		f.toolCalls++
	case "tool.result":
		f.toolResults++
	case "fs.snapshot":
		f.snapshots++
	case "fs.change":
		return f.changes.add(e.Data.Get("change").Text(), 1)
	case "proc.orphan":
		f.orphans++
		if e.Data.Get("ended").Text() == "survived" && len(f.survivors) < maxSurvivors {
			f.survivors = append(f.survivors, e.int("pid"))
		}
	case "net.allowed":
		f.allowed++
	case "net.denied":
		f.refused++
	default:
		return f.addOwn(e)
	}
	if row != nil {
		return f.Bills.add(*row, meteredLeaf(e))
	}
	return nil
}

func (f *Figures) addOwn(e *Event) error {
	switch e.Type {
	case "x-docket.forwarded":
		class := e.Data.Get("endpoint_class").Text()
		if class == "unmetered" {
			f.unmetered++
		}
		return f.forwarded.add(class, 1)
	case "x-docket.unauthorized":
		if f.unauthorized += e.int("count"); f.unauthorized > maxInt {
			return errSum
		}
	case "x-docket.ledger-gap":
		if f.lost += e.Data.At("lost", "count").Num; f.lost > maxInt {
			return errSum
		}
		types := e.Data.At("lost", "types")
		for i, name := range types.Names {
			if lostTypes[name] {
				if f.lostBy[name] += types.Items[i].Num; f.lostBy[name] > maxInt {
					return errSum
				}
			}
		}
	case "x-docket.fault-injected":
		f.faults++
	case "x-docket.clock-step":
		f.clockSteps++
	case "x-docket.rate-limited":
		if f.rateLimited += e.int("count"); f.rateLimited > maxInt {
			return errSum
		}
	case "x-docket.breaker-open":
		f.breakerOpen++
	case "x-docket.breaker-half-open":
		f.breakerHalfOpen++
	case "x-docket.breaker-closed":
		f.breakerClosed++
	}
	return nil
}

// said names a member that differs from what the events give; want "" means absent.
type said struct {
	name string
	have *Value
	want string
}

func differing(pairs []said) string {
	for _, p := range pairs {
		have := ""
		if p.have != nil {
			have = string(appendSealed(nil, p.have, ""))
		}
		if have != p.want {
			return p.name
		}
	}
	return ""
}

func number(n int64) string  { return strconv.FormatInt(n, 10) }
func quoted(s string) string { return `"` + s + `"` }

// wrongTotals names the member of totals that is not what the events give (F-1).
func (f *Figures) wrongTotals(totals, evidence *Value) string {
	costIs := f.costIs(f.lost, f.unmetered, f.requests > f.ends, evidence)
	costUsd := quoted(f.cost.spell())
	if costIs == "none" {
		costUsd = ""
	}
	return differing([]said{
		{"calls", totals.Get("calls"), number(f.requests)},
		{"errors", totals.Get("errors"), number(f.errors)},
		{"denied", totals.Get("denied"), number(f.denied)},
		{"lost", totals.Get("lost"), number(f.lost)},
		{"unmetered", totals.Get("unmetered"), number(f.unmetered)},
		{"tokens", totals.Get("tokens"), f.tokens.json()},
		{"by_source", totals.Get("by_source"), f.sources()},
		{"by_model", totals.Get("by_model"), f.byModel()},
		{"cost_usd", totals.Get("cost_usd"), costUsd},
		{"cost_is", totals.Get("cost_is"), quoted(costIs)},
	})
}

// wrongTree names the member of a usage tree that is not what the events give.
func (f *Figures) wrongTree(tree *Value) string {
	return differing([]said{
		{"size", tree.Get("size"), number(f.tree.size)},
		{"root", tree.Get("root"), quoted(hexOf(f.tree.root()))},
	})
}
