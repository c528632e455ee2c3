package streamhttp

import (
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/base/trails"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// TestFieldReasons checks the reason that a request's trail shows for each header field. A
// parameter header that the client itself sent must not have the reason WhyMirror.
func TestFieldReasons(t *testing.T) {
	r := fieldReasons{link: []trails.HeadEdit{{Why: mcp.WhyConnection}, {Why: mcp.WhyConfigured, Name: "Authorization"}}}
	for _, c := range []struct {
		set  fields
		name string
		want jsonrpc.Reason
	}{
		{0, "Accept", mcp.WhyConnection},
		{0, "Authorization", mcp.WhyConfigured},
		{0, mcp.HeaderVersion, mcp.WhyConnection},
		{versionField, mcp.HeaderVersion, mcp.WhyVersion},
		{sessionField, mcp.HeaderSession, mcp.WhySession},
		{mirrorFields, mcp.HeaderMethod, mcp.WhyMirror},
		{mirrorFields, mcp.HeaderName, mcp.WhyMirror},
		{mirrorFields, mcp.HeaderParam + "Region", mcp.WhyMirror},
		{mirrorFields | paramsAsSent, mcp.HeaderParam + "Region", jsonrpc.NoReason},
		{mirrorFields | paramsAsSent, mcp.HeaderName, mcp.WhyMirror},
		{sessionField | lastEvent, mcp.HeaderLastEvent, mcp.WhyResume},
		{sessionField | lastEvent, "Authorization", mcp.WhyConfigured},
	} {
		for range 2 { // the second time from the list that the first call stored
			h := trails.NewHead("POST", "/mcp", 0, nil, r.of(c.set)...)
			if got := h.Why(c.name); got != c.want {
				t.Errorf("set %b: the reason for %s is %s, want %s", c.set, c.name, mcp.ReasonCode(got), mcp.ReasonCode(c.want))
			}
		}
	}
}
