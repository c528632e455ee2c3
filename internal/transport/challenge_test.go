package transport

import (
	"slices"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/base/failure"
)

// TestChallenges checks that each challenge stands alone, however the server has written them, and
// that a malformed one costs none of the others.
func TestChallenges(t *testing.T) {
	const bearer = `Bearer resource_metadata="https://h/.well-known/x, y", scope="a b"`
	for _, tt := range []struct{ fields, want []string }{
		{nil, nil},
		{[]string{""}, nil},
		{[]string{" , ,"}, nil},
		{[]string{bearer}, []string{bearer}},
		{[]string{"Negotiate", bearer}, []string{"Negotiate", bearer}},
		{[]string{"Negotiate," + bearer + `,Basic realm="x"`}, []string{"Negotiate", bearer, `Basic realm="x"`}},
		{[]string{`Basic realm="a", charset="UTF-8", ` + bearer}, []string{`Basic realm="a", charset="UTF-8"`, bearer}},
		{[]string{`Digest realm = "a" , nonce= "b"`, bearer}, []string{`Digest realm = "a", nonce= "b"`, bearer}},
		{[]string{`NTLM TlRMTVNTUAAC==, ` + bearer}, []string{"NTLM TlRMTVNTUAAC==", bearer}},
		{[]string{`Bearer error_description="say \"x, y\"", error="e", Basic`}, []string{`Bearer error_description="say \"x, y\"", error="e"`, "Basic"}},
		{[]string{`@@ what, is="this"`, bearer}, []string{`@@ what, is="this"`, bearer}},
		{[]string{`="x", ` + bearer + `, <html>`}, []string{`="x"`, bearer, "<html>"}},
		{[]string{`realm="no scheme"`, bearer}, []string{`realm="no scheme"`, bearer}},
		{[]string{`Basic realm="never ends, ` + strings.ReplaceAll(bearer, `"`, "")}, []string{`Basic realm="never ends`, `Bearer resource_metadata=https://h/.well-known/x`, "y, scope=a b"}},
	} {
		e := &StatusError{Status: 401, Authenticate: tt.fields}
		if got := e.Challenges(); !slices.Equal(got, tt.want) {
			t.Errorf("%q: %q, want %q", tt.fields, got, tt.want)
		}
		var f failure.Facts
		if e.DescribeFailure(&f); f.Challenge != strings.Join(tt.fields, ", ") {
			t.Errorf("%q: the failure has %q", tt.fields, f.Challenge)
		}
	}
}

// FuzzChallenges checks that no challenge is empty or invented, and that a field beside a malformed
// one keeps its challenge.
func FuzzChallenges(f *testing.F) {
	for _, s := range []string{"", `Bearer a="b`, `Basic realm="a", Bearer`, `\",=`, "a,,b ,\t=", `x y="\`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, field string) {
		const good = `Bearer resource_metadata="https://h/x"`
		all := (&StatusError{Authenticate: []string{good, field, good}}).Challenges()
		if len(all) < 2 || all[0] != good || all[len(all)-1] != good {
			t.Fatalf("%q: %q", field, all)
		}
		for _, c := range all[1 : len(all)-1] {
			for _, x := range strings.Split(c, ", ") {
				if c == "" || !strings.Contains(field, x) {
					t.Errorf("%q: %q", field, all)
				}
			}
		}
	})
}
