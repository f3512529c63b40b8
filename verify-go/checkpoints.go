package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
)

// Section 4, T-5, and P-4: the file of checkpoints beside the ledger.

// NoteReader reads a file of notes one by one.
type NoteReader struct {
	in   *bufio.Reader
	torn bool // after the end: bytes of an unfinished note followed the last one
}

// next is the next whole note, nil at the end or at a torn one.
func (r *NoteReader) next() (*Note, error) {
	var text []byte
	for lines := 0; lines < 6; lines++ {
		line, err := r.line()
		if err != nil {
			return nil, err
		}
		text = append(text, line...)
		if !bytes.HasSuffix(line, []byte{'\n'}) {
			r.torn = len(text) > 0
			return nil, nil
		}
	}
	return readNote(string(text))
}

func (r *NoteReader) line() ([]byte, error) {
	line, err := r.in.ReadSlice('\n')
	if err != nil && err != io.EOF && err != bufio.ErrBufferFull {
		return nil, err
	}
	if len(bytes.TrimSuffix(line, []byte{'\n'})) >= maxNoteLine || err == bufio.ErrBufferFull {
		return nil, errNote
	}
	return append([]byte{}, line...), nil
}

// Checkpoints judges notes while the ledger grows (P-4).
type Checkpoints struct {
	reader   *NoteReader
	limit    int64 // ledger.size of the receipt; -1 without one
	docket   string
	pending  *Note
	last     *Note
	judged   bool
	beyond   bool // a note above limit ended the reading
	failure  *Failure
	finished bool
}

// advance reads the next note and judges what needs no event.
func (c *Checkpoints) advance() {
	c.pending = nil
	if c.finished {
		return
	}
	note, err := c.reader.next()
	if err != nil {
		c.fail("checkpoints.form", err.Error())
		return
	}
	if note == nil {
		c.finished = true
		return
	}
	before, lost := int64(0), int64(maxInt)
	if c.last != nil {
		before, lost = c.last.size, c.last.lost
	}
	switch {
	case note.size < before || note.size == before && note.lost <= lost:
		c.fail("checkpoints.order", fmt.Sprintf("size %d after size %d, and no further loss", note.size, before))
	case c.limit >= 0 && note.size > c.limit:
		c.beyond, c.finished = true, true
	default:
		c.pending = note
	}
}

func (c *Checkpoints) fail(check, detail string) {
	c.judged, c.finished = true, true
	c.failure = &Failure{check, detail}
}

// reached judges the pending note at the size that the ledger has now.
func (c *Checkpoints) reached(l *Ledger) {
	for c.failure == nil && c.pending != nil && c.pending.size == l.tree.size {
		note := c.pending
		docket := c.docket
		if docket == "" {
			docket = l.sessions[0].start.Data.Get("docket").Text()
		}
		switch {
		case note.origin != originOf(docket):
			c.fail("checkpoints.order", "a note of another docket")
		case note.root != l.tree.root():
			c.fail("checkpoints.root", fmt.Sprintf("the note of size %d has another root", note.size))
		case !note.signedBy(l.current().runKey()):
			c.fail("checkpoints.signature", fmt.Sprintf("the note of size %d is not signed by the run key", note.size))
		case note.lost < l.figures.lost || c.last != nil && note.lost < c.last.lost:
			c.fail("checkpoints.lost", fmt.Sprintf("the note of size %d tells of fewer losses than before", note.size))
		default:
			c.judged, c.last = true, note
			l.current().note = note
			c.advance()
		}
	}
}

// end judges what is left once no further event is read.
func (c *Checkpoints) end(l *Ledger) {
	if c.failure == nil && c.pending != nil {
		c.fail("checkpoints.size", fmt.Sprintf("a note over %d events; the ledger has %d", c.pending.size, l.tree.size))
	}
}

// followed says whether anything stands behind the last note that was judged.
func (c *Checkpoints) followed() bool { return c.beyond || c.reader.torn }
