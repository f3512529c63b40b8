package main

import (
	"crypto/ed25519"
	"math/big"
)

// Section 4, T-6: Ed25519.

var (
	fieldPrime, _ = new(big.Int).SetString("57896044618658097711785492504343953926634992332820282019728792003956564819949", 10)
	smallOrder    = smallOrderY()
)

func smallOrderY() map[string]bool {
	order8, _ := new(big.Int).SetString("2707385501144840649318225287225658788936804267575313519463743609750303402022", 10)
	one := big.NewInt(1)
	found := map[string]bool{}
	for _, y := range []*big.Int{big.NewInt(0), one, new(big.Int).Sub(fieldPrime, one), order8, new(big.Int).Sub(fieldPrime, order8)} {
		found[y.String()] = true
	}
	return found
}

func soundPoint(encoded []byte) bool {
	reversed := make([]byte, 32)
	for i, b := range encoded {
		reversed[31-i] = b
	}
	reversed[0] &= 0x7f
	y := new(big.Int).SetBytes(reversed)
	return y.Cmp(fieldPrime) < 0 && !smallOrder[y.String()]
}

// signed verifies an Ed25519 signature strictly; crypto/ed25519 itself refuses S >= L.
func signed(key, message, signature []byte) bool {
	return len(key) == 32 && len(signature) == 64 && soundPoint(key) && soundPoint(signature[:32]) &&
		ed25519.Verify(ed25519.PublicKey(key), message, signature)
}
