package oauth

import (
	"reflect"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/transport"
)

func TestChallenges(t *testing.T) {
	for _, c := range []struct {
		name   string
		fields []string
		want   []Challenge
	}{
		{"the example of AU §Scope Selection Strategy",
			[]string{`Bearer resource_metadata="https://h.example/.well-known/oauth-protected-resource", scope="files:read"`},
			[]Challenge{{Scheme: "Bearer", ResourceMetadata: "https://h.example/.well-known/oauth-protected-resource", Scopes: []string{"files:read"}}}},
		{"the example of AU §Runtime Insufficient Scope Errors",
			[]string{`Bearer error="insufficient_scope", scope="a b a", resource_metadata="https://h/x", error_description="A \"b\", c"`},
			[]Challenge{{Scheme: "Bearer", Error: "insufficient_scope", Scopes: []string{"a", "b"}, ResourceMetadata: "https://h/x", Description: `A "b", c`}}},
		{"RFC 9449 §9", []string{`DPoP error="use_dpop_nonce", error_description="x", algs="ES256 PS256"`},
			[]Challenge{{Scheme: "DPoP", Error: "use_dpop_nonce", Description: "x"}}},
		{"names and schemes in any case, spaces around =", []string{"bearer\tx", `bEARER RESOURCE_METADATA = "https://h/x"`},
			[]Challenge{{Scheme: "Bearer", ResourceMetadata: "https://h/x"}}},
		{"a bare scheme", []string{"Bearer"}, []Challenge{{Scheme: "Bearer"}}},
		{"forgotten quotes", []string{`Bearer resource_metadata=https://h/x, error=invalid_token`},
			[]Challenge{{Scheme: "Bearer", ResourceMetadata: "https://h/x", Error: "invalid_token"}}},
		{"a malformed one takes no other with it", []string{`Bearer error="a" error="b", Bearer realm="r"`, `Bearer scope="s"`},
			[]Challenge{{Scheme: "Bearer"}, {Scheme: "Bearer", Scopes: []string{"s"}}}},
		{"other schemes", []string{`Negotiate, Basic realm="x", Digest nonce="a,b", Bearer error="invalid_token"`},
			[]Challenge{{Scheme: "Bearer", Error: "invalid_token"}}},
		{"a parameter twice", []string{`Bearer scope="a", SCOPE="b"`}, nil},
		{"a quote that never ends", []string{`Bearer scope="a`}, nil},
		{"a control character", []string{"Bearer scope=\"a\x01\""}, nil},
		{"a token in place of parameters", []string{"Bearer abc"}, nil},
		{"longer than we read", []string{`Bearer scope="` + strings.Repeat("a ", maxChallenge) + `"`}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := Challenges((&transport.StatusError{Authenticate: c.fields}).Challenges()); !reflect.DeepEqual(got, c.want) {
				t.Errorf("got  %+v\nwant %+v", got, c.want)
			}
		})
	}
}

func TestBest(t *testing.T) {
	bare, wrong, named := Challenge{Scheme: "Bearer"}, Challenge{Scheme: "DPoP", Error: "x"}, Challenge{Scheme: "Bearer", ResourceMetadata: "u"}
	for _, c := range []struct {
		all  []Challenge
		want Challenge
	}{
		{[]Challenge{bare, wrong, named}, named}, {[]Challenge{bare, wrong}, wrong}, {[]Challenge{bare}, bare}, {nil, Challenge{}},
	} {
		if got, ok := Best(c.all); !reflect.DeepEqual(got, c.want) || ok != (len(c.all) > 0) {
			t.Errorf("Best(%v) = %v, %v", c.all, got, ok)
		}
	}
}
