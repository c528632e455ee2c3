package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/config"
	"github.com/dragoman-mcp/dragoman/internal/excerpt"
)

const (
	// maxAnswer bounds what is read from a running serve, in bytes.
	maxAnswer = 4 << 20
	// answerTime is how long a running serve may take for an answer.
	answerTime = 5 * time.Second
)

// serveAddress returns the base URL of the serve that runs on this machine: the one given,
// else the address in the configuration, else the default address. It does not check that
// something answers there. A configuration with errors counts as none, because serve keeps
// its old one.
func (a *app) serveAddress(given, file string) (string, error) {
	if given != "" {
		u, err := url.Parse(given)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return "", usagef("use a URL such as http://127.0.0.1:7300", "%q is not the URL of a running serve", given)
		}
		return u.Scheme + "://" + u.Host + strings.TrimSuffix(strings.TrimSuffix(u.Path, "/"), "/mcp"), nil
	}
	listen := config.Default().Listen
	if path, ok := a.configPath(file); ok {
		if s, _ := config.Load(path); s != nil {
			listen = s.Listen
		}
	}
	return reachable("http://" + listen), nil
}

// fetch gets a page of a running serve, without a proxy. It does not follow redirects.
func fetch(ctx context.Context, address string) (status int, body []byte, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, answerTime, fmt.Errorf("no answer within %s", answerTime))
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return 0, nil, err
	}
	client := http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	answer, err := client.Do(r)
	if err != nil {
		var wrapped *url.Error // it repeats the URL
		switch {
		case context.Cause(ctx) != nil:
			err = context.Cause(ctx)
		case errors.As(err, &wrapped):
			err = wrapped.Err
		}
		return 0, nil, err
	}
	defer answer.Body.Close()
	body, err = io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	return answer.StatusCode, body, err
}

// firstLine returns the first line of an answer, quoted and cut.
func firstLine(body []byte) string {
	line, _, _ := strings.Cut(strings.TrimSpace(string(body)), "\n")
	return excerpt.Quote(line, 200)
}
