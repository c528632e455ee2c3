package cli

import (
	"slices"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/base/failure"
)

// TestUnsaid checks that we print nothing twice, and leave out nothing else.
func TestUnsaid(t *testing.T) {
	for _, tt := range []struct {
		sentence       string
		evidence, want []string
	}{
		{`HTTP status 500: "boom"`, []string{"HTTP 500", `body: "boom"`}, []string{"HTTP 500"}},
		{`HTTP status 500: "boom"`, []string{"HTTP 500", `body: "boom and more"`}, []string{"HTTP 500", `body: "boom and more"`}},
		{"HTTP status 500", []string{"HTTP 500", `body: ""`}, []string{"HTTP 500", `body: ""`}},
		{`it exited: "no key"`, []string{"no key"}, nil},
		{`it exited: "no key"`, []string{"no key", "usage: x"}, []string{"no key", "usage: x"}},
		{"it exited", nil, nil},
	} {
		if got := unsaid(&failure.Failure{Sentence: tt.sentence, Evidence: tt.evidence}); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.sentence, got, tt.want)
		}
	}
}
