package doctor

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/workbench/fake"
)

// signInFaults has what is found at each profile of a server that wants a sign-in, without signing in. Profiles whose
// fault shows only after a sign-in are nil, and must look like the one without a fault.
var signInFaults = map[string][]string{
	"ok": nil, "step-up": nil, "no-rotation": nil, "slow-token": nil, "changed-issuer": nil, "endless-scope": nil, "forgets-clients": nil, "html-errors": nil,
	"no-grace": nil, "no-second-refresh": nil, "refresh-drops-resource": nil,
	"no-metadata":       {LegacySignIn},
	"bare-challenge":    {BareChallenge},
	"duplicate-members": {MetadataInvalid},
	"huge-metadata":     {MetadataInvalid},
	"moved-metadata":    {MetadataMoved},
	"every-path":        {AnswersEverything},
	"iss-missing":       {IssUnsent},
	"issuer-slash":      {IssuerSlash},
	"no-loopback":       {RefusesLoopback},
	"no-pkce":           {NoPKCE},
	"no-registration":   {CannotRegister},
	"resource-mismatch": {OtherResource},
	"wrong-issuer":      {OtherIssuer},
}

// examineAt examines a server on this machine with the doctor's own transport, so that the rules for addresses that
// documents name apply.
func examineAt(t *testing.T, h http.Handler, path string) *Report {
	t.Helper()
	web := httptest.NewServer(h)
	defer web.Close()
	u, err := url.Parse(web.URL + path)
	if err != nil {
		t.Fatal(err)
	}
	r, err := Examine(t.Context(), Target{URL: u}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestEveryFaultOfASignInIsFound examines each profile of fake oauth. A profile without a row fails, and so does a
// finding too many.
func TestEveryFaultOfASignInIsFound(t *testing.T) {
	for _, p := range fake.OAuthProfiles() {
		t.Run(p.Name, func(t *testing.T) {
			want, ok := signInFaults[p.Name]
			if !ok {
				t.Fatal("the profile has no row with its expected findings")
			}
			a, err := fake.NewOAuth(p.Name, fake.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer a.Close()
			r := examineAt(t, a.Handler(), a.Path())
			got := slices.DeleteFunc(codes(r), func(code string) bool { return code == WantsCredentials })
			slices.Sort(got)
			if !slices.Equal(got, want) || !r.Verdict.SignIn {
				t.Errorf("found %v, want %v:\n%s", got, want, dump(r))
			}
			for _, f := range r.Findings {
				if f.Evidence == "" || strings.Contains(f.Evidence, "secret-") {
					t.Errorf("the evidence of %s is %q", f.Code, f.Evidence)
				}
			}
			if n := a.Counts(); n["authorization_code"]+n["refresh_token"] > 1 || n["register"] > 3 {
				t.Errorf("the doctor did more than it should: %v", n)
			}
		})
	}
}

// TestSignInOfOthers has servers that the fakes don't have, and that want something else than OAuth.
func TestSignInOfOthers(t *testing.T) {
	const doc = `{"issuer":"BASE","authorization_endpoint":"BASE/a","token_endpoint":"BASE/t","code_challenge_methods_supported":["S256"],"registration_endpoint":"BASE/r","authorization_response_iss_parameter_supported":true`
	const prm, as = "/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-authorization-server"
	good := `200 {"resource":"BASE/mcp","authorization_servers":["BASE"]}`
	for name, c := range map[string]struct {
		pages map[string]string // "STATUS body", by path
		want  []string
	}{
		"a key in a header":              {nil, nil},
		"a page at every path":           {map[string]string{"": "200 <html>"}, []string{MetadataInvalid}},
		"metadata without a server":      {map[string]string{prm: `200 {"resource":"BASE/mcp"}`}, []string{NamesNoIssuer}},
		"a server without metadata":      {map[string]string{prm: good}, []string{MetadataMissing}},
		"a server that is down":          {map[string]string{prm: good, as: "503 "}, []string{IssuerUnreached}},
		"an address that is never asked": {map[string]string{prm: `200 {"resource":"BASE/mcp","authorization_servers":["http://169.254.169.254"]}`}, []string{AddressTooNear}},
		"a token endpoint over http":     {map[string]string{prm: good, as: "200 " + strings.Replace(doc, "BASE/t", "http://10.0.0.1/t", 1) + "}"}, []string{OddEndpoint}},
		"a registration of nothing":      {map[string]string{prm: good, as: "200 " + doc + "}", "/r": `201 {"client_secret":"secret-1"}`}, []string{RefusesToRegister}},
		"a registration that is closed":  {map[string]string{prm: good, as: "200 " + doc + "}", "/r": "401 "}, []string{RefusesToRegister}},
		"another iss":                    {map[string]string{prm: good, as: "200 " + doc + "}", "/r": `201 {"client_id":"a"}`, "/a": "302 " + callbackURI + "?error=x&iss=BASE/"}, []string{IssWrong}},
		"a page in place of a redirect":  {map[string]string{prm: good, as: "200 " + doc + "}", "/r": `201 {"client_id":"a"}`, "/a": "200 <html>"}, nil},
		"an issuer that isn't the origin": {map[string]string{
			prm: `200 {"resource":"BASE/mcp","authorization_servers":["BASE/tenant"]}`, as + "/tenant": "200 " + strings.Replace(doc, `"BASE"`, `"BASE/tenant"`, 1) + "}", "/r": `201 {"client_id":"a"}`, "/a": "200 <html>",
		}, []string{NoLegacySignIn}},
		"no iss, and no promise": {map[string]string{prm: good, as: "200 " + strings.Replace(doc, "true", "false", 1) + "}", "/r": `201 {"client_id":"a"}`, "/a": "302 " + callbackURI + "?error=x"}, []string{IssUnpromised}},
	} {
		t.Run(name, func(t *testing.T) {
			r := examineAt(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				base := "http://" + r.Host
				page, ok := c.pages[r.URL.Path]
				if !ok {
					page, ok = c.pages[""]
				}
				status, body, _ := strings.Cut(strings.ReplaceAll(page, "BASE", base), " ")
				switch {
				case r.URL.Path == "/mcp":
					w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="`+base+prm+`"`)
					if c.pages == nil || c.pages[""] != "" {
						w.Header().Set("WWW-Authenticate", "Bearer")
					}
					w.WriteHeader(http.StatusUnauthorized)
				case status == "302":
					http.Redirect(w, r, body, http.StatusFound)
				case !ok:
					http.NotFound(w, r)
				default:
					w.Header().Set("Content-Type", "application/json")
					w.WriteHeader(map[string]int{"200": 200, "201": 201, "401": 401, "503": 503}[status])
					_, _ = w.Write([]byte(body))
				}
			}), "/mcp")
			got := slices.DeleteFunc(codes(r), func(code string) bool { return code == WantsCredentials })
			if !slices.Equal(got, c.want) || strings.Contains(dump(r), "secret-1") {
				t.Errorf("found %v, want %v:\n%s", got, c.want, dump(r))
			}
		})
	}
}

// personFaults has what is found in addition when a person signs in.
var personFaults = map[string][]string{
	"ok": nil, "step-up": nil, "slow-token": nil, "bare-challenge": nil, "every-path": nil, "issuer-slash": nil,
	"iss-missing":            {IssUnsent},
	"no-rotation":            {NoRotation},
	"changed-issuer":         {IssuerMoves},
	"endless-scope":          {EndlessScope},
	"forgets-clients":        {ForgetsClients},
	"html-errors":            {IssuerUnreached},
	"no-grace":               {NoGrace},
	"no-second-refresh":      {RefreshRefused},
	"refresh-drops-resource": {RefreshLosesAudience},
}

// TestEveryFaultAfterASignInIsFound examines the same profiles with a person, who agrees to everything.
func TestEveryFaultAfterASignInIsFound(t *testing.T) {
	for name, want := range personFaults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, err := fake.NewOAuth(name, fake.Options{Set: map[string]string{"consent": "none", "ms": "10"}})
			if err != nil {
				t.Fatal(err)
			}
			defer a.Close()
			web := httptest.NewServer(a.Handler())
			defer web.Close()
			u, err := url.Parse(web.URL + a.Path())
			if err != nil {
				t.Fatal(err)
			}
			pages := 0
			r, err := Examine(t.Context(), Target{URL: u}, Options{SignIn: func(ctx context.Context, page string) error {
				pages++
				req, err := http.NewRequestWithContext(ctx, http.MethodGet, page, nil)
				if err != nil {
					return err
				}
				resp, err := web.Client().Do(req)
				if err == nil {
					err = resp.Body.Close()
				}
				return err
			}})
			if err != nil {
				t.Fatal(err)
			}
			both := slices.Concat(want, signInFaults[name])
			slices.Sort(both)
			got := slices.DeleteFunc(codes(r), func(code string) bool { return code == WantsCredentials })
			slices.Sort(got)
			if !slices.Equal(got, slices.Compact(both)) || pages == 0 || pages > 2 {
				t.Errorf("found %v with %d pages, want %v:\n%s", got, pages, both, dump(r))
			}
			if text := dump(r); strings.Contains(text, "token-") || strings.Contains(text, "code-") || strings.Contains(text, "refresh-") {
				t.Errorf("a secret in\n%s", text)
			}
		})
	}
	for _, p := range fake.OAuthProfiles() {
		if _, ok := personFaults[p.Name]; !ok && len(signInFaults[p.Name]) == 0 {
			t.Errorf("nothing is ever found at the profile %s", p.Name)
		}
	}
}
