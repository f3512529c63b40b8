package main

import (
	"encoding/hex"
	"errors"
)

// Section 2: the sealed form. Every private member stands for its commitment.

var scratch []byte // for what is hashed and thrown away

// disclosedShell and withheldSize are the bytes that an object of a private member takes around its value (L-2).
const (
	disclosedShell = 52
	withheldSize   = 81
)

// checkPrivate applies S-1 to every object of a document.
func checkPrivate(v *Value) error {
	if !v.private {
		return nil
	}
	for i := range v.Items {
		if v.Kind == 'o' && v.Names[i] == "private" {
			if err := checkSealable(&v.Items[i]); err != nil {
				return err
			}
		} else if err := checkPrivate(&v.Items[i]); err != nil {
			return err
		}
	}
	return nil
}

func checkSealable(private *Value) error {
	if private.Kind != 'o' || len(private.Items) == 0 {
		return errors.New("private is not an object with members")
	}
	for i := range private.Items {
		member := &private.Items[i]
		if private.Names[i] == "private" || !(isDisclosed(member) || isWithheld(member)) {
			return errors.New("a private member is neither disclosed nor withheld")
		}
	}
	return nil
}

func isDisclosed(v *Value) bool {
	return v.Kind == 'o' && len(v.Names) == 2 && v.Names[0] == "salt" && v.Names[1] == "value" && isHex(&v.Items[0], 32)
}

func isWithheld(v *Value) bool {
	return v.Kind == 'o' && len(v.Names) == 1 && v.Names[0] == "commitment" && isHex(&v.Items[0], 64)
}

// appendSealed appends the canonical bytes of the sealed form of v, without the members called skip of v itself (S-3).
func appendSealed(out []byte, v *Value, skip string) []byte {
	if skip == "" && !v.private {
		return append(out, v.Raw...)
	}
	switch v.Kind {
	case 'o':
		out = append(out, '{')
		first := true
		for i, name := range v.Names {
			if name == skip {
				continue
			}
			if !first {
				out = append(out, ',')
			}
			first = false
			out = append(appendText(out, name), ':')
			if name == "private" {
				out = appendCommitments(out, &v.Items[i])
			} else {
				out = appendSealed(out, &v.Items[i], "")
			}
		}
		return append(out, '}')
	case 'a':
		out = append(out, '[')
		for i := range v.Items {
			if i > 0 {
				out = append(out, ',')
			}
			out = appendSealed(out, &v.Items[i], "")
		}
		return append(out, ']')
	}
	return append(out, v.Raw...)
}

func appendCommitments(out []byte, private *Value) []byte {
	out = append(out, '{')
	for i, name := range private.Names {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(appendText(out, name), ':')
		member := &private.Items[i]
		if isWithheld(member) {
			out = append(out, member.Items[0].Raw...)
			continue
		}
		said := append(appendText(append(scratch[:0], 2, '['), name), ',')
		said = append(append(said, member.Items[0].Raw...), ',')
		said = append(append(said, member.Items[1].Raw...), ']')
		scratch = said
		out = append(out, '"')
		out = hex.AppendEncode(out, hashOf(said))
		out = append(out, '"')
	}
	return append(out, '}')
}

// longerBy is what a line grows by when every private member is counted in its longer form (L-2).
func longerBy(v *Value) int {
	if !v.private {
		return 0
	}
	grown := 0
	for i := range v.Items {
		if v.Kind != 'o' || v.Names[i] != "private" {
			grown += longerBy(&v.Items[i])
			continue
		}
		for j := range v.Items[i].Items {
			if member := &v.Items[i].Items[j]; isDisclosed(member) {
				grown += max(0, withheldSize-disclosedShell-len(member.Items[1].Raw))
			}
		}
	}
	return grown
}

// withheldNames adds the names of withheld members to found.
func withheldNames(v *Value, found map[string]bool) {
	if !v.private {
		return
	}
	for i := range v.Items {
		if v.Kind != 'o' || v.Names[i] != "private" {
			withheldNames(&v.Items[i], found)
			continue
		}
		for j, name := range v.Items[i].Names {
			if len(found) < 64 && isWithheld(&v.Items[i].Items[j]) {
				found[name] = true
			}
		}
	}
}
