package httplink

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/failure"
)

// schemeTimeout bounds SpeaksTLS.
const schemeTimeout = 3 * time.Second

// SpeaksTLS reports whether a server speaks TLS at the port of an http URL. Such servers often end the
// connection when they get plain HTTP, which looks like any other broken connection. SpeaksTLS sends
// neither the path nor the credentials of the URL. rt is as for [Options.HTTP].
func SpeaksTLS(ctx context.Context, address string, rt http.RoundTripper) bool {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" {
		return false
	}
	l, err := New("https://"+u.Host+"/", Options{HTTP: rt})
	if err != nil {
		return false
	}
	defer l.Close()
	ctx, stop := context.WithTimeout(ctx, schemeTimeout)
	defer stop()
	resp, err := l.Send(ctx, http.MethodGet, l.NewHeader(0), nil)
	if err != nil {
		return failure.Of(err, failure.Facts{}).Class == failure.TLS // so is a certificate that we don't trust
	}
	resp.Close()
	return true
}
