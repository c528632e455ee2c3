package authserver

import (
	"context"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4/json"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/team/access"
	"github.com/dragoman-mcp/dragoman/internal/team/egress"
	"github.com/dragoman-mcp/dragoman/internal/team/signin/oauth"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// Bounds of documents.
const (
	DocumentSize = 64 << 10
	DocumentTime = 5 * time.Second

	leastKept     = 5 * time.Minute
	mostKept      = 24 * time.Hour
	keptFailure   = time.Minute
	mostDocuments = 256 // in memory
	mostPerMinute = 30  // that are fetched for one address
	mostAtOnce    = 32  // that are fetched
)

// documentError says what is wrong with a client's document: a sentence without a full stop.
type documentError struct {
	text    string
	weather bool // it couldn't be fetched, so nothing is known about it
}

func (e *documentError) Error() string { return e.text }

// isDocument reports whether the id of a client is the URL of its document (draft-ietf-oauth-client-id-metadata-document
// §3): https with a path, and without all that URL parsers read in different ways.
func isDocument(id string) bool {
	u, err := url.Parse(id)
	if err != nil || u.Scheme != "https" || !strings.HasPrefix(id, "https://") || len(id) > mostURI || strings.ContainsFunc(id, odd) {
		return false
	}
	if u.Host == "" || u.Port() != "" || strings.HasSuffix(u.Host, ":") || u.User != nil || strings.ContainsAny(id, "?#") || strings.Trim(u.Path, "/") == "" {
		return false
	}
	return !slices.ContainsFunc(strings.Split(u.Path, "/"), func(segment string) bool { return segment == "." || segment == ".." })
}

// documents fetches the documents of clients and keeps them for a while. Create one with newDocuments. It is safe
// for concurrent use.
type documents struct {
	fetch oauth.Doer // for public addresses, and without redirects
	tries *access.Tries
	room  chan struct{} // contains a value for each document that is being fetched

	mu   sync.Mutex
	kept map[string]kept
	keys map[string]keptKeys // by their addresses
}

type kept struct {
	client *Client
	err    error
	until  time.Time
}

func newDocuments(fetch oauth.Doer) *documents {
	return &documents{fetch: fetch, tries: access.NewTries(mostPerMinute, time.Minute), room: make(chan struct{}, mostAtOnce)}
}

// client returns the client of a document, for somebody at an address. Any stranger may name any document, so that we
// ask its host; the limits keep them from using us to flood others, or ourselves.
func (d *documents) client(ctx context.Context, id, from string) (*Client, error) {
	now := time.Now()
	d.mu.Lock()
	have, ok := d.kept[id]
	d.mu.Unlock()
	if ok && now.Before(have.until) {
		return have.client, have.err
	}
	c, life, err := d.limited(ctx, id, from)
	var bad *documentError
	if errors.As(err, &bad) && bad.weather {
		if x := known(id); x != nil {
			c, err = x, nil
		}
	}
	if life == 0 || err != nil && ctx.Err() != nil {
		return c, err // it wasn't asked for, or whoever asked has gone, which says nothing about the document
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.kept == nil || len(d.kept) >= mostDocuments {
		d.kept = map[string]kept{} // they are fetched again
	}
	d.kept[id] = kept{c, err, now.Add(life)}
	return c, err
}

// limited fetches a document as get does, unless too many are fetched. Then life is 0.
func (d *documents) limited(ctx context.Context, id, from string) (c *Client, life time.Duration, err error) {
	busy := &documentError{"the client's document cannot be fetched now, because too many others are; try again in a minute", true}
	if d.tries.Take(from, time.Now()) > 0 {
		return nil, 0, busy
	}
	select {
	case d.room <- struct{}{}:
		defer func() { <-d.room }()
		return d.get(ctx, id)
	default:
		return nil, 0, busy
	}
}

// get fetches a document. life is how long the result counts.
func (d *documents) get(ctx context.Context, id string) (c *Client, life time.Duration, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, id, nil)
	if err != nil {
		return nil, keptFailure, &documentError{text: "the address of the client's document is no URL"}
	}
	req.Header.Set("Accept", "application/json")
	a, err := d.fetch.Do(ctx, req)
	if err != nil {
		text := "the client's document cannot be fetched"
		var e *egress.Error
		if errors.As(err, &e) {
			text += ": " + e.Error()
		}
		return nil, keptFailure, &documentError{text, e == nil || e.Weather()}
	}
	kind, _, _ := mime.ParseMediaType(a.Header.Get("Content-Type"))
	switch {
	case a.Status == http.StatusForbidden, a.Status == http.StatusTooManyRequests, a.Status >= 500:
		return nil, keptFailure, &documentError{fmt.Sprintf("the client's document cannot be fetched: its host answers %d", a.Status), true}
	case a.Status != http.StatusOK:
		return nil, keptFailure, &documentError{text: fmt.Sprintf("the client's document is not there: its host answers %d", a.Status)}
	case kind != "application/json" && !strings.HasSuffix(kind, "+json"):
		return nil, keptFailure, &documentError{text: "the client's document is not JSON"}
	}
	c, err = parseDocument(id, a.Body)
	if err != nil {
		return nil, keptFailure, &documentError{text: "the client's document cannot be used: " + err.Error()}
	}
	return c, a.Keep(leastKept, mostKept), nil
}

// metadata are the members of a document, and of a registration (RFC 7591 §2), that we look at.
type metadata struct {
	ID        string          `json:"client_id"`
	Name      string          `json:"client_name"`
	Redirects []string        `json:"redirect_uris"`
	Proof     string          `json:"token_endpoint_auth_method"`
	Secret    json.RawMessage `json:"client_secret"`
	Keys      json.RawMessage `json:"jwks"`
	KeysURL   string          `json:"jwks_uri"`
}

// parseMetadata reads the metadata of a client.
func parseMetadata(body []byte) (m metadata, err error) {
	if err := decode(body, &m); err != nil {
		return m, err
	}
	m.Name, err = nameOf(m.Name)
	return m, err
}

// parseDocument reads the document with an address.
func parseDocument(id string, body []byte) (*Client, error) {
	m, err := parseMetadata(body)
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(id)
	switch {
	case err != nil || m.ID != id:
		return nil, errors.New("its client_id is not its address")
	case m.Secret != nil, strings.HasPrefix(m.Proof, "client_secret"):
		return nil, errors.New("it has a secret, which a public document cannot keep")
	case len(m.Redirects) == 0 || len(m.Redirects) > mostRedirects:
		return nil, fmt.Errorf("it needs 1 to %d redirect_uris", mostRedirects)
	}
	for _, uri := range m.Redirects {
		if err := checkRedirect(uri, transport.Origin(u)); err != nil {
			return nil, errors.New("a redirect URI " + err.Error())
		}
	}
	c := &Client{ID: id, Host: u.Host, Name: m.Name, Redirects: m.Redirects, Proof: proofNone}
	if m.Proof == proofKey {
		if err := checkKeys(&m, transport.Origin(u)); err != nil {
			return nil, err
		}
		c.Proof, c.Keys, c.KeysURL = proofKey, m.Keys, m.KeysURL
	}
	return c, nil
}

// decode reads an object of JSON. What could be read in two ways is refused, such as a member that occurs twice. Unlike
// encoding/json, go-jose's reader tells client_id and Client_ID apart.
func decode(body []byte, into any) error {
	if jsonrpc.Valid(body, jsonrpc.Limits{Bytes: DocumentSize, Depth: 16}) != nil {
		return errors.New("it is not strict JSON, or nested too deeply")
	}
	if json.Unmarshal(body, into) != nil {
		return errors.New("it is not an object, or a member has a wrong type")
	}
	return nil
}
