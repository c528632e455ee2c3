package sse

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// TestChallengesStayApart checks that a 401 for the stream or for a message brings each challenge by
// itself, although one is malformed. Another client of the server goes on.
func TestChallengesStayApart(t *testing.T) {
	want := []string{`Basic realm="never ends`, `Bearer resource_metadata="https://h/x", scope="a, b"`, "Negotiate"}
	s := &fakeServer{status: 202, first: "event: endpoint\ndata: /messages?id=1\n\n", posts: make(chan string, 1)}
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch key := r.Header.Get("Authorization"); {
		case key == "key", key == "stream only" && r.Method == http.MethodGet:
			s.ServeHTTP(w, r)
		default:
			w.Header()["Www-Authenticate"] = []string{want[0], want[1] + ", " + want[2]}
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	t.Cleanup(h.Close)
	with := func(key string) ClientOptions {
		return ClientOptions{Header: []transport.HeaderField{{Name: "Authorization", Value: key}}}
	}
	check := func(what string, err error) {
		t.Helper()
		var status *transport.StatusError
		if !errors.As(err, &status) || !slices.Equal(status.Challenges(), want) {
			t.Errorf("%s: %v", what, err)
		}
	}
	_, err := Dial(t.Context(), h.URL+"/sse", with("wrong"))
	check("the stream", err)
	check("a message", dial(t, h.URL+"/sse", with("stream only")).Write([]byte(aRequest)))
	good := dial(t, h.URL+"/sse", with("key"))
	if err := good.Write([]byte(aRequest)); err != nil {
		t.Errorf("the other client: %v", err)
	}
}
