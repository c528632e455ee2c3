package streamhttp

import (
	"errors"
	"net/http"
	"slices"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// TestChallengesStayApart checks that whoever gets a 401, for a call of either era or for the event
// stream, gets each challenge by itself, although one is malformed. Another client, with a
// key, goes on.
func TestChallengesStayApart(t *testing.T) {
	want := []string{`Basic realm="never ends`, `Bearer resource_metadata="https://h/x", scope="a, b"`, "Negotiate"}
	serve := func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(msgReply))
			return
		}
		w.Header()["Www-Authenticate"] = []string{want[0], want[1] + ", " + want[2]}
		w.WriteHeader(http.StatusUnauthorized)
	}
	c := clientFor(t, ClientOptions{}, serve)
	other := clientFor(t, ClientOptions{Header: []transport.HeaderField{{Name: "Authorization", Value: "key"}}}, serve)
	check := func(what string, err error) {
		t.Helper()
		var status *transport.StatusError
		if !errors.As(err, &status) || !slices.Equal(status.Challenges(), want) {
			t.Errorf("%s: %v", what, err)
		}
		if _, err := other.Do(t.Context(), outgoing(legacyRules), func(*jsonrpc.Message) {}); err != nil {
			t.Errorf("%s: the other client: %v", what, err)
		}
	}
	for name, rules := range map[string]*transport.Rules{"legacy": legacyRules, "modern": modernRules} {
		_, err := c.Do(t.Context(), outgoing(rules), func(*jsonrpc.Message) {})
		check(name, err)
	}
	check("a message without an answer", c.Post(t.Context(), &transport.Outgoing{Body: []byte(msgNotice), Method: "notifications/progress", Rules: legacyRules}))
	check("the stream", c.Listen(t.Context(), legacyRules, func(*jsonrpc.Message) {}))
}
