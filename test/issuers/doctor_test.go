//go:build unix

package issuers

import (
	"encoding/json"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/test/tab"
)

// TestDoctor examines the sign-in at both providers. What doctor finds is true of them, and nothing else is found.
func TestDoctor(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the program")
	}
	program := build(t)
	for _, tc := range []struct {
		name  string
		npm   bool
		start func(t *testing.T) *issuer
		want  []string
	}{
		// zitadel's example ends its issuer with a slash, which the server leaves out, and has neither registration nor iss. Both are on another port
		// than the server, where clients of 2025-03-26 don't look.
		{"zitadel", false, func(t *testing.T) *issuer { return zitadel(t, "/") }, []string{"DRG-AUTH-ISS-OPTIONAL", "DRG-AUTH-ISSUER-SLASH", "DRG-AUTH-NO-REGISTRATION", "DRG-AUTH-OLD-CLIENTS"}},
		{"oidc-provider", true, func(t *testing.T) *issuer { return oidcProvider(t, time.Hour) }, []string{"DRG-AUTH-OLD-CLIENTS"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.npm && os.Getenv("DRAGOMAN_ISSUERS") == "" {
				t.Skip("set DRAGOMAN_ISSUERS=1 (or make issuers) to run issuers from npm")
			}
			cmd := exec.Command(program, "doctor", "--json", "--all", protected(t, tc.start(t)))
			cmd.Env = tab.Home(t.TempDir(), tab.Script{})
			out, err := cmd.Output()
			var report struct {
				Findings []struct{ Code, Evidence string }
			}
			if bad := json.Unmarshal(out, &report); bad != nil {
				t.Fatal(err, bad, string(out))
			}
			var got []string
			for _, f := range report.Findings {
				if strings.HasPrefix(f.Code, "DRG-AUTH-") {
					got = append(got, f.Code)
				}
			}
			slices.Sort(got)
			if !slices.Equal(got, tc.want) {
				t.Errorf("found %v, want %v:\n%s", got, tc.want, out)
			}
		})
	}
}
