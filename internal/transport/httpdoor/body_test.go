package httpdoor

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// unsized is a reader that does not reveal the length of a body.
type unsized struct{ io.Reader }

// read reads a body of n bytes as the body of a request.
func read(n int, sized bool, lim BodyLimits) (got int, held Lease, status int) {
	var body io.Reader = strings.NewReader(strings.Repeat("x", n))
	if !sized {
		body = unsized{body}
	}
	w := httptest.NewRecorder()
	b, held, ok := ReadBody(w, httptest.NewRequest(http.MethodPost, "/", body), lim)
	if ok {
		return len(b), held, 0
	}
	return 0, held, w.Code
}

// TestLargestBodyFitsABudgetOfItsSize checks that a body fits a budget of its own size, whether its
// length is known or not.
func TestLargestBodyFitsABudgetOfItsSize(t *testing.T) {
	const limit = 1 << 20
	for _, sized := range []bool{true, false} {
		lim := BodyLimits{Bytes: limit, Budget: transport.NewBudget(limit)}
		got, held, status := read(limit, sized, lim)
		if got != limit || lim.Budget.State().Held != limit {
			t.Errorf("sized %t: %d bytes were read, %d are held, status %d", sized, got, lim.Budget.State().Held, status)
		}
		held.Give()
		if _, _, status := read(limit+1, sized, lim); status != http.StatusRequestEntityTooLarge {
			t.Errorf("sized %t: a body with one byte more: %d", sized, status)
		}
		if n := lim.Budget.State().Held; n != 0 {
			t.Errorf("sized %t: %d bytes are still held", sized, n)
		}
	}
}

// TestSmallBodiesComeThrough checks that small bodies are accepted when the budget is used up.
// Answers to server requests, cancellations and retries are small, and they end the requests
// that use the budget.
func TestSmallBodiesComeThrough(t *testing.T) {
	for _, sized := range []bool{true, false} {
		lim := BodyLimits{Bytes: 4 << 20, Budget: transport.NewBudget(8 << 20)}
		lim.Budget.Hold(8 << 20)
		if _, _, status := read(1<<20, sized, lim); status != http.StatusServiceUnavailable {
			t.Errorf("sized %t: a large body: %d", sized, status)
		}
		let, last := 0, 0
		for range 100 {
			_, _, status := read(60<<10, sized, lim)
			if last = status; status == 0 {
				let++
			}
		}
		if let < 10 || last != http.StatusServiceUnavailable {
			t.Errorf("sized %t: %d small bodies were accepted, the last got %d", sized, let, last)
		}
		if s := lim.Budget.State(); s.Held > s.Limit+s.Limit/8 {
			t.Errorf("sized %t: %d bytes of %d are held", sized, s.Held, s.Limit)
		}
	}
}
