package stdio

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// verdicts reads p to its end. It describes each message in one line, and each refused line by how
// Read classified it.
func verdicts(p *Pipe) []string {
	var got []string
	for {
		m, err := p.Read()
		var bad *transport.BadAnswer
		var refused *jsonrpc.Error
		switch {
		case err == nil:
			got = append(got, "message "+string(m.ID))
		case errors.As(err, &bad):
			got = append(got, fmt.Sprintf("answer to %s, too large %v", bad.ID, errors.Is(err, transport.ErrTooLarge)))
		case errors.As(err, &refused):
			got = append(got, fmt.Sprintf("refused %s, too large %v", refused.ID, errors.Is(err, transport.ErrTooLarge)))
		default:
			return append(got, err.Error())
		}
	}
}

func TestRefusedLineSaysWhatItAnswers(t *testing.T) {
	long := strings.Repeat("x", 3*readBuffer)
	stream := strings.Join([]string{
		`{"jsonrpc":"2.0","id":5,"result":{"x":NaN}}`,
		`Server started`,
		`{"jsonrpc":"2.0","id":6,"result":{"x":"` + long + `"}}`,
		pong,
		`{"result":{"x":"` + long + `"},"jsonrpc":"2.0","id":7}`,
		`{"jsonrpc":"2.0","id":8,"method":"x","params":{"x":"` + long + `"}}`,
		`{"jsonrpc":"2.0","method":"notifications/message","params":{"x":"` + long + `"}}`,
		long,
		pong,
		`{"jsonrpc":"2.0","id":9,"result":{"x":`,
	}, "\n")
	p := reading(strings.NewReader(stream), Options{Limits: jsonrpc.Limits{Bytes: readBuffer + 7}})
	wantLines(t, verdicts(p),
		"answer to 5, too large false", "refused , too large false", "answer to 6, too large true", "message 1",
		"answer to 7, too large true", "refused 8, too large true", "refused , too large true", "answer to , too large true",
		"message 1", "refused , too large false", "EOF")
}

// TestTooLongAnAnswerIsReportedAtOnce checks a line that is over the limit and has its id near its
// start. The error is reported, with the id, before the line ends, because the line may never end.
func TestTooLongAnAnswerIsReportedAtOnce(t *testing.T) {
	r, w := io.Pipe()
	defer w.Close()
	var wg sync.WaitGroup
	defer wg.Wait()
	defer r.Close()
	wg.Go(func() {
		_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":5,"result":{"x":"`+strings.Repeat("x", readBuffer))
	})
	_, err := reading(r, Options{Limits: jsonrpc.Limits{Bytes: 100}}).Read()
	var bad *transport.BadAnswer
	if !errors.As(err, &bad) || bad.ID != "5" || !errors.Is(err, transport.ErrTooLarge) {
		t.Errorf("got %v, want the answer to 5, too large", err)
	}
}

func TestLineWithoutEndIsFinal(t *testing.T) {
	for _, front := range []string{`{"jsonrpc":"2.0","id":5,"result":{"x":"`, `{"result":{"x":"`, ``} {
		p := reading(io.MultiReader(strings.NewReader(pong+"\n"+front), io.LimitReader(endless('x'), 1<<20)), Options{Limits: jsonrpc.Limits{Bytes: 1000}})
		p.in.endless = 100 << 10
		got := verdicts(p)
		if last := got[len(got)-1]; last != transport.ErrEndless.Error() || got[0] != "message 1" || len(got) > 3 {
			t.Errorf("%s: got %q", front, got)
		}
		if _, err := p.Read(); !errors.Is(err, transport.ErrEndless) {
			t.Errorf("%s: the next error is %v", front, err)
		}
	}
	if transport.Endless(1<<10) != 256<<20 || transport.Endless(1<<30) != 16<<30 {
		t.Error("the limit has changed")
	}
}

// TestLineThatStopsIsFinal checks a line over the limit that stops in the middle. The error is
// final, because the rest of the line could not be distinguished from the next message.
func TestLineThatStopsIsFinal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		p := reading(r, Options{Limits: jsonrpc.Limits{Bytes: 100}})
		var wg sync.WaitGroup
		wg.Go(func() {
			for range 5 { // a line may arrive slowly, if no pause in it reaches maxStall
				_, _ = io.WriteString(w, strings.Repeat("x", readBuffer))
				time.Sleep(maxStall - time.Second)
			}
			_, _ = io.WriteString(w, "\n"+pong+"\n")
			time.Sleep(time.Hour) // a long pause between two lines is allowed
			_, _ = io.WriteString(w, pong+"\n"+strings.Repeat("x", readBuffer))
		})
		var err error
		for range 4 {
			_, err = p.Read()
		}
		if !errors.Is(err, transport.ErrTooLarge) {
			t.Errorf("got %v", err)
		}
		time.Sleep(time.Hour) // only the time while Read waits counts towards maxStall
		before := time.Now()
		if _, err = p.Read(); err != transport.ErrEndless || time.Since(before) != maxStall {
			t.Errorf("got %v after %v", err, time.Since(before))
		}
		wg.Wait()
	})
}
