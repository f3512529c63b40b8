package main

import (
	"errors"
)

// Section 5: the bill of a metered event; F-6: the prices that it used.

// Row is a metered call: what the usage tree and the totals need of it.
type Row struct {
	Provider, Upstream, Model, Tier *Value
	Source                          string
	Items                           *Value
	Cost                            Money
	HasCost                         bool
	Assumed                         bool
}

var (
	isSource   = oneOf("reported", "partial", "none")
	isItems    = listOf(0, 64, isItem)
	isEstimate = object(need("items", isItems), need("method", isString))
	isNamed    = listOf(1, 16, isName)
)

func isItem(v *Value) bool {
	if v.Kind != 'o' {
		return false
	}
	quantity, unit, per := v.Get("quantity"), v.Get("unit_usd"), v.Get("per")
	kind := v.Get("kind")
	for _, name := range [...]string{"model", "tier"} {
		if served := v.Get(name); served != nil && !isString(served) {
			return false
		}
	}
	if kind == nil || !isName(kind) || quantity == nil || quantity.Kind != '0' || quantity.Num < 0 || quantity.Num > maxQuantity {
		return false
	}
	return unit == nil && per == nil || unit != nil && per != nil && isPrice(unit) && isPer(per)
}

// readUsage judges a bill (U-2 to U-4) and gives its source, items and cost.
func readUsage(usage *Value) (Row, error) {
	var row Row
	source, items := usage.Get("source"), usage.Get("items")
	if source == nil || !isSource(source) {
		return row, errors.New("source is not reported, partial or none")
	}
	if items == nil || !isItems(items) {
		return row, errors.New("items are not at most 64 quantities of a kind")
	}
	row.Source, row.Items = source.Text(), items
	if row.Source == "none" && len(items.Items) > 0 {
		return row, errors.New("items beside the source none")
	}
	var err error
	if row.Source == "none" {
		if usage.Get("cost_usd") != nil {
			err = errors.New("a cost beside the source none")
		}
	} else {
		row.Cost, row.HasCost, err = statedCost(items, usage.Get("cost_usd"))
	}
	if err != nil {
		return row, err
	}
	if flag := usage.Get("inconsistent"); flag != nil && flag.Kind != 't' {
		return row, errors.New("inconsistent is not true")
	}
	if estimate := usage.Get("estimate"); estimate != nil {
		err = readEstimate(estimate, row.Source)
	}
	if err == nil {
		err = readCaveats(usage, row.Source)
	}
	row.Assumed = usage.Get("assumed") != nil
	return row, err
}

// readCaveats judges what may make the bill another one (U-6).
func readCaveats(usage *Value, source string) error {
	for _, name := range [...]string{"unread", "assumed"} {
		if named := usage.Get(name); named != nil && !isNamed(named) {
			return errors.New(name + " is not 1 to 16 names")
		}
	}
	if source == "reported" && usage.Get("unread") != nil {
		return errors.New("unread members beside a reported figure")
	}
	if stated := usage.Get("stated_usd"); stated != nil {
		if _, ok := amount(stated, pico); !ok {
			return errors.New("stated_usd is not an amount")
		}
	}
	return nil
}

func readEstimate(estimate *Value, source string) error {
	if source == "reported" {
		return errors.New("an estimate beside a reported figure")
	}
	if !isEstimate(estimate) {
		return errors.New("estimate is not items and a method")
	}
	_, _, err := statedCost(estimate.Get("items"), estimate.Get("cost_usd"))
	return err
}

// statedCost is the cost by U-3, which must be stated exactly where every item has a price.
func statedCost(items, stated *Value) (sum Money, priced bool, err error) {
	for i := range items.Items {
		unit := items.Items[i].Get("unit_usd")
		if unit == nil {
			if stated != nil {
				return sum, false, errors.New("a cost beside an item without a price")
			}
			return sum, false, nil
		}
		price, _ := amount(unit, 6)
		sum.add(price.times(items.Items[i].Get("quantity").Num, items.Items[i].Get("per").Num))
	}
	if stated == nil {
		return sum, false, errors.New("cost_usd is missing")
	}
	if said, ok := amount(stated, pico); !ok || !said.equal(sum) {
		return sum, false, errors.New("cost_usd is not the sum of the items")
	}
	return sum, true, nil
}

// meteredLeaf is the leaf of the usage tree for a metered event (U-5).
func meteredLeaf(e *Event) digest {
	out := append(append(append(sealed[:0], 0), `{"call":`...), e.Data.Get("call").Raw...)
	out = append(append(out, `,"model":`...), e.Data.Get("model").Raw...)
	out = append(append(out, `,"provider":`...), e.Data.Get("provider").Raw...)
	out = append(append(out, `,"seq":`...), e.doc.Get("seq").Raw...)
	out = append(append(out, `,"tier":`...), e.Data.Get("tier").Raw...)
	out = append(append(out, `,"upstream":`...), e.Data.Get("upstream").Raw...)
	out = appendSealed(append(out, `,"usage":`...), e.Data.Get("usage"), "")
	sealed = append(out, '}')
	return hashPlain(sealed)
}

// priceKey is a used price (F-6) in one spelling.
func priceKey(out []byte, provider, model, tier, kind, unit, per *Value) []byte {
	for _, part := range [...]*Value{provider, model, tier, kind, unit, per} {
		out = append(append(out, part.Raw...), '\n')
	}
	return out
}

// priceRowKey is the same of a row of prices.rows.
func priceRowKey(row *Value) string {
	return string(priceKey(nil, row.Get("provider"), row.Get("model"), row.Get("tier"), row.Get("kind"), row.Get("unit_usd"), row.Get("per")))
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
