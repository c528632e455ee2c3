package tokens

import (
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/testkit/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func TestText(t *testing.T) {
	for text, want := range map[string]int{
		"":                       0,
		"  \n":                   0,
		"read a file":            3,
		"internationalization":   2,
		"12345":                  2,
		`{"type":"object"}`:      5,
		"日本語":                    3,
		strings.Repeat("a ", 50): 50,
	} {
		if got := Text(text); got != want {
			t.Errorf("Text(%q) = %d, want %d", text, got, want)
		}
		if got := Text([]byte(text)); got != want {
			t.Errorf("Text of the bytes of %q = %d, want %d", text, got, want)
		}
	}
}

// TestTool checks that only text that a model sees is counted.
func TestTool(t *testing.T) {
	count := func(raw string) int { return Tool([]byte(raw), jsonrpc.Whole([]byte(raw))) }
	bare := count(`{"name":"read","description":"Read a file","inputSchema":{"type":"object"}}`)
	if bare < 15 || bare > 25 {
		t.Errorf("a small tool counts %d", bare)
	}
	more := count(`{"name":"read","title":"Reading","description":"Read a file","inputSchema":{"type":"object"},"outputSchema":{"type":"object","properties":{"text":{"type":"string"}}},"annotations":{"readOnlyHint":true}}`)
	if more != bare {
		t.Errorf("members that no model sees change the count from %d to %d", bare, more)
	}
	if n := count(`"read"`); n != 0 {
		t.Errorf("a string counts %d", n)
	}
}

func TestAbout(t *testing.T) {
	for n, want := range map[int]string{
		0: "about 0 tokens", 7: "about 10 tokens", 94: "about 90 tokens", 904: "about 900 tokens", 1749: "about 1,700 tokens", 13673: "about 14,000 tokens",
		1234567: "about 1,200,000 tokens",
	} {
		if got := About(n); got != want {
			t.Errorf("About(%d) = %q, want %q", n, got, want)
		}
	}
}
