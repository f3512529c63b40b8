package main

import (
	"crypto/sha256"
)

// Section 4, T-1: Merkle trees and proofs of inclusion.

func node(left, right digest) digest {
	var both [65]byte
	both[0] = 1
	copy(both[1:], left[:])
	copy(both[33:], right[:])
	return sha256.Sum256(both[:])
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
