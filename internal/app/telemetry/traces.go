package telemetry

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/spans"
	"github.com/dragoman-mcp/dragoman/internal/base/work"
)

// These constants bound the memory and the time that traces take. The first three are the defaults of the
// OpenTelemetry SDKs.
const (
	spanQueue  = 2048
	spanBatch  = 512
	spanDelay  = 5 * time.Second
	spanTries  = time.Minute // how long a batch is sent again
	spanFlush  = 2 * time.Second
	mostAnswer = 64 << 10
)

// Traces sends the spans of calls to an OpenTelemetry collector, as OTLP over HTTP. NewTraces starts it, and Close
// stops it. A nil *Traces does nothing.
//
// Calls never wait for it: spans go into a bounded queue, and when it's full, they're dropped and counted. One
// goroutine sends them in batches. It sends a batch again if the collector can't be reached, or answers 429, 502, 503
// or 504, after a pause that doubles or that the collector asks for (OTLP §Failures). Meanwhile the queue fills.
type Traces struct {
	to       *TraceSettings
	version  string
	clean    func(project, server string) func(string) string
	log      *slog.Logger
	http     *http.Client
	queue    chan *spans.Span
	running  work.Group
	life     context.Context // ends the pauses and the requests of the goroutine
	end      context.CancelCauseFunc
	closing  chan struct{}
	flush    time.Duration          // how long Close waits for the collector
	failing  bool                   // only used by the goroutine
	outcomes [outcomes]atomic.Int64 // by outcome
}

// The outcomes of spans.
const (
	spansSent = iota
	spansDropped
	spansRefused
	outcomes
)

var spanOutcomes = [outcomes]string{"sent", "dropped", "refused"}

var errTracesClosed = errors.New("stopping")

// NewTraces returns a Traces that sends spans to the collector of the settings. clean is LogOptions.Clean. If to is nil,
// NewTraces returns nil.
func NewTraces(to *TraceSettings, version string, log *slog.Logger, clean func(project, server string) func(string) string) *Traces {
	if to == nil {
		return nil
	}
	t := &Traces{to: to, version: version, log: log, clean: clean, queue: make(chan *spans.Span, spanQueue), closing: make(chan struct{}), flush: spanFlush}
	t.life, t.end = context.WithCancelCause(context.Background())
	transport := http.DefaultTransport.(*http.Transport).Clone()
	t.http = &http.Client{
		Transport: transport, Timeout: to.Timeout,
		// The headers may be secret, so they go nowhere else.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	t.running.Go(t.run)
	return t
}

// Tracer returns the tracer that starts the spans, or nil if t is nil.
func (t *Traces) Tracer() *spans.Tracer {
	if t == nil {
		return nil
	}
	return &spans.Tracer{Sample: t.to.sample, Sink: t.take}
}

// Close sends the spans that have ended, for at most two seconds, and stops t.
func (t *Traces) Close() {
	if t == nil {
		return
	}
	close(t.closing)
	limit := time.AfterFunc(t.flush, func() { t.end(errTracesClosed) })
	t.running.Close()
	t.running.Wait()
	limit.Stop()
	t.end(errTracesClosed)
	t.http.CloseIdleConnections()
}

// take is the sink of the tracer.
func (t *Traces) take(s *spans.Span) {
	select {
	case t.queue <- s:
	default:
		t.outcomes[spansDropped].Add(1)
	}
}

// Counts returns the number of spans by outcome: sent, dropped because the queue was full or the collector could not be
// reached, or refused by the collector.
func (t *Traces) Counts() map[string]int64 {
	if t == nil {
		return nil
	}
	out := map[string]int64{}
	for i, name := range spanOutcomes {
		out[name] = t.outcomes[i].Load()
	}
	return out
}

// run sends batches until Close is called.
func (t *Traces) run() {
	due := time.NewTicker(t.to.Delay)
	defer due.Stop()
	var batch []*spans.Span
	for {
		closed := false
		select {
		case s := <-t.queue:
			if batch = append(batch, s); len(batch) < spanBatch {
				continue
			}
		case <-due.C:
		case <-t.closing:
			closed = true
		}
		for closed && len(t.queue) > 0 && len(batch) < spanQueue+spanBatch { // a full queue, and what was taken before
			batch = append(batch, <-t.queue)
		}
		t.send(batch)
		clear(batch)
		batch = batch[:0]
		if closed {
			return
		}
	}
}

// send sends a batch, if need be several times, and counts its spans.
func (t *Traces) send(batch []*spans.Span) {
	if len(batch) == 0 {
		return
	}
	body := AppendSpans(nil, t.to.Resource, t.version, batch, t.clean)
	until := time.Now().Add(spanTries)
	pauses := work.Backoff{Ceiling: 30 * time.Second}
	for {
		last := t.isClosing()
		refused, after, err := t.post(body)
		if err == nil {
			t.outcomes[spansSent].Add(int64(len(batch)) - refused)
			t.outcomes[spansRefused].Add(refused)
			t.report(nil, false)
			return
		}
		var again *retryable
		pause := max(pauses.Fail(), after)
		if !errors.As(err, &again) || time.Now().Add(pause).After(until) || last {
			t.outcomes[spansDropped].Add(int64(len(batch)))
			t.report(err, true)
			return
		}
		t.report(err, true)
		select {
		case <-time.After(pause):
		case <-t.closing: // once more, for the last time
		}
	}
}

func (t *Traces) isClosing() bool {
	select {
	case <-t.closing:
		return true
	default:
		return false
	}
}

// retryable is an error after which the batch is sent again.
type retryable struct{ error }

// post sends a request. If it fails, after is how long the collector wants us to wait.
func (t *Traces) post(body []byte) (refused int64, after time.Duration, err error) {
	req, err := http.NewRequestWithContext(t.life, http.MethodPost, t.to.URL, nil)
	if err != nil {
		return 0, 0, err
	}
	for name, value := range t.to.Header {
		req.Header.Set(name, value)
	}
	req.Header.Set("Content-Type", "application/x-protobuf")
	req.Header.Set("User-Agent", "dragoman/"+t.version)
	if t.to.Gzip {
		var zipped bytes.Buffer
		z := gzip.NewWriter(&zipped)
		_, _ = z.Write(body)
		_ = z.Close()
		body = zipped.Bytes()
		req.Header.Set("Content-Encoding", "gzip")
	}
	req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	resp, err := t.http.Do(req)
	if err != nil {
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err // without the URL, which may have a token
		}
		return 0, 0, &retryable{err}
	}
	defer resp.Body.Close()
	answer, _ := io.ReadAll(io.LimitReader(resp.Body, mostAnswer))
	switch resp.StatusCode {
	case http.StatusOK, http.StatusAccepted, http.StatusNoContent:
		refused, _ := rejected(answer)
		return max(refused, 0), 0, nil
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		seconds, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
		return 0, time.Duration(min(max(seconds, 0), int(spanTries/time.Second))) * time.Second, &retryable{fmt.Errorf("status %d", resp.StatusCode)}
	}
	return 0, 0, fmt.Errorf("status %d", resp.StatusCode)
}

// report logs that spans can't be sent, and that they can be again.
func (t *Traces) report(err error, failing bool) {
	if failing == t.failing {
		return
	}
	t.failing = failing
	if failing {
		t.log.Warn("traces could not be sent", "endpoint", t.to.Shown, "cause", err.Error())
		return
	}
	t.log.Info("traces are sent again", "endpoint", t.to.Shown)
}
