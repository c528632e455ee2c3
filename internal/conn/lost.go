package conn

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
	"github.com/dragoman-mcp/dragoman/internal/transport"
	"github.com/dragoman-mcp/dragoman/internal/transport/streamhttp"
)

// lost reports whether a status says, in some spelling, that the server no longer
// knows our session: 404 (2025-03-26 §Transports, "Session Management") or the words
// of servers that answer otherwise.
func (s *Conn) lost(st *transport.StatusError) bool {
	if !s.rules().Sessions {
		return false
	}
	switch st.Status {
	case 404:
		return true
	case 400, 409, 410, 412, 422:
	default:
		return false // credentials, haste, or no refusal
	}
	if st.Msg == nil || st.Msg.Kind != jsonrpc.Failure {
		return saysLost(string(st.Body[:min(len(st.Body), 4<<10)]))
	}
	switch code := errorCode(st.Msg); code {
	case jsonrpc.CodeInvalidParams, jsonrpc.CodeMethodNotFound, jsonrpc.CodeInternal, jsonrpc.CodeParse:
		return false // about the request, whatever the words
	}
	return saysLost(errorMessage(st.Msg))
}

// codeNoSession is what servers of the TypeScript SDK answer in a session that they
// do not know, some of them with a status of success.
const codeNoSession = -32001

// lostAnswer is lost for an answer that came with a status of success.
func (s *Conn) lostAnswer(m *jsonrpc.Message) bool {
	return m != nil && m.Kind == jsonrpc.Failure && s.rules().Sessions && errorCode(m) == codeNoSession && saysLost(errorMessage(m))
}

// The bounds of the question whether a session is still there: how long its answer
// is believed, and how long it may take.
const (
	aliveFor     = 5 * time.Second
	aliveTimeout = 10 * time.Second
)

// isLost reports whether the session is really lost after an answer that says so. A
// tool may have sessions of its own, and a legacy server owns the codes from -32000
// to -32099, so the session is asked itself: it is alive where it answers a ping,
// which each legacy revision has. Calls that wonder at the same time share one ping.
// Where the ping comes to nothing it is not known to be lost: a call that is sent
// again by mistake would be executed twice.
func (l *httpConn) isLost(ctx context.Context) bool {
	select {
	case l.asking <- struct{}{}:
		defer func() { <-l.asking }()
	case <-ctx.Done():
		return false
	}
	if since := time.Since(l.alive); !l.alive.IsZero() && since < aliveFor {
		return false
	}
	ctx, stop := context.WithTimeout(ctx, aliveTimeout)
	defer stop()
	m, err := l.Exchange(ctx, mcp.MethodPing, nil, l.server.rules())
	var status *transport.StatusError
	switch {
	case errors.As(err, &status) && l.server.lost(status), errors.Is(err, streamhttp.ErrSessionLost),
		err == nil && l.server.lostAnswer(m):
		return true
	case err == nil, status != nil && status.Msg != nil && !transient(status.Status):
		l.alive = time.Now()
		return false
	}
	return false
}

// The words by which servers say that they do not know a session, and those of one
// that was started anew and has but one session, which nobody has opened yet.
var (
	notThis = regexp.MustCompile(`\b(no|no valid|no such|invalid|unknown|unrecognized|find|missing|bad|stale)\b.{0,16}\bsession`)
	thisNot = regexp.MustCompile(`\bsession\b.{0,64}?\b(not found|not exist|doesn't exist|not known|not valid|not active|expired|terminated|closed|ended|no longer|invalid|unknown|missing|lost)\b`)
)

func saysLost(text string) bool {
	text = strings.ToLower(strings.ReplaceAll(text, "\n", " "))
	return notThis.MatchString(text) || thisNot.MatchString(text) || strings.Contains(text, "server not initialized")
}

func errorCode(m *jsonrpc.Message) int64 {
	n, _ := jsonrpc.Int(m.Raw, jsonrpc.Find(m.Raw, m.Error, "code"))
	return n
}

func errorMessage(m *jsonrpc.Message) string {
	text, _ := jsonrpc.Text(m.Raw, jsonrpc.Find(m.Raw, m.Error, "message"))
	return text
}
