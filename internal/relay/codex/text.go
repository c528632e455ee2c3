package codex

import "github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"

// maxSaid is the maximum number of bytes of a worker's error text that Dragoman repeats. The
// longest error texts list all methods of the worker.
const maxSaid = 600

// text returns the value of a string member of obj, or "" if obj has no such member.
func text(raw []byte, obj jsonrpc.Span, key string) string {
	s, _ := jsonrpc.Text(raw, jsonrpc.Find(raw, obj, key))
	return s
}

// object builds a JSON object from its members.
type object struct{ b []byte }

func (o *object) member(key string, value []byte) *object {
	if o.b == nil {
		o.b = append(o.b, '{')
	} else {
		o.b = append(o.b, ',')
	}
	o.b = append(append(jsonrpc.AppendQuote(o.b, key), ':'), value...)
	return o
}

func (o *object) text(key, value string) *object {
	return o.member(key, jsonrpc.AppendQuote(nil, value))
}

// json returns the object.
func (o *object) json() []byte {
	if o.b == nil {
		return []byte("{}")
	}
	return append(o.b, '}')
}
