package streamhttp

import (
	"slices"
	"sync/atomic"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/base/trails"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// fields is a set of the header fields that Dragoman has written into one request, in addition to
// the fields that httplink adds.
type fields uint8

const (
	versionField fields = 1 << iota
	sessionField
	mirrorFields // Mcp-Method, Mcp-Name and Mcp-Param-*
	paramsAsSent // Mcp-Param-* are as the client sent them
	lastEvent    // Last-Event-ID
	traceFields  // traceparent, tracestate and baggage
	fieldBits    = iota
)

// fieldReasons has the reasons for the header fields of requests: one list for each set of fields.
// Recorded calls keep these lists, so each list is made only once. fieldReasons is safe for
// concurrent use.
type fieldReasons struct {
	link  []trails.HeadEdit // the reasons for the fields that httplink adds; set before the first use
	lists [1 << fieldBits]atomic.Pointer[[]trails.HeadEdit]
}

// of returns the reasons for the fields in set and for the fields that httplink adds. The caller
// must not modify the list.
func (r *fieldReasons) of(set fields) []trails.HeadEdit {
	if list := r.lists[set].Load(); list != nil {
		return *list
	}
	list := slices.Clone(r.link)
	add := func(f fields, why jsonrpc.Reason, name string) {
		if set&f != 0 {
			list = append(list, trails.HeadEdit{Why: why, Name: name})
		}
	}
	add(versionField, mcp.WhyVersion, mcp.HeaderVersion)
	add(sessionField, mcp.WhySession, mcp.HeaderSession)
	add(mirrorFields, mcp.WhyMirror, mcp.HeaderMethod)
	add(mirrorFields, mcp.WhyMirror, mcp.HeaderName)
	add(mirrorFields, mcp.WhyMirror, mcp.HeaderParam)
	add(paramsAsSent, jsonrpc.NoReason, mcp.HeaderParam)
	for _, name := range []string{"Traceparent", "Tracestate", "Baggage"} {
		add(traceFields, mcp.WhyTrace, name)
	}
	add(lastEvent, mcp.WhyResume, mcp.HeaderLastEvent)
	r.lists[set].Store(&list)
	return list
}
