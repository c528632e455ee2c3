package fronttest

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"testing"
	"time"
)

// TestProxyKeepsStream begins an answer before the end of the request has been read, as happens by chance otherwise.
func TestProxyKeepsStream(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := http.NewResponseController(w)
		_ = c.EnableFullDuplex()
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "begun\n")
		_ = c.Flush()
		all, _ := io.ReadAll(r.Body)
		_, _ = w.Write(all)
	}))
	defer server.Close()
	defer server.CloseClientConnections()
	to, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	front := httptest.NewServer(Proxy(func(r *httputil.ProxyRequest) { r.SetURL(to) }, nil))
	defer front.Close()
	defer front.CloseClientConnections()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	body, rest := io.Pipe()
	defer body.Close()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, front.URL, body)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer := bufio.NewReader(resp.Body)
	if line, err := answer.ReadString('\n'); line != "begun\n" {
		t.Fatalf("the stream begins with %q: %v", line, err)
	}
	_, _ = io.WriteString(rest, "done")
	_ = rest.Close()
	if got, err := io.ReadAll(answer); string(got) != "done" || err != nil {
		t.Errorf("the stream ends with %q: %v", got, err)
	}
}
