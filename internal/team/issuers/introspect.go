package issuers

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4/json"

	"github.com/dragoman-mcp/dragoman/internal/base/work"
)

// Bounds of questions about opaque tokens.
const (
	askTime     = 10 * time.Second
	askAgain    = time.Minute // how long an answer is good
	mostAsked   = 12          // questions at once, so that nobody can use us to flood an issuer
	mostKnown   = 4           // as many more about tokens that have let somebody in, which no flood of guesses delays
	mostWaiting = 1000        // questions about other tokens
)

// asks are the questions about opaque tokens that run. All who wait for an answer about one token share it.
type asks struct {
	x     *issuer
	room  chan struct{} // has an element for each question that runs
	known chan struct{} // the same, for tokens that have let somebody in
	log   func(error)

	life    context.Context
	end     context.CancelFunc
	running work.Group

	mu  sync.Mutex
	all map[sum]*ask
}

// ask is a question that runs. The result may be read when done is closed.
type ask struct {
	done chan struct{}
	b    *bearer
	err  error
}

func newAsks(x *issuer, log *slog.Logger) *asks {
	a := &asks{x: x, room: make(chan struct{}, mostAsked), known: make(chan struct{}, mostKnown), all: map[sum]*ask{}}
	a.life, a.end = context.WithCancel(context.Background())
	a.log = onceUntilMended(func(err error) {
		log.Warn("an issuer cannot be asked about tokens", "issuer", x.Issuer.Issuer, "cause", err.Error())
	}, func() {
		log.Info("an issuer can be asked about tokens again", "issuer", x.Issuer.Issuer)
	})
	return a
}

func (a *asks) close() {
	a.end()
	a.running.Wait()
}

// about returns whose an opaque token is. again says that it has let somebody in before.
func (a *asks) about(ctx context.Context, token string, again bool) (*bearer, error) {
	if token == "" || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) { // RFC 6750 §2.1
		return nil, errMalformed
	}
	q := a.begin(sumOf(token), token, again)
	if q == nil {
		return nil, errWeather
	}
	select {
	case <-q.done:
		return q.b, q.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// begin asks about a token, unless somebody does already. It returns nil if there are too many questions, or when we're
// closing.
func (a *asks) begin(h sum, token string, again bool) *ask {
	a.mu.Lock()
	defer a.mu.Unlock()
	if q := a.all[h]; q != nil {
		return q
	}
	q := &ask{done: make(chan struct{})}
	if !again && len(a.all) >= mostWaiting || !a.running.Go(func() { a.run(q, h, token, again) }) {
		return nil
	}
	a.all[h] = q
	return q
}

func (a *asks) run(q *ask, h sum, token string, again bool) {
	ctx, cancel := context.WithTimeout(a.life, askTime)
	defer cancel()
	q.err = errWeather
	var room chan struct{}
	own := a.known
	if !again {
		own = nil // there is never any room in it
	}
	select {
	case own <- struct{}{}:
		room = own
	case a.room <- struct{}{}:
		room = a.room
	case <-ctx.Done():
	}
	if room != nil {
		body, err := a.x.reach.ask(ctx, a.x.Client, token)
		<-room
		if err == nil {
			q.b, q.err = a.x.judgeAnswer(body, time.Now())
		}
		if a.life.Err() == nil {
			a.log(err)
		}
	}
	a.mu.Lock()
	delete(a.all, h)
	a.mu.Unlock()
	close(q.done)
}

// judgeAnswer returns whose a token is of which the issuer says this (RFC 7662 §2.2).
func (x *issuer) judgeAnswer(body []byte, now time.Time) (*bearer, error) {
	c, ok := readClaims(body)
	var active bool
	if !ok || json.Unmarshal(c.raw["active"], &active) != nil {
		return nil, errWeather
	}
	switch {
	case !active:
		return nil, errInactive
	case c.issuer != "" && c.issuer != x.Issuer.Issuer:
		return nil, errMalformed
	case c.has("token_type") && !strings.EqualFold(c.text("token_type"), "Bearer") && !strings.EqualFold(c.text("token_type"), "access_token"):
		return nil, errBound
	case c.expires.IsZero():
		c.expires = now.Add(askAgain) // the issuer keeps the time, and we ask again
	}
	b, err := x.judge(c, now)
	if err == nil {
		b.until = now.Add(min(askAgain, c.expires.Sub(now)))
	}
	return b, err
}

// onceUntilMended returns a function that calls failed with the first of several errors in a row, and mended with
// the first nil after them.
func onceUntilMended(failed func(error), mended func()) func(error) {
	var mu sync.Mutex
	was := false
	return func(err error) {
		mu.Lock()
		before := was
		was = err != nil
		mu.Unlock()
		switch {
		case err != nil && !before:
			failed(err)
		case err == nil && before:
			mended()
		}
	}
}
