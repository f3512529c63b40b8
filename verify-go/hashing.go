package main

import (
	"crypto/sha256"
	"encoding/hex"
)

// SHA-256 and hex.

type digest = [32]byte

// hashOf is SHA-256 of bytes that begin with their domain.
func hashOf(data []byte) []byte {
	sum := sha256.Sum256(data)
	return sum[:]
}

func hashPlain(data []byte) digest { return sha256.Sum256(data) }

func hexOf(d digest) string { return hex.EncodeToString(d[:]) }

// bytesOf decodes a string of hex that was checked before.
func bytesOf(v *Value) []byte {
	out, _ := hex.DecodeString(v.Text())
	return out
}

func digestOf(v *Value) digest {
	var out digest
	_, _ = hex.Decode(out[:], v.Raw[1:len(v.Raw)-1])
	return out
}
