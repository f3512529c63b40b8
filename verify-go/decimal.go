package main

import "math/big"

// Decimals (C-8): exact, as integers of 10^-12.

const pico = 12

// decimal reads a decimal string with at most fraction fractional digits and no sign; nil for anything else.
func amount(v *Value, fraction int) *big.Int {
	if v == nil || v.Kind != 's' {
		return nil
	}
	text := v.Raw[1 : len(v.Raw)-1]
	whole := 0
	for whole < len(text) && isDigit(text[whole]) {
		whole++
	}
	if whole == 0 || whole > 15 || text[0] == '0' && whole > 1 {
		return nil
	}
	digits := text[whole:]
	if len(digits) > 0 {
		digits = digits[1:]
		if text[whole] != '.' || len(digits) == 0 || len(digits) > fraction || digits[len(digits)-1] == '0' {
			return nil
		}
		for _, b := range digits {
			if !isDigit(b) {
				return nil
			}
		}
	}
	spelled := append(append([]byte{}, text[:whole]...), digits...)
	for i := len(digits); i < pico; i++ {
		spelled = append(spelled, '0')
	}
	number, _ := new(big.Int).SetString(string(spelled), 10)
	return number
}

func isDigit(b byte) bool { return b >= '0' && b <= '9' }

func isAmount(v *Value) bool { return amount(v, pico) != nil }
func isPrice(v *Value) bool  { return amount(v, 6) != nil }

// spell is the one spelling of an amount.
func spell(n *big.Int) string {
	digits := n.String()
	for len(digits) <= pico {
		digits = "0" + digits
	}
	whole, fraction := digits[:len(digits)-pico], digits[len(digits)-pico:]
	for len(fraction) > 0 && fraction[len(fraction)-1] == '0' {
		fraction = fraction[:len(fraction)-1]
	}
	if fraction == "" {
		return whole
	}
	return whole + "." + fraction
}

// cost adds quantity x unit / per to sum; false where that is not a whole number of 10^-12.
func addCost(sum *big.Int, quantity int64, unit *big.Int, per int64) {
	product := new(big.Int).Mul(unit, big.NewInt(quantity))
	sum.Add(sum, product.Div(product, big.NewInt(per))) // exact: a price has at most six fractional digits
}
