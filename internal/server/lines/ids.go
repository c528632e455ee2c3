package lines

import (
	"bytes"

	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
)

// The SDK reads a numeric id into a float64, so it changes an integer above 2^53. Dragoman gives
// the SDK a string instead, and puts the client's number back into the answer (all revisions,
// §Base, "Requests" and "Responses": the answer has the id of the request).
const (
	numberID = `"dragoman-number:` // before the digits of a number
	stringID = `"dragoman-string:` // before a string of the client that begins with one of these two prefixes
)

// maxDigits is the number of digits of the largest integers that are always exact in a float64.
const maxDigits = 15

// hideID returns a message of a client with an id that the SDK does not change.
func hideID(text []byte) []byte {
	m, err := jsonrpc.Scan(text, jsonrpc.Limits{Bytes: maxLine})
	if err != nil {
		return text // the SDK or the method check reports what is wrong
	}
	at := m.IDAt
	if m.Method == mcp.NoteCancelled {
		at = m.Param("requestId")
	} else if m.Method == "" {
		return text // an answer to a request of the SDK
	}
	id := at.Of(text)
	switch {
	case len(id) == 0:
		return text
	case id[0] == '-' || id[0] >= '0' && id[0] <= '9':
		if exact(id) {
			return text
		}
		return splice(text, at, numberID+string(id)+`"`)
	case bytes.HasPrefix(id, []byte(numberID)), bytes.HasPrefix(id, []byte(stringID)):
		return splice(text, at, stringID+string(id[1:]))
	}
	return text
}

// exact reports whether the SDK writes a number as the client has written it.
func exact(number []byte) bool {
	digits := bytes.TrimPrefix(number, []byte("-"))
	for _, c := range digits {
		if c < '0' || c > '9' {
			return false
		}
	}
	return len(digits) <= maxDigits && string(number) != "-0"
}

// showID returns a message of the SDK with the client's own id.
func showID(message []byte) []byte {
	if !bytes.Contains(message, []byte(numberID)) && !bytes.Contains(message, []byte(stringID)) {
		return message
	}
	m, err := jsonrpc.Scan(message, jsonrpc.Limits{Bytes: len(message) + 1})
	if err != nil {
		return message
	}
	// A notification of a subscription has the id of the request that subscribed (2026-07-28
	// §Subscriptions).
	for _, at := range []jsonrpc.Span{
		m.IDAt, jsonrpc.Find(message, m.Param(mcp.KeyMeta), mcp.KeySubscriptionID), jsonrpc.Find(message, m.ResultMember(mcp.KeyMeta), mcp.KeySubscriptionID),
	} {
		id := at.Of(message)
		if number, ok := bytes.CutPrefix(id, []byte(numberID)); ok {
			return splice(message, at, string(bytes.TrimSuffix(number, []byte(`"`))))
		}
		if rest, ok := bytes.CutPrefix(id, []byte(stringID)); ok {
			return splice(message, at, `"`+string(rest))
		}
	}
	return message
}

// splice returns a copy of a text with one part replaced. at is the span of this part, and with is
// the new part.
func splice(text []byte, at jsonrpc.Span, with string) []byte {
	out := make([]byte, 0, len(text)+len(with))
	out = append(append(out, text[:at.Start]...), with...)
	return append(out, text[at.End:]...)
}
