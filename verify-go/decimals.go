package main

import (
	"math/big"
	"math/bits"
)

// Section 1, C-8: decimals, exact, as integers of 10^-12.

const (
	pico      = 12
	smallSize = 18 // digits that always fit an uint64
)

var amountLimit = new(big.Int).Exp(big.NewInt(10), big.NewInt(15+pico), nil)

// Money is an exact amount: small, or large where that is not nil.
type Money struct {
	small uint64
	large *big.Int
}

func (m Money) big() *big.Int {
	if m.large != nil {
		return m.large
	}
	return new(big.Int).SetUint64(m.small)
}

func (m *Money) add(other Money) {
	if m.large == nil && other.large == nil {
		if sum, carry := bits.Add64(m.small, other.small, 0); carry == 0 {
			m.small = sum
			return
		}
	}
	m.large = new(big.Int).Add(m.big(), other.big())
}

// times is quantity x m / per: exact, since a price has at most six fractional digits and per is 1 or 1000000.
func (m Money) times(quantity, per int64) Money {
	if m.large == nil {
		if high, low := bits.Mul64(m.small, uint64(quantity)); high == 0 {
			return Money{small: low / uint64(per)}
		}
	}
	product := new(big.Int).Mul(m.big(), big.NewInt(quantity))
	return Money{large: product.Div(product, big.NewInt(per))}
}

func (m Money) equal(other Money) bool {
	if m.large == nil && other.large == nil {
		return m.small == other.small
	}
	return m.big().Cmp(other.big()) == 0
}

// amount reads a decimal string without a sign and with at most that many fractional digits.
func amount(v *Value, fraction int) (Money, bool) {
	if v == nil || v.Kind != 's' {
		return Money{}, false
	}
	text := v.Raw[1 : len(v.Raw)-1]
	whole := 0
	for whole < len(text) && isDigit(text[whole]) {
		whole++
	}
	if whole == 0 || whole > 15 || text[0] == '0' && whole > 1 {
		return Money{}, false
	}
	digits := text[whole:]
	if len(digits) > 0 {
		digits = digits[1:]
		if text[whole] != '.' || len(digits) == 0 || len(digits) > fraction || digits[len(digits)-1] == '0' {
			return Money{}, false
		}
	}
	var spelled [15 + pico]byte
	n := copy(spelled[:], text[:whole])
	n += copy(spelled[n:], digits)
	for _, b := range digits {
		if !isDigit(b) {
			return Money{}, false
		}
	}
	for i := len(digits); i < pico; i++ {
		spelled[n] = '0'
		n++
	}
	return integer(spelled[:n]), true
}

func integer(digits []byte) Money {
	for len(digits) > 1 && digits[0] == '0' {
		digits = digits[1:]
	}
	if len(digits) > smallSize {
		large, _ := new(big.Int).SetString(string(digits), 10)
		return Money{large: large}
	}
	var small uint64
	for _, b := range digits {
		small = small*10 + uint64(b-'0')
	}
	return Money{small: small}
}

// beyond says whether an amount has more than 15 whole digits.
func (m Money) beyond() bool { return m.large != nil && m.large.Cmp(amountLimit) >= 0 }

func isDigit(b byte) bool { return b >= '0' && b <= '9' }

func isAmount(v *Value) bool {
	_, ok := amount(v, pico)
	return ok
}

func isPrice(v *Value) bool {
	_, ok := amount(v, 6)
	return ok
}

// spell is the one spelling of an amount.
func (m Money) spell() string {
	digits := m.big().String()
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
