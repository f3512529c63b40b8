package main

import (
	"fmt"
	"regexp"
	"unicode/utf8"
)

// Shapes of values: what sections 3, 7 and 9 say of their members.

type shape func(v *Value) bool

type field struct {
	name     string
	optional bool
	is       shape
}

func need(name string, is shape) field  { return field{name, false, is} }
func maybe(name string, is shape) field { return field{name, true, is} }

// object is a shape whose members are right; further members are allowed.
func object(fields ...field) shape {
	return func(v *Value) bool { return v.Kind == 'o' && misfit(v, fields) == "" }
}

// exactly is object without further members.
func exactly(fields ...field) shape {
	return func(v *Value) bool {
		return v.Kind == 'o' && misfit(v, fields) == "" && unnamed(v, fields) == ""
	}
}

func misfit(v *Value, fields []field) string {
	for _, f := range fields {
		if member := v.Get(f.name); member == nil && !f.optional || member != nil && !f.is(member) {
			return f.name
		}
	}
	return ""
}

func unnamed(v *Value, fields []field) string {
next:
	for _, name := range v.Names {
		for _, f := range fields {
			if f.name == name {
				continue next
			}
		}
		return name
	}
	return ""
}

func listOf(least, most int, is shape) shape {
	return func(v *Value) bool {
		if v.Kind != 'a' || len(v.Items) < least || len(v.Items) > most {
			return false
		}
		for i := range v.Items {
			if !is(&v.Items[i]) {
				return false
			}
		}
		return true
	}
}

func oneOf(words ...string) shape {
	return func(v *Value) bool {
		for _, word := range words {
			if v.Kind == 's' && string(v.Raw[1:len(v.Raw)-1]) == word {
				return true
			}
		}
		return false
	}
}

func isObject(v *Value) bool  { return v.Kind == 'o' }
func isString(v *Value) bool  { return v.Kind == 's' }
func isBool(v *Value) bool    { return v.Kind == 't' || v.Kind == 'f' }
func isKnown(v *Value) bool   { return isBool(v) || oneOf("unknown")(v) }
func isNatural(v *Value) bool { return v.Kind == '0' && v.Num >= 0 }
func isCount(v *Value) bool   { return v.Kind == '0' && v.Num >= 1 }

func isCounts(v *Value) bool {
	if v.Kind != 'o' || len(v.Items) > maxCounts {
		return false
	}
	for i := range v.Items {
		if !isNatural(&v.Items[i]) {
			return false
		}
	}
	return true
}

var hexDigits = func() (found [256]bool) {
	for _, b := range "0123456789abcdef" {
		found[b] = true
	}
	return found
}()

// isHex says whether v is a string of exactly that many lower-case hex characters.
func isHex(v *Value, characters int) bool {
	if v.Kind != 's' || len(v.Raw) != characters+2 {
		return false
	}
	for _, b := range v.Raw[1 : characters+1] {
		if !hexDigits[b] {
			return false
		}
	}
	return true
}

func hex64(v *Value) bool  { return isHex(v, 64) }
func hex128(v *Value) bool { return isHex(v, 128) }

// isName is 1 to 64 characters of U+0020 to U+007E.
func isName(v *Value) bool {
	if v.Kind != 's' || len(v.Raw) > 2*64+2 {
		return false
	}
	text := v.Text()
	return len(text) >= 1 && len(text) <= 64 && printable(text)
}

func isType(v *Value) bool {
	if v.Kind != 's' {
		return false
	}
	if len(v.Raw) > 2+128*6 {
		return false
	}
	characters := utf8.RuneCountInString(v.Text())
	return characters >= 1 && characters <= 128
}

var (
	docketNumber = regexp.MustCompile(`\A"DKT-[0-9]{8}-[0-9A-HJKMNP-TV-Z]{10}"\z`)
)

func isDocket(v *Value) bool { return v.Kind == 's' && docketNumber.Match(v.Raw) }

// isTime is L-5: digits and separators in their places, and each figure within its range.
func isTime(v *Value) bool {
	const form = `"dddd-dd-ddTdd:dd:dd.ddddddZ"`
	if v.Kind != 's' || len(v.Raw) != len(form) {
		return false
	}
	for i, b := range v.Raw {
		if form[i] == 'd' && !isDigit(b) || form[i] != 'd' && form[i] != b {
			return false
		}
	}
	two := func(at int) int { return int(v.Raw[at]-'0')*10 + int(v.Raw[at+1]-'0') }
	month, day := two(6), two(9)
	return month >= 1 && month <= 12 && day >= 1 && day <= 31 && two(12) < 24 && two(15) < 60 && two(18) < 60
}

func isPer(v *Value) bool { return v.Kind == '0' && (v.Num == 1 || v.Num == 1_000_000) }

var (
	isExit        = object(maybe("code", isNatural), maybe("signal", isCount))
	isEvidence    = object(need("ledger_complete", isKnown), need("intact", isBool), need("unwritten_events", isNatural), need("write_failures", isNatural), need("gaps", isCounts), maybe("first_failing_seq", isNatural))
	isOps         = object(need("evidence", isEvidence))
	isProof       = exactly(need("index", isNatural), need("size", isNatural), need("hashes", listOf(0, 64, hex64)))
	isPair        = exactly(need("event", isObject), need("proof", isProof))
	isEndorsement = exactly(need("alg", oneOf("ed25519")), need("key", hex64), need("value", hex128))
	isContinues   = exactly(need("size", isCount), need("root", hex64), need("head", hex64))
)

func lacking(what, name string) error {
	if name == "" {
		return nil
	}
	return fmt.Errorf("%s: member %q is missing or of another shape", what, name)
}
