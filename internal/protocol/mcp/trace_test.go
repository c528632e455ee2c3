package mcp

import (
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
)

func TestP21_TraceContext(t *testing.T) {
	const good = `"00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01"`
	for _, x := range []struct {
		meta string
		junk string // the keys that must be dropped
	}{
		{`{"traceparent":` + good + `,"tracestate":"a=1,b=2","baggage":"k=v;p"}`, ""},
		{`{"traceparent":"01-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01-more"}`, ""},
		{`{"traceparent":"junk"}`, "traceparent"},
		{`{"traceparent":7}`, "traceparent"},
		{`{"traceparent":"00-00000000000000000000000000000000-00f067aa0ba902b7-01"}`, "traceparent"},
		{`{"traceparent":"00-0AF7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01"}`, "traceparent"},
		{`{"traceparent":"00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01-more"}`, "traceparent"},
		{`{"tracestate":"a=1\r\nX-Evil: 1","traceparent":` + good + `}`, "tracestate"},
		{`{"baggage":"` + strings.Repeat("x", 10<<10) + `"}`, "baggage"},
		{`{"baggage":{},"tracestate":null}`, "tracestate baggage"},
	} {
		raw := []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","_meta":` + x.meta + `}}`)
		m, err := jsonrpc.Scan(raw, jsonrpc.Limits{})
		if err != nil {
			t.Fatalf("%.80s: %v", x.meta, err)
		}
		c := NewCall(m, m.Param(KeyMeta), &ClientInfo{Revision: R20260728})
		var got []string
		for _, key := range []string{KeyTraceparent, KeyTracestate, KeyBaggage, KeyProgressToken} {
			if c.IsJunk([]byte(key)) {
				got = append(got, key)
			}
		}
		if j := strings.Join(got, " "); j != x.junk || c.HasJunk() != (x.junk != "") {
			t.Errorf("%.80s: dropped %q, want %q", x.meta, j, x.junk)
		}
	}
}
