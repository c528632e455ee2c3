package transport

import "sync/atomic"

// Budget limits the bytes of all messages in memory: bodies being read, running
// requests, answers for slow clients. Above the limit new requests are refused, because
// running out of memory would end the calls of all clients. A nil *Budget has no limit.
// Budget is safe for concurrent use.
type Budget struct {
	limit         int64
	held, refused atomic.Int64
}

// NewBudget returns a budget of limit bytes, which must be positive.
func NewBudget(limit int64) *Budget { return &Budget{limit: limit} }

// Take reserves n bytes, or returns false if that exceeds the limit. The first message
// always fits, however large it is.
func (b *Budget) Take(n int64) bool { return b == nil || b.takeUpTo(b.limit, n) }

// TakeSmall is Take for a small message, or a small part of one: it may use an eighth
// more than the limit. Small messages end the requests that use the memory (answers to
// server requests, cancellations, retries), so they must not wait for that memory.
func (b *Budget) TakeSmall(n int64) bool { return b == nil || b.takeUpTo(b.limit+b.limit/8, n) }

func (b *Budget) takeUpTo(most, n int64) bool {
	if now := b.held.Add(n); now > most && now > n {
		b.held.Add(-n)
		b.refused.Add(1)
		return false
	}
	return true
}

// Hold reserves n bytes that are already in memory: the answer to an admitted request.
func (b *Budget) Hold(n int64) {
	if b != nil {
		b.held.Add(n)
	}
}

// Give releases bytes of Take or Hold.
func (b *Budget) Give(n int64) {
	if b != nil {
		b.held.Add(-n)
	}
}

// Budgeted is the state of a budget: bytes in use, the limit, and the number of refused
// requests.
type Budgeted struct{ Held, Limit, Refused int64 }

// State returns the state of the budget; the zero value for nil.
func (b *Budget) State() Budgeted {
	if b == nil {
		return Budgeted{}
	}
	return Budgeted{b.held.Load(), b.limit, b.refused.Load()}
}
