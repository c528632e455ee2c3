package admin

import (
	"net/http"
	"strconv"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/failure"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/relay/upstream"
)

// serveReady answers /readyz. The answer contains whether Dragoman can serve clients, the reason,
// and since when. If one server has failed and another has not, Dragoman is ready, because only
// calls to the failed server fail. A server at which nobody has signed in yet hasn't failed. Neither has a replica
// whose database is away: it goes on with what it knows, and none starts without. But one that's alone in not reaching it,
// or the other replicas, leaves clients to those. Who may not see the servers gets the rest: an orchestrator needs no more.
func (a *front) serveReady(w http.ResponseWriter, r *http.Request) {
	since, draining := a.project.Configured()
	all := a.project.Statuses()
	ready, failed, silent, stopped, waiting := 0, 0, 0, 0, 0
	for _, s := range all {
		switch s.State {
		case upstream.Broken:
			if s.Failure != nil && s.Failure.Class == failure.NeedsSignIn {
				waiting++ // for somebody who reaches us only if we're ready
				break
			}
			failed++
		case upstream.Unresponsive:
			silent++
		case upstream.Stopped:
			stopped++
		case upstream.Ready, upstream.Idle:
			ready++
		}
		if s.Since.After(since) {
			since = s.Since
		}
	}
	ok, reason, unfit := true, "serving", ""
	if a.unfit != nil {
		unfit = a.unfit()
	}
	switch {
	case draining, a.leaving != nil && a.leaving():
		ok, reason = false, "stopping"
	case unfit != "":
		ok, reason = false, unfit
	case len(all) == 0:
		reason = "no server is configured"
	case stopped == len(all):
		ok, reason = false, "all servers were stopped by an operator"
	case failed+stopped == len(all):
		ok, reason = false, "no server could be opened"
	case failed+silent+stopped == len(all):
		ok, reason = false, "no server answers"
	case silent > 0:
		reason = "some servers do not answer"
	case failed > 0:
		reason = "some servers could not be opened"
	case stopped > 0:
		reason = "some servers were stopped by an operator"
	case waiting > 0:
		reason = "some servers need a sign-in"
	case ready < len(all):
		reason = "some servers are starting"
	}
	if ok && a.away != nil && a.away() {
		reason += "; the database of the replicas can't be reached, and calls go on"
	}
	out := []byte(`{"ready":`)
	if ok {
		out = append(out, "true"...)
	} else {
		out = append(out, "false"...)
	}
	out = jsonrpc.AppendQuote(append(out, `,"reason":`...), reason)
	out = jsonrpc.AppendQuote(append(out, `,"since":`...), since.UTC().Format(time.RFC3339))
	if a.views != nil && a.views(r) {
		out = a.appendServers(append(out, `,"servers":`...), all)
		out = strconv.AppendInt(append(out, `,"questions":`...), int64(a.project.Questions().Waiting()), 10)
	}
	out = append(out, "}\n"...)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if !ok {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_, _ = w.Write(out)
}

// appendServers appends the states of the servers.
func (a *front) appendServers(out []byte, all []upstream.Status) []byte {
	out = append(out, '[')
	for i, s := range all {
		if i > 0 {
			out = append(out, ',')
		}
		out = jsonrpc.AppendQuote(append(out, `{"name":`...), s.Name)
		out = jsonrpc.AppendQuote(append(out, `,"state":`...), string(s.State))
		out = jsonrpc.AppendQuote(append(out, `,"since":`...), s.Since.UTC().Format(time.RFC3339))
		if f := s.Failure; f != nil {
			if !a.local {
				f = f.Public()
				s.Reason = f.Sentence
			}
			out = f.AppendJSON(append(out, `,"failure":`...))
		}
		if s.Reason != "" {
			out = jsonrpc.AppendQuote(append(out, `,"reason":`...), s.Reason)
		}
		if s.Attempts > 0 {
			out = strconv.AppendInt(append(out, `,"attempts":`...), int64(s.Attempts), 10)
		}
		if !s.Retry.IsZero() {
			out = jsonrpc.AppendQuote(append(out, `,"retryAt":`...), s.Retry.UTC().Format(time.RFC3339))
		}
		if s.Readiness != "" {
			out = jsonrpc.AppendQuote(append(out, `,"readiness":`...), s.Readiness)
		}
		if s.Version != "" {
			out = jsonrpc.AppendQuote(append(out, `,"workerVersion":`...), s.Version)
		}
		if s.Cause != "" && a.local {
			out = jsonrpc.AppendQuote(append(out, `,"workerCause":`...), s.Cause)
		}
		out = append(out, '}')
	}
	return append(out, ']')
}
