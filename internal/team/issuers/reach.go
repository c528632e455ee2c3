package issuers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	jose "github.com/go-jose/go-jose/v4"

	"github.com/dragoman-mcp/dragoman/internal/team/signin/oauth"
)

// reach makes the requests to an issuer.
type reach struct {
	issuer string
	keys   string // the configured URL of its keys, or ""
	o      *Options

	mu    sync.Mutex
	found *oauth.Issuer // the last metadata that were found; nil before
}

// fetchKeys fetches the keys of the issuer, and says how long they may be kept.
func (r *reach) fetchKeys(ctx context.Context) ([]jose.JSONWebKey, time.Duration, error) {
	d, at, err := r.find(ctx, r.keys, func(m *oauth.Issuer) string { return m.Keys }, "jwks_uri")
	if err != nil {
		return nil, 0, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return nil, 0, err
	}
	req.Header.Set("Accept", "application/json")
	a, err := d.Do(ctx, req)
	if err != nil {
		return nil, 0, err
	}
	if a.Status != http.StatusOK {
		return nil, 0, fmt.Errorf("the keys' URL answers with the status %d", a.Status)
	}
	keys, err := oauth.ReadKeys(a.Body)
	return keys[:min(len(keys), maxKeys)], a.Keep(shortestLife, longestLife), err
}

// find returns what makes requests, and the URL of a kind, which is the configured one if there is one. name is
// what the metadata calls it. Metadata that can't be read now are those of the last time.
func (r *reach) find(ctx context.Context, configured string, of func(*oauth.Issuer) string, name string) (oauth.Doer, string, error) {
	d, err := r.o.Reach(ctx, r.issuer)
	if err != nil || configured != "" {
		return d, configured, err
	}
	m, err := r.o.Find(ctx, d, r.issuer)
	if err != nil {
		r.mu.Lock()
		m = r.found
		r.mu.Unlock()
		if m == nil || of(m) == "" {
			return nil, "", err
		}
		return d, of(m), nil
	}
	if of(m) == "" {
		return nil, "", fmt.Errorf("the issuer's metadata has no %s", name)
	}
	r.mu.Lock()
	r.found = m
	r.mu.Unlock()
	return d, of(m), nil
}

// ask asks the issuer about a token (RFC 7662 §2.1).
func (r *reach) ask(ctx context.Context, who Client, token string) ([]byte, error) {
	d, at, err := r.endpoint(ctx)
	if err != nil {
		return nil, err
	}
	form := url.Values{"token": {token}, "token_type_hint": {"access_token"}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, at, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Accept", "application/json")
	req.SetBasicAuth(url.QueryEscape(who.ID), url.QueryEscape(who.Secret.Reveal())) // RFC 6749 §2.3.1
	a, err := d.Do(ctx, req)
	switch {
	case err != nil:
		return nil, err
	case a.Status == http.StatusUnauthorized:
		return nil, errors.New("the issuer does not accept the client that asks about tokens; check introspect.clientID and clientSecret")
	case a.Status != http.StatusOK:
		return nil, fmt.Errorf("the issuer answers a question about a token with the status %d", a.Status)
	}
	return a.Body, nil
}

// endpoint returns where the issuer answers questions about tokens. Metadata are read once; they hardly change,
// and each opaque token needs them.
func (r *reach) endpoint(ctx context.Context) (oauth.Doer, string, error) {
	r.mu.Lock()
	at := ""
	if r.found != nil {
		at = r.found.Introspect
	}
	r.mu.Unlock()
	return r.find(ctx, at, func(m *oauth.Issuer) string { return m.Introspect }, "introspection_endpoint")
}
