package lines

import (
	"bytes"
	"strconv"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// The SDK stores a numeric id as a float64, so it changes fractions and integers above 2^53. It
// also changes the escapes in an id that is a string. Therefore, a Conn gives the SDK an id of its
// own for each request, and puts the client's id back into the response byte for byte (all
// revisions, §Base, "Requests" and "Responses": the response has the id of the request). The SDK
// numbers its own requests, so their ids differ from the ids that a Conn gives, which are strings.
const ownID = `"dragoman:` // the number of the request and a quote follow

// appendOwnID appends the id that the SDK gets for the request with this number.
func appendOwnID(dst []byte, number uint64) []byte {
	return append(strconv.AppendUint(append(dst, ownID...), number, 10), '"')
}

// numberIn returns the number in an id that appendOwnID has written. It returns false for any other
// id.
func numberIn(id []byte) (uint64, bool) {
	digits, ours := bytes.CutPrefix(id, []byte(ownID))
	digits, ends := bytes.CutSuffix(digits, []byte(`"`))
	number, err := strconv.ParseUint(string(digits), 10, 64)
	return number, ours && ends && err == nil
}

// keyOf returns the same text for two ids that are equal in JSON-RPC, such as two strings that
// differ only in their escapes.
func keyOf(id []byte) string {
	if id[0] == '"' && bytes.IndexByte(id, '\\') >= 0 {
		if text, ok := jsonrpc.Text(id, jsonrpc.Whole(id)); ok {
			return string(jsonrpc.AppendQuote(nil, text))
		}
	}
	return string(id)
}

// reply is a message from the SDK. The spans are positions in raw.
type reply struct {
	raw    []byte
	id     jsonrpc.Span // the id of a response; absent in requests and notifications
	places []jsonrpc.Span
}

// read finds the positions in a message from the SDK that contain the id of a client's request.
func read(message []byte) reply {
	var method string
	var id, params, result jsonrpc.Span
	for m := range jsonrpc.Members(message, jsonrpc.Whole(message)) {
		switch string(m.Key.Of(message)) {
		case `"method"`:
			method, _ = jsonrpc.Text(message, m.Value)
		case `"id"`:
			id = m.Value
		case `"params"`:
			params = m.Value
		case `"result"`:
			result = m.Value
		}
	}
	subscription := func(parent jsonrpc.Span) jsonrpc.Span {
		return jsonrpc.Find(message, jsonrpc.Find(message, parent, mcp.KeyMeta), mcp.KeySubscriptionID)
	}
	r := reply{raw: message}
	switch {
	case method == "":
		// 2026-07-28 §Subscriptions, "Cancellation": the result that ends a subscription repeats the
		// id of the request in _meta.
		r.id, r.places = id, []jsonrpc.Span{id, subscription(result)}
	case method == mcp.NoteCancelled:
		// 2026-07-28 §Cancellation: with this notification, a server cancels a subscriptions/listen
		// request of the client.
		r.places = []jsonrpc.Span{jsonrpc.Find(message, params, "requestId")}
	case id.IsZero():
		// 2026-07-28 §Subscriptions: a notification contains the id of the request that subscribed.
		r.places = []jsonrpc.Span{subscription(params)}
	}
	return r
}
