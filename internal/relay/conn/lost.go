package conn

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/pattern"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/transport"
	"github.com/dragoman-mcp/dragoman/internal/transport/streamhttp"
)

// statusSaysLost reports whether an HTTP response says that the server no longer knows the session.
// The specification requires status 404 (2025-03-26 §Transports, "Session Management"), but only for
// requests with a session id. Some servers use another status with a text that says that the session
// is unknown.
func (l *httpConn) statusSaysLost(st *transport.StatusError) bool {
	if !l.server.rules().Sessions {
		return false
	}
	switch st.Status {
	case 404:
		if l.http.Session() != "" {
			return true
		}
	case 400, 409, 410, 412, 422:
	default:
		return false // the status is about credentials or a rate limit, or is not a refusal
	}
	if st.Msg == nil || st.Msg.Kind != jsonrpc.Failure {
		return saysLost(string(st.Body[:min(len(st.Body), 4<<10)]))
	}
	switch code := errorCode(st.Msg); code {
	case jsonrpc.CodeInvalidParams, jsonrpc.CodeMethodNotFound, jsonrpc.CodeInternal, jsonrpc.CodeParse:
		return false // the error is about the request, even if its text mentions the session
	}
	return saysLost(errorMessage(st.Msg))
}

// codeNoSession is the error code with which servers with the TypeScript SDK report an unknown
// session. Some servers send this code with status 200.
const codeNoSession = -32001

// answerSaysLost does the same as statusSaysLost for an answer with a 2xx status.
func (c *Conn) answerSaysLost(m *jsonrpc.Message) bool {
	return m != nil && m.Kind == jsonrpc.Failure && c.rules().Sessions && errorCode(m) == codeNoSession && saysLost(errorMessage(m))
}

// aliveFor is how long confirmLost trusts the answer to a ping. aliveTimeout is the timeout of the
// ping. maxDoubts is how many calls in a row may get status 404 although the server answers pings.
const (
	aliveFor     = 5 * time.Second
	aliveTimeout = 10 * time.Second
	maxDoubts    = 2
)

// confirmLost reports whether the session is really lost after an answer says so. status is the HTTP
// status of this answer, or 0 if it has a 2xx status. The answer may be about a session of the tool
// itself, and legacy servers may use the codes from -32000 to -32099 for any purpose. So confirmLost
// sends a ping, which every legacy revision has, and the answer to the ping decides. Otherwise one
// client's call could take the session away from everybody, and Dragoman would retry a call that the
// server may have executed.
//
// Only a status 404 is believed if no answer to the ping arrives, because it is what the
// specification requires of a lost session. After maxDoubts calls in a row it's believed anyway: the
// server may answer pings in any session. If the ping shows that the session exists, confirmLost
// sends no further ping for the duration aliveFor, except after a 404.
func (l *httpConn) confirmLost(ctx context.Context, status int) bool {
	select {
	case l.asking <- struct{}{}:
		defer func() { <-l.asking }()
	case <-ctx.Done():
		return false
	}
	required := status == http.StatusNotFound
	if l.lost || !required && time.Since(l.alive) < aliveFor {
		return l.lost
	}
	switch alive, known := l.ping(ctx); {
	case alive:
		l.alive = time.Now()
		l.lost = required && l.doubts.Add(1) > maxDoubts
	case known:
		l.lost = true
	default:
		l.lost = required && ctx.Err() == nil
	}
	return l.lost
}

// ping reports whether the server still knows the session. known is false if the server has not
// answered.
func (l *httpConn) ping(ctx context.Context) (alive, known bool) {
	ctx, stop := context.WithTimeout(ctx, aliveTimeout)
	defer stop()
	m, err := l.Exchange(ctx, mcp.MethodPing, nil, l.server.rules())
	var status *transport.StatusError
	errors.As(err, &status)
	answered := status != nil && status.Msg != nil && !transient(status.Status)
	switch {
	case answered && errorCode(status.Msg) == jsonrpc.CodeMethodNotFound: // a server without ping, which every session would tell us
		return true, true
	case status != nil && l.statusSaysLost(status), errors.Is(err, streamhttp.ErrSessionLost), err == nil && l.server.answerSaysLost(m):
		return false, true
	}
	return err == nil || answered, err == nil || answered
}

// A server that does not know a session sends a text that matches one of these patterns.
var (
	negatedSession = pattern.Later(`\b(no|no valid|no such|invalid|unknown|unrecognized|find|missing|bad|stale)\b.{0,16}\bsession`)
	sessionEnded   = pattern.Later(`\bsession\b.{0,64}?\b(not found|not exist|doesn't exist|not known|not valid|not active|expired|terminated|closed|ended|no longer|invalid|unknown|missing|lost)\b`)
)

// saysLost reports whether a text from the server says that the server does not know the session. A
// server with only one session may instead say that it is not initialized, because it has restarted.
func saysLost(text string) bool {
	text = strings.ToLower(strings.ReplaceAll(text, "\n", " "))
	return negatedSession().MatchString(text) || sessionEnded().MatchString(text) || strings.Contains(text, "server not initialized")
}

func errorCode(m *jsonrpc.Message) int64 {
	n, _ := jsonrpc.Int(m.Raw, jsonrpc.Find(m.Raw, m.Error, "code"))
	return n
}

func errorMessage(m *jsonrpc.Message) string {
	text, _ := jsonrpc.Text(m.Raw, jsonrpc.Find(m.Raw, m.Error, "message"))
	return text
}
