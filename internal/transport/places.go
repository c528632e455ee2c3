package transport

import "fmt"

// Places says in which process that what an id names lives. Clients see the ids, so an id
// must not tell them more than that. Implementations are safe for concurrent use and do
// not block.
type Places interface {
	// Mark returns an id as it is given out: one that Of finds here.
	Mark(id string) string
	// Of returns the home of an id that a client sent; "" is this process. The id may be
	// anything.
	Of(id string) (home string)
}

// Elsewhere is the error for an id that lives in another process. Nothing has been done
// with the request.
type Elsewhere struct {
	Home string // as Places.Of returned it
}

func (e *Elsewhere) Error() string { return fmt.Sprintf("it lives in the process %q", e.Home) }

// Alone is the Places of a process without others: ids are as they are made, and all of
// them live here.
type Alone struct{}

// Mark returns the id.
func (Alone) Mark(id string) string { return id }

// Of returns "".
func (Alone) Of(string) string { return "" }
