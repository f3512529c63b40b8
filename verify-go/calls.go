package main

import "errors"

// Section 3, L-12 and L-13: calls.

// Calls keeps what L-12 needs: open calls, unseen numbers, ends without a request.
type Calls struct {
	next      int64
	open      map[int64]bool
	unseen    map[int64]bool
	unasked   int64 // ends without a request
	disclosed map[string]int64
}

func newCalls() *Calls {
	return &Calls{next: 1, open: map[int64]bool{}, unseen: map[int64]bool{}, disclosed: map[string]int64{}}
}

func (c *Calls) add(e *Event) error {
	switch e.Type {
	case "model.request", "model.cache_hit":
		call := e.int("call")
		if call < c.next {
			return errors.New("a call is introduced twice or out of order")
		}
		if err := c.introduce(call); err != nil {
			return err
		}
		if e.Type == "model.request" {
			if c.open[call] = true; len(c.open) > maxOpen {
				return errors.New("more than 65,536 open calls")
			}
		}
	case "model.response", "model.error":
		return c.end(e.int("call"))
	case "x-docket.ledger-gap":
		c.disclose(e.Data.At("lost", "types"))
	}
	return nil
}

func (c *Calls) introduce(call int64) error {
	if int64(len(c.unseen))+call-c.next > maxOpen {
		return errors.New("more than 65,536 call numbers are missing")
	}
	for ; c.next < call; c.next++ {
		c.unseen[c.next] = true
	}
	c.next = call + 1
	return nil
}

func (c *Calls) end(call int64) error {
	switch {
	case c.open[call]:
		delete(c.open, call)
	case c.unseen[call]:
		delete(c.unseen, call)
		c.unasked++
	case call >= c.next:
		c.unasked++
		return c.introduce(call)
	default:
		return errors.New("a call ends twice, or was a cache hit")
	}
	return nil
}

// disclose takes counts of lost events by type.
func (c *Calls) disclose(types *Value) {
	for i, name := range types.Names {
		if !lostTypes[name] {
			continue
		}
		c.disclosed[name] += types.Items[i].Num // a sum above 2^53-1 ends the reading
	}
}

var lostTypes = map[string]bool{"model.request": true, "model.response": true, "model.error": true, "model.cache_hit": true}

// explained applies L-13: whether what is missing was disclosed.
func (c *Calls) explained() bool {
	unseen := int64(len(c.unseen))
	gaps := unseen - min(unseen, c.disclosed["model.cache_hit"])
	ends := c.disclosed["model.response"] + c.disclosed["model.error"]
	return int64(len(c.open)) <= ends && c.unasked+gaps <= c.disclosed["model.request"]
}
