package main

import (
	"bytes"
	"errors"
	"strings"
	"unicode/utf8"
)

// Section 1: the canonical grammar.
//
// A Value is a parsed document. Because only canonical bytes are recognised, Raw of any value is its own canonical
// encoding, and nothing is ever encoded again.

// Value is one JSON value. Kind is 'n' null, 't' true, 'f' false, '0' integer, 's' string, 'o' object, 'a' array.
type Value struct {
	Kind    byte
	private bool // a member named private stands in it, or below
	Num     int64
	Raw     []byte
	*compound
}

// compound is what a value holds; most hold nothing, and share one.
type compound struct {
	Names []string // of an object, in order
	Items []Value  // members of an object, elements of an array
}

var nothing = new(compound)

var errCanonical = errors.New("not in canonical form")

// parser builds Values in memory of its own, which the next document that it reads takes over.
type parser struct {
	data     []byte
	at       int
	last     Value    // the value that was read last
	event    Event    // and the event, where the document is one
	names    []string // of the objects under way
	items    []Value
	ownNames slab[string] // of finished ones
	ownItems slab[Value]
	own      slab[compound]
}

// slab keeps values where they stay: what it gave away never moves.
type slab[T any] struct{ current []T }

const (
	smallSlab = 64
	largeSlab = 8192
)

// keep gives a copy of some that lasts until the next document.
func (s *slab[T]) keep(some []T) []T {
	at := len(s.current)
	if len(some) > cap(s.current)-at {
		size := min(max(smallSlab, 2*cap(s.current)), largeSlab)
		s.current, at = make([]T, 0, max(size, len(some))), 0
	}
	s.current = append(s.current, some...)
	return s.current[at:len(s.current):len(s.current)]
}

func (s *slab[T]) reset() { s.current = s.current[:0] }

// compound makes the value of an object or array, whose members are those behind these marks of the stacks.
func (p *parser) compound(kind byte, start, names, items int) {
	held := &p.own.keep([]compound{{p.ownNames.keep(p.names[names:]), p.ownItems.keep(p.items[items:])}})[0]
	p.names, p.items = p.names[:names], p.items[:items]
	private := false
	for i := range held.Items {
		private = private || held.Items[i].private || kind == 'o' && held.Names[i] == "private"
	}
	p.last = Value{Kind: kind, Raw: p.data[start:p.at], compound: held, private: private}
}

// parse reads one canonical document without its line feed (C-2 to C-6).
func parse(data []byte) (Value, error) { return new(parser).parse(data) }

func (p *parser) parse(data []byte) (Value, error) {
	if !utf8.Valid(data) {
		return Value{}, errors.New("not UTF-8")
	}
	p.data, p.at = data, 0
	p.names, p.items = p.names[:0], p.items[:0]
	p.ownNames.reset()
	p.ownItems.reset()
	p.own.reset()
	if err := p.value(1); err != nil {
		return Value{}, err
	}
	if p.at != len(data) {
		return Value{}, errors.New("bytes after the document")
	}
	return p.last, nil
}

// document is parse for a document, which is an object whose private members are whole (C-1, S-1).
func (p *parser) document(data []byte) (Value, error) {
	value, err := p.parse(data)
	if err != nil {
		return value, err
	}
	if value.Kind != 'o' {
		return value, errors.New("not an object")
	}
	return value, checkPrivate(&value)
}

// document takes one document and its single LF (C-1).
func document(data []byte) (Value, error) {
	if !bytes.HasSuffix(data, []byte{'\n'}) {
		return Value{}, errors.New("does not end in a line feed")
	}
	return new(parser).document(data[:len(data)-1])
}

func (p *parser) peek() byte {
	if p.at < len(p.data) {
		return p.data[p.at]
	}
	return 0
}

// value reads the next value, which is then the last.
func (p *parser) value(depth int) error {
	start := p.at
	switch b := p.peek(); {
	case b == '"':
		if _, err := p.text(); err != nil {
			return err
		}
		p.last = Value{compound: nothing, Kind: 's', Raw: p.data[start:p.at]}
		return nil
	case b == '{':
		return p.object(depth)
	case b == '[':
		return p.array(depth)
	case b == '-' || b >= '0' && b <= '9':
		return p.integer()
	}
	for _, word := range [...]string{"true", "false", "null"} {
		if rest := p.data[p.at:]; len(rest) >= len(word) && string(rest[:len(word)]) == word {
			p.at += len(word)
			p.last = Value{compound: nothing, Kind: word[0], Raw: p.data[start:p.at]}
			return nil
		}
	}
	return errCanonical
}

func (p *parser) integer() error {
	start := p.at
	negative := p.peek() == '-'
	if negative {
		p.at++
	}
	first := p.at
	var number int64
	for b := p.peek(); b >= '0' && b <= '9'; b = p.peek() {
		number = number*10 + int64(b-'0')
		p.at++
		if number > maxInt {
			return errors.New("integer beyond 2^53-1")
		}
	}
	digits := p.data[first:p.at]
	if len(digits) == 0 || digits[0] == '0' && (len(digits) > 1 || negative) {
		return errCanonical
	}
	if negative {
		number = -number
	}
	p.last = Value{compound: nothing, Kind: '0', Num: number, Raw: p.data[start:p.at]}
	return nil
}

// text reads a string and reports whether it holds an escape.
func (p *parser) text() (bool, error) {
	escaped := false
	p.at++
	for {
		for p.at < len(p.data) && plainBytes[p.data[p.at]] {
			p.at++
		}
		if p.at == len(p.data) {
			return escaped, errCanonical
		}
		switch b := p.data[p.at]; {
		case b == '"':
			p.at++
			return escaped, nil
		case b < 0x20:
			return escaped, errCanonical
		}
		escaped = true
		if err := p.escape(); err != nil {
			return escaped, err
		}
	}
}

// plainBytes stand for themselves in a string.
var plainBytes = func() (found [256]bool) {
	for b := range found {
		found[b] = b >= 0x20 && b != '"' && b != '\\'
	}
	return found
}()

func (p *parser) escape() error {
	rest := p.data[p.at:]
	if len(rest) < 2 {
		return errCanonical
	}
	if strings.IndexByte(`"\bfnrt`, rest[1]) >= 0 {
		p.at += 2
		return nil
	}
	if len(rest) < 6 || string(rest[1:4]) != "u00" {
		return errCanonical
	}
	high, low := rest[4], rest[5]
	if high != '0' && high != '1' || !(low >= '0' && low <= '9' || low >= 'a' && low <= 'f') {
		return errCanonical
	}
	if high == '0' && strings.IndexByte("89acd", low) >= 0 { // these have a short escape
		return errCanonical
	}
	p.at += 6
	return nil
}

func (p *parser) object(depth int) error {
	if depth > maxDepth {
		return errors.New("nested deeper than 32")
	}
	start, names, items := p.at, len(p.names), len(p.items)
	p.at++
	for p.peek() != '}' {
		if len(p.names) > names {
			if p.peek() != ',' {
				return errCanonical
			}
			p.at++
		}
		name, err := p.name()
		if err != nil {
			return err
		}
		if len(p.names) > names && p.names[len(p.names)-1] >= name {
			return errors.New("members not sorted, or twice")
		}
		if p.peek() != ':' {
			return errCanonical
		}
		p.at++
		if err := p.value(depth + 1); err != nil {
			return err
		}
		p.names, p.items = append(p.names, name), append(p.items, p.last)
	}
	p.at++
	p.compound('o', start, names, items)
	return nil
}

func (p *parser) name() (string, error) {
	if p.peek() != '"' {
		return "", errCanonical
	}
	start := p.at
	if name, known := goodNames.find(p.data[start+1:]); known {
		p.at += len(name) + 2
		return name, nil
	}
	escaped, err := p.text()
	if err != nil {
		return "", err
	}
	name := intern(p.data[start+1 : p.at-1])
	if escaped {
		name = unescape(p.data[start:p.at])
	}
	if len(name) < 1 || len(name) > maxName || !printable(name) {
		return "", errors.New("member name is not 1 to 128 characters of U+0020 to U+007E")
	}
	if !escaped {
		goodNames.put(name)
	}
	return name, nil
}

// nameTable holds names that were found good, without escapes, each where its first bytes and its length put it.
type nameTable [1024]string

var goodNames nameTable

func (t *nameTable) slot(length int, first, last byte) *string {
	return &t[(length*67+int(first)*13+int(last)*5)&1023]
}

// find gives the name that text begins with, up to its quote, if it is here.
func (t *nameTable) find(text []byte) (string, bool) {
	length := bytes.IndexByte(text, '"')
	if length < 1 {
		return "", false
	}
	known := *t.slot(length, text[0], text[length-1])
	return known, known == string(text[:length])
}

func (t *nameTable) put(name string) { *t.slot(len(name), name[0], name[len(name)-1]) = name }

func (p *parser) array(depth int) error {
	if depth > maxDepth {
		return errors.New("nested deeper than 32")
	}
	start, items := p.at, len(p.items)
	p.at++
	for p.peek() != ']' {
		if len(p.items) > items {
			if p.peek() != ',' {
				return errCanonical
			}
			p.at++
		}
		if err := p.value(depth + 1); err != nil {
			return err
		}
		p.items = append(p.items, p.last)
	}
	p.at++
	p.compound('a', start, len(p.names), items)
	return nil
}

// seen holds member names, types and kinds that occurred: they recur, and each is made a string once.
var seen = map[string]string{}

const maxSeen = 4096

// recent are those of them that came last, by length and ends: most texts are found here.
var recent nameTable

func intern(text []byte) string {
	if len(text) == 0 {
		return ""
	}
	slot := recent.slot(len(text), text[0], text[len(text)-1])
	if *slot == string(text) {
		return *slot
	}
	known, ok := seen[string(text)]
	if !ok {
		known = string(text)
		if len(seen) >= maxSeen || len(text) > maxName {
			return known
		}
		seen[known] = known
	}
	*slot = known
	return known
}

func printable(text string) bool {
	for i := 0; i < len(text); i++ {
		if text[i] < 0x20 || text[i] > 0x7e {
			return false
		}
	}
	return true
}

// unescape decodes a canonical string with its quotes.
func unescape(raw []byte) string {
	inner := raw[1 : len(raw)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		return intern(inner)
	}
	out := make([]byte, 0, len(inner))
	for i := 0; i < len(inner); i++ {
		if inner[i] != '\\' {
			out = append(out, inner[i])
			continue
		}
		i++
		switch inner[i] {
		case 'b':
			out = append(out, '\b')
		case 'f':
			out = append(out, '\f')
		case 'n':
			out = append(out, '\n')
		case 'r':
			out = append(out, '\r')
		case 't':
			out = append(out, '\t')
		case 'u':
			out = append(out, nibble(inner[i+3])<<4|nibble(inner[i+4]))
			i += 4
		default:
			out = append(out, inner[i])
		}
	}
	return string(out)
}

func nibble(b byte) byte {
	if b >= 'a' {
		return b - 'a' + 10
	}
	return b - '0'
}

// Text is the decoded string; empty for anything else.
func (v *Value) Text() string {
	if v.Kind != 's' {
		return ""
	}
	return unescape(v.Raw)
}

// Get is the member called name, or nil.
func (v *Value) Get(name string) *Value {
	for i, own := range v.Names {
		if own == name {
			return &v.Items[i]
		}
	}
	return nil
}

// At follows a path of members; nil where one is missing.
func (v *Value) At(path ...string) *Value {
	for _, name := range path {
		if v == nil {
			return nil
		}
		v = v.Get(name)
	}
	return v
}

// appendText appends the canonical spelling of a member name.
func appendText(out []byte, name string) []byte {
	out = append(out, '"')
	for i := 0; i < len(name); i++ {
		if name[i] == '"' || name[i] == '\\' {
			out = append(out, '\\')
		}
		out = append(out, name[i])
	}
	return append(out, '"')
}
