package transport

import "sync/atomic"

// Budget limits the bytes of all messages in memory: bodies that are being read, running requests,
// and answers for slow clients. Above the limit, new requests are refused, because running out of
// memory would end the calls of all clients. A nil *Budget has no limit. Budget is safe for
// concurrent use.
type Budget struct {
	whole                *Budget // what a part belongs to; nil for a budget of its own
	limit, held, refused atomic.Int64
}

// NewBudget returns a budget with a limit in bytes, which must be positive.
func NewBudget(limit int64) *Budget {
	b := &Budget{}
	b.SetLimit(limit)
	return b
}

// Part returns a budget with a limit of its own, whose bytes count in b too. So who uses up a part
// leaves room for those who use other parts. A part of nil has only its own limit.
func (b *Budget) Part(limit int64) *Budget {
	part := NewBudget(limit)
	part.whole = b
	return part
}

// SetLimit changes the limit, which must be positive. What is reserved already stays so.
func (b *Budget) SetLimit(limit int64) { b.limit.Store(limit) }

// Take reserves n bytes and returns true. If the limit would be exceeded, Take reserves nothing and
// returns false. But if no other bytes are reserved, Take reserves any number of bytes.
func (b *Budget) Take(n int64) bool { return b.take(n, false) }

// TakeSmall does the same as Take for a small message, or for a small part of a message. It may
// exceed the limit by one eighth. Small messages, such as answers to server requests, cancellations
// and retries, end requests that use memory. So small messages should not be refused when memory is
// short.
func (b *Budget) TakeSmall(n int64) bool { return b.take(n, true) }

func (b *Budget) take(n int64, small bool) bool {
	if b == nil {
		return true
	}
	most := b.limit.Load()
	if small {
		most += most / 8
	}
	if now := b.held.Add(n); now > most && now > n || !b.whole.take(n, small) {
		b.held.Add(-n)
		b.refused.Add(1)
		return false
	}
	return true
}

// Hold reserves n bytes that are already in memory, such as the answer to an accepted request.
func (b *Budget) Hold(n int64) {
	for ; b != nil; b = b.whole {
		b.held.Add(n)
	}
}

// Give releases bytes that Take, TakeSmall or Hold has reserved.
func (b *Budget) Give(n int64) { b.Hold(-n) }

// Budgeted is the state of a budget: the bytes in use, the limit, and the number of refused
// requests.
type Budgeted struct{ Held, Limit, Refused int64 }

// State returns the state of the budget. If b is nil, State returns the zero value.
func (b *Budget) State() Budgeted {
	if b == nil {
		return Budgeted{}
	}
	return Budgeted{b.held.Load(), b.limit.Load(), b.refused.Load()}
}
