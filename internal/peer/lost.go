package peer

import (
	"regexp"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// lost recognises a session that the server no longer knows: 404 (2025-03-26
// §Transports, "Session Management") or the words of servers that answer
// otherwise. Such a server has executed nothing.
func (s *Server) lost(st *transport.StatusError) bool {
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
func (s *Server) lostAnswer(m *jsonrpc.Message) bool {
	return m != nil && m.Kind == jsonrpc.Failure && s.rules().Sessions && errorCode(m) == codeNoSession && saysLost(errorMessage(m))
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
