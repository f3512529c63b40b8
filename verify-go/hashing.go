package main

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"math/big"
)

// Hashes, trees (T-1) and signatures (T-6).

type digest = [32]byte

// hashOf is SHA-256 of bytes that begin with their domain.
func hashOf(data []byte) []byte {
	sum := sha256.Sum256(data)
	return sum[:]
}

func node(left, right digest) digest {
	var both [65]byte
	both[0] = 1
	copy(both[1:], left[:])
	copy(both[33:], right[:])
	return sha256.Sum256(both[:])
}

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

// Frontier is the right edge of a growing tree.
type Frontier struct {
	size  int64
	edges []digest // of complete subtrees, largest first: one for each set bit of size
}

func (f *Frontier) add(leaf digest) {
	for n := f.size; n&1 == 1; n >>= 1 {
		leaf = node(f.edges[len(f.edges)-1], leaf)
		f.edges = f.edges[:len(f.edges)-1]
	}
	f.edges = append(f.edges, leaf)
	f.size++
}

func (f *Frontier) root() digest {
	if f.size == 0 {
		return sha256.Sum256(nil)
	}
	root := f.edges[len(f.edges)-1]
	for i := len(f.edges) - 2; i >= 0; i-- {
		root = node(f.edges[i], root)
	}
	return root
}

// included verifies an inclusion proof (RFC 9162 section 2.1.3.2).
func included(leaf, root digest, proof *Value, index, size int64) bool {
	if proof.Get("index").Num != index || proof.Get("size").Num != size || index >= size {
		return false
	}
	fn, sn, r := index, size-1, leaf
	for i := range proof.Get("hashes").Items {
		p := digestOf(&proof.Get("hashes").Items[i])
		if sn == 0 {
			return false
		}
		if fn&1 == 1 || fn == sn {
			r = node(p, r)
			for fn&1 == 0 && fn != 0 {
				fn, sn = fn>>1, sn>>1
			}
		} else {
			r = node(r, p)
		}
		fn, sn = fn>>1, sn>>1
	}
	return sn == 0 && r == root
}

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

func hashPlain(data []byte) digest { return sha256.Sum256(data) }
