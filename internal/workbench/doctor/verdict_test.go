package doctor

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// TestStubSchemas checks in which cases schemas without parameters cause a warning.
func TestStubSchemas(t *testing.T) {
	const stub, whole = `{"name":"%","description":"x","inputSchema":{"type":"object"}}`, `{"name":"%","description":"x","inputSchema":{"type":"object","properties":{}}}`
	list := func(tools ...string) string {
		for i := range tools {
			tools[i] = strings.Replace(tools[i], "%", string(rune('a'+i)), 1)
		}
		return strings.Join(tools, ",")
	}
	for name, c := range map[string]struct {
		tools    string
		manifest bool
		want     string // SchemaStub, SchemaBare or ""
	}{
		"all of two":                      {list(stub, stub), false, SchemaStub},
		"one of two":                      {list(stub, whole), false, SchemaBare},
		"the only one":                    {list(stub), false, SchemaBare},
		"none":                            {list(whole, whole), false, ""},
		"with a title":                    {list(strings.Replace(stub, `{"type"`, `{"title":"T","type"`, 1), stub), false, SchemaStub},
		"a manifest with one":             {list(stub, whole), true, SchemaStub},
		"a manifest with a params_schema": {list(strings.Replace(stub, "inputSchema", "params_schema", 1)), true, SchemaStub},
		"a manifest without":              {list(whole), true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := examinePlain(t, func(p *plain, _ string, m *jsonrpc.Message) bool {
					if m == nil || m.Kind != jsonrpc.Request {
						return false
					}
					method := mcp.MethodListTools
					if c.manifest {
						method = mcp.MethodInitialize
					}
					if m.Method != method {
						return false
					}
					p.say(string(jsonrpc.AppendResult(nil, m.ID, []byte(`{"serverInfo":{"name":"m","version":"1"},"tools":[`+c.tools+`]}`))))
					return true
				})
				for _, code := range []string{SchemaStub, SchemaBare} {
					if slices.Contains(codes(r), code) != (code == c.want) {
						t.Errorf("want %q:\n%s", c.want, dump(r))
					}
				}
				for _, f := range r.Findings {
					if f.Code == SchemaStub && f.Level != Warning {
						t.Errorf("the level is %s", f.Level)
					}
				}
			})
		})
	}
}

// TestBatchesHurtSomebody checks that refusing batches is a warning only if the server's newest
// revision has batches.
func TestBatchesHurtSomebody(t *testing.T) {
	for _, c := range []struct {
		newest mcp.Revision
		want   Level
	}{{mcp.Revisions(mcp.Batches)[0], Warning}, {mcp.LatestLegacy, Info}} {
		synctest.Test(t, func(t *testing.T) {
			r, err := Examine(t.Context(), Target{Start: startPlain(func(p *plain, _ string, m *jsonrpc.Message) bool {
				if m == nil || m.Method != mcp.MethodInitialize {
					return false
				}
				version, ok := jsonrpc.Text(m.Raw, m.Param("protocolVersion"))
				if offered, known := mcp.ParseRevision(version); !ok || known && slices.Index(mcp.Revisions(), offered) >= slices.Index(mcp.Revisions(), c.newest) {
					return false
				}
				p.say(string(jsonrpc.AppendResult(nil, m.ID, []byte(`{"protocolVersion":"`+c.newest.String()+`","capabilities":{"tools":{}},"serverInfo":{"name":"old","version":"1"}}`))))
				return true
			})}, Options{})
			if err != nil {
				t.Fatal(err)
			}
			got := Level("")
			for _, f := range r.Findings {
				if f.Code == BatchRefused {
					got = f.Level
				}
			}
			if got != c.want {
				t.Errorf("newest %s: the level is %q, want %q:\n%s", c.newest, got, c.want, dump(r))
			}
		})
	}
}

// TestSignIn checks a server that responds with 401. Without credentials, this is no error. With
// credentials, it is the error CredentialsRefused.
func TestSignIn(t *testing.T) {
	for _, given := range []bool{false, true} {
		header := http.Header{}
		if given {
			header.Set("Authorization", "Bearer expired-token")
		}
		r, err := Examine(t.Context(), Target{
			URL: &url.URL{Scheme: "http", Host: "127.0.0.1", Path: "/mcp"}, Header: header,
			Transport: roundTrip(func(q *http.Request) *http.Response {
				return &http.Response{StatusCode: http.StatusUnauthorized, Header: http.Header{"Www-Authenticate": {"Bearer"}}, Body: io.NopCloser(strings.NewReader("")), Request: q}
			}),
		}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if given != slices.Contains(codes(r), CredentialsRefused) || given == r.Verdict.SignIn || given == r.Verdict.Healthy || !r.Verdict.Reached {
			t.Errorf("given is %t, the verdict %+v:\n%s", given, r.Verdict, dump(r))
		}
	}
}

type roundTrip func(*http.Request) *http.Response

func (f roundTrip) RoundTrip(q *http.Request) (*http.Response, error) {
	if q.Body != nil {
		_ = q.Body.Close()
	}
	return f(q), nil
}

// TestMostHurtComeFirst checks the order of findings: by level, and within a level by the number of
// affected clients.
func TestMostHurtComeFirst(t *testing.T) {
	var all []Finding
	for _, code := range []string{IDBig, BareDies, ProbeSilent, PingSilent, Dies, SlowStart} {
		c, _ := Lookup(code)
		all = append(all, Finding{Condition: c})
	}
	slices.SortFunc(all, severity)
	var got []string
	for _, f := range all {
		got = append(got, f.Code)
	}
	if want := []string{Dies, PingSilent, ProbeSilent, SlowStart, BareDies, IDBig}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// TestLooksNearby checks that the verdict names endpoints near an address that has none, and that the doctor
// looks for them only then.
func TestLooksNearby(t *testing.T) {
	for status, looks := range map[int]bool{http.StatusNotFound: true, http.StatusMethodNotAllowed: true, http.StatusUnauthorized: false, http.StatusInternalServerError: false} {
		answer := roundTrip(func(q *http.Request) *http.Response {
			return &http.Response{StatusCode: status, Request: q, Header: http.Header{}, Body: http.NoBody}
		})
		u, _ := url.Parse("http://h.example/")
		asked := 0
		look := func(context.Context) []string {
			asked++
			return []string{"http://h.example/mcp"}
		}
		r, err := Examine(t.Context(), Target{URL: u, Transport: answer, Look: look}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if f := r.Verdict.Failure; (asked == 1) != looks || f == nil || strings.Contains(f.Action, "http://h.example/mcp") != looks {
			t.Errorf("HTTP %d: looked %d times, %+v", status, asked, f)
		}
	}
}
