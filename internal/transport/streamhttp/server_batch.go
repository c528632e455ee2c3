package streamhttp

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/transport"
	"github.com/dragoman-mcp/dragoman/internal/transport/httpdoor"
)

// maxConcurrent is the maximum number of requests of one batch that run at the same time.
const maxConcurrent = 8

// batch serves an array of messages. Only one revision has batches (2025-03-26 §Base Protocol,
// "Batching"). In all other revisions, batch refuses the whole array.
func (s *Server) batch(w http.ResponseWriter, r *http.Request, who *identity.Principal, h headers, body []byte) {
	rev := mcp.Assumed
	if h.version != "" {
		rev, _ = mcp.ParseRevision(h.version)
	}
	var ses *session
	if h.session != "" && !rev.Modern() {
		if ses = s.enter(w, r, who, h); ses == nil {
			return
		}
		defer s.leave(ses)
		rev = ses.revision()
	}
	if !rev.Can(mcp.Batches) {
		bad := &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "this protocol revision does not have batches; send one message at a time"}
		s.counts.refused.Add(1)
		s.reportRefused(r, who, "", nil, bad)
		httpdoor.Refuse(w, http.StatusBadRequest, s.orNull("", h, who), bad)
		return
	}
	items, err := jsonrpc.ScanBatch(body, scanLimits(body))
	if err != nil {
		s.refuseScan(w, r, h, who, err)
		return
	}
	requests, why := requestsIn(items, h.version, ses != nil)
	if why != "" {
		s.refuse(w, http.StatusBadRequest, "null", jsonrpc.CodeInvalidRequest, why)
		return
	}
	switch {
	case ses != nil:
	case requests == 0:
		s.counts.dropped.Add(int64(len(items)))
		w.WriteHeader(http.StatusAccepted)
		return
	case s.opts.RefuseBare:
		s.refuse(w, http.StatusBadRequest, "null", jsonrpc.CodeInvalidRequest, "the Mcp-Session-Id header is missing")
		return
	default:
		var ok bool
		if ses, ok = s.adopt(w, r, who, "null", rev); !ok {
			return
		}
		defer s.leave(ses)
	}
	for _, it := range items {
		var bad *jsonrpc.Error
		if errors.As(it.Err, &bad) {
			s.reportRefused(r, who, bad.Method, nil, bad)
		}
	}
	s.runBatch(w, r, ses, h, items, requests)
}

// requestsIn counts the messages of a batch that get an answer. If the batch must be refused, why says so.
func requestsIn(items []jsonrpc.Item, version string, inSession bool) (requests int, why string) {
	for _, it := range items {
		switch m := it.Message; {
		case m == nil:
			requests++ // an invalid message also gets an answer
		case m.Kind == jsonrpc.Request || m.Kind == jsonrpc.Notification:
			o, bad := mcp.Classify(m, version, true)
			if bad != nil || o.Revision.Modern() || m.Method == mcp.MethodInitialize {
				// 2025-03-26 §Lifecycle, "Initialization": initialize must not be part of a
				// batch. Modern messages are never batched.
				return 0, "the batch contains initialize, or a message of 2026-07-28; send that message alone"
			}
			if m.Kind == jsonrpc.Request {
				requests++
			}
		case !inSession:
			return 0, "this message is a response, but the server sends requests only in the sessions of legacy revisions"
		}
	}
	return requests, ""
}

// runBatch passes the messages to the conversation in order. Requests run concurrently. Their
// answers are sent in one array, or as events if the response has become a stream.
func (s *Server) runBatch(w http.ResponseWriter, r *http.Request, ses *session, h headers, items []jsonrpc.Item, requests int) {
	all := &response{server: s, w: w, r: r, id: "null", session: ses}
	all.conv, all.response, all.seat = ses.conv, all, ses.seat
	if requests == 0 {
		for _, it := range items {
			s.counts.notes.Add(1)
			_ = s.deliver(r.Context(), ses.conv, transport.Incoming{Msg: it.Message, Version: h.version, HTTP: true, Request: requestOf(r)})
		}
		w.WriteHeader(http.StatusAccepted)
		return
	}
	if !s.flights.add(&all.flight) {
		s.limited(w, "null", httpdoor.Stopping)
		return
	}
	defer all.remove()
	all.late = time.AfterFunc(s.opts.LateStream, all.startStream)
	defer all.settle()

	ctx := ses.requestContext(r)
	b := &batch{all: all, answers: make([][]byte, 0, requests)}
	var running sync.WaitGroup
	defer running.Wait()
	slots := make(chan struct{}, maxConcurrent)
	for _, it := range items {
		m := it.Message
		switch {
		case m == nil:
			e := &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "the batch element is not a JSON-RPC message"}
			_ = errors.As(it.Err, &e)
			id := e.ID
			if id == "" {
				id = "null"
			}
			b.add(jsonrpc.AppendError(nil, id, e))
			continue
		case m.Kind != jsonrpc.Request:
			s.counts.notes.Add(1)
			_ = s.deliver(r.Context(), ses.conv, transport.Incoming{Msg: m, Version: h.version, HTTP: true, Request: requestOf(r)})
			continue
		}
		s.counts.legacy.Add(1)
		slots <- struct{}{}
		serve := transport.Expect(ctx, ses.conv, transport.Incoming{Msg: m, Version: h.version, HTTP: true, Request: requestOf(r)})
		running.Go(func() {
			defer func() { <-slots }()
			b.run(s, serve, m.ID)
		})
	}
	running.Wait()
	b.finish()
}

// batch collects the answers to the requests of one array.
type batch struct {
	all *response

	mu      sync.Mutex
	answers [][]byte // the answers that were not sent yet
}

// run serves one request of the batch.
func (b *batch) run(s *Server, serve func(transport.Responder), id jsonrpc.ID) {
	one := &oneOf{batch: b}
	defer func() {
		if p := recover(); p != nil {
			s.panicked(p)
		}
		if !one.done {
			e := httpdoor.ErrInternal
			switch over := b.all.session.over(); {
			case errors.Is(context.Cause(b.all.r.Context()), mcp.ErrShutdown):
				e = mcp.Wire(mcp.ErrShutdown)
			case over != nil:
				e = sessionEnded(over)
			}
			_ = one.Finish(jsonrpc.AppendError(nil, id, e), e.Code)
		}
	}()
	serve(one)
}

// add keeps an answer for the array. If the response is already a stream, add sends the answer at
// once.
func (b *batch) add(answer []byte) {
	b.all.mu.Lock()
	streams := b.all.state == streaming
	b.all.mu.Unlock()
	if streams {
		_ = b.all.Event(answer)
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.answers = append(b.answers, bytes.Clone(answer))
}

// finish sends the remaining answers: as events if the response is a stream, otherwise as an array.
func (b *batch) finish() {
	b.all.mu.Lock()
	streams := b.all.state == streaming
	if !streams {
		b.all.state = finished
	}
	b.all.mu.Unlock()
	b.mu.Lock()
	answers := b.answers
	b.answers = nil
	b.mu.Unlock()
	if streams {
		for _, a := range answers {
			_ = b.all.Event(a)
		}
		_ = b.all.Finish(nil, 0)
		return
	}
	if len(answers) == 0 { // all requests were cancelled
		b.all.w.Header()["Content-Type"] = eventType
		b.all.w.WriteHeader(http.StatusOK)
		return
	}
	array := append([]byte{'['}, bytes.Join(answers, []byte{','})...)
	_ = writeJSON(b.all.w, b.all.r, http.StatusOK, append(array, ']'), b.all.server.rules.Stall)
}

// oneOf is the Responder of one request of a batch.
type oneOf struct {
	batch *batch
	done  bool
}

func (o *oneOf) Event(b []byte) error { return o.batch.all.Event(b) }

func (o *oneOf) Finish(b []byte, _ int64) error {
	if o.done {
		return httpdoor.ErrEnded
	}
	o.done = true
	if len(b) > 0 {
		o.batch.add(b)
	}
	return nil
}
