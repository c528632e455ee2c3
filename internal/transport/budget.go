package transport

import "sync/atomic"

// Budget bounds the bytes of all messages that are held at once: bodies that are
// being read, requests that run, answers on their way to clients that read slowly.
// Beyond it new requests are refused, since a process that runs out of memory ends
// the calls of everybody. A nil *Budget bounds nothing. Safe for concurrent use.
type Budget struct {
	limit         int64
	held, refused atomic.Int64
}

// NewBudget returns a budget of so many bytes, which must be positive.
func NewBudget(limit int64) *Budget { return &Budget{limit: limit} }

// Take holds n bytes more, or reports false when that is too much. The first
// message always fits, however large it may be.
func (b *Budget) Take(n int64) bool { return b == nil || b.takeUpTo(b.limit, n) }

// TakeSmall is Take for a small part of a message, or a small one: it may use an eighth
// beyond the limit. What ends the requests that hold the rest is small, an answer to a
// question, a cancellation or a retry, and must not wait for what waits for it.
func (b *Budget) TakeSmall(n int64) bool { return b == nil || b.takeUpTo(b.limit+b.limit/8, n) }

func (b *Budget) takeUpTo(most, n int64) bool {
	if now := b.held.Add(n); now > most && now > n {
		b.held.Add(-n)
		b.refused.Add(1)
		return false
	}
	return true
}

// Hold holds n bytes that are there already: the answer to what was let in.
func (b *Budget) Hold(n int64) {
	if b != nil {
		b.held.Add(n)
	}
}

// Give gives back what Take or Hold has taken.
func (b *Budget) Give(n int64) {
	if b != nil {
		b.held.Add(-n)
	}
}

// Budgeted is how a budget is: the bytes that are held, those that may be, and how
// often a request was refused.
type Budgeted struct{ Held, Limit, Refused int64 }

// State returns how the budget is; the zero value for nil.
func (b *Budget) State() Budgeted {
	if b == nil {
		return Budgeted{}
	}
	return Budgeted{b.held.Load(), b.limit, b.refused.Load()}
}
