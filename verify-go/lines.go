package main

import (
	"bufio"
	"io"
)

// Section 3, L-1: the lines of a ledger.

// Lines reads a ledger's lines; a line is valid until the next is read.
type Lines struct{ in *bufio.Reader }

// next gives a line without its LF; whole is false for a fragment, and for the end (empty).
func (r *Lines) next() (line []byte, whole bool, err error) {
	line, err = r.in.ReadSlice('\n')
	switch {
	case err == nil:
		return line[:len(line)-1], true, nil
	case err == io.EOF:
		if len(line) >= maxLine {
			return nil, false, bufio.ErrBufferFull
		}
		return line, false, nil
	}
	return nil, false, err
}
