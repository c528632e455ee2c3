package doctor

import (
	"io"
	"log"
	"net/http"
	"net/url"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/dragoman-mcp/dragoman/internal/testkit/netsim"
	"github.com/dragoman-mcp/dragoman/internal/workbench/fake"
)

// call examines a server over HTTP, on an in-memory network. h is the server's handler.
func call(t *testing.T, h http.Handler, path string, o Options) *Report {
	t.Helper()
	return callWith(t, h, path, nil, o)
}

// callWith does the same as call, with header fields for each request.
func callWith(t *testing.T, h http.Handler, path string, header http.Header, o Options) *Report {
	t.Helper()
	n := netsim.NewNetwork()
	l, err := n.Listen("127.0.0.1:80")
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: h, ErrorLog: log.New(io.Discard, "", 0)}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(l) }()
	transport := &http.Transport{DialContext: n.DialContext}
	r, err := Examine(t.Context(), Target{URL: &url.URL{Scheme: "http", Host: "127.0.0.1", Path: path}, Header: header, Transport: transport}, o)
	transport.CloseIdleConnections()
	_ = srv.Close()
	<-done
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func callFake(t *testing.T, name string, o Options) *Report {
	t.Helper()
	s, err := fake.NewServer(name, fake.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	return call(t, s.Handler(), s.Path(), o)
}

// TestFaultsOverHTTP checks some of the faults over HTTP.
func TestFaultsOverHTTP(t *testing.T) {
	for name, want := range map[string]string{
		"bad-schema": SchemaInvalid, "endless-cursor": Endless, "wrong-id-type": IDType, "never-answers": NoRevision,
		"crash-at=call": DiesOnOdd, "half-line": BodyUnreadable, "id-zero-errors": NoteAnswered,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if r := callFake(t, name, Options{Call: "count"}); !slices.Contains(codes(r), want) {
					t.Errorf("%s was not found:\n%s", want, dump(r))
				}
			})
		})
	}
}

// TestBroadcastingIsAllThatIsFound checks a server that sends the messages of one session to all
// sessions. The doctor must report only the broadcasts. It must not report answers to its other
// sessions as wrong answers, a manifest or a flood.
func TestBroadcastingIsAllThatIsFound(t *testing.T) {
	for range 5 {
		synctest.Test(t, func(t *testing.T) {
			r := callFake(t, "broadcasts", Options{Deep: true, Call: "count"})
			for _, f := range r.Findings {
				if f.Level != Info && f.Code != Broadcasts {
					t.Errorf("found %s: %s", f.Code, f.Evidence)
				}
			}
			if !slices.Contains(codes(r), Broadcasts) || !r.Verdict.Reached {
				t.Errorf("got\n%s", dump(r))
			}
		})
	}
}
