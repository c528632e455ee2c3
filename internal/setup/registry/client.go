package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/failure"
)

// Official is the base URL of the official registry.
const Official = "https://registry.modelcontextprotocol.io"

// These bound what Registry takes from a registry.
const (
	maxBody   = 8 << 20 // the bytes of one response
	maxCursor = 4 << 10 // the bytes of a cursor
	pageSize  = 100     // the servers that one request asks for
	maxPages  = 10      // the pages that a search for one word reads
	maxWords  = 4       // the words that Search lets the registry search for
	maxFound  = 100     // the servers that one search returns
	patience  = 30 * time.Second
)

// Registry is a client of one registry. Its methods are safe for concurrent use.
type Registry struct {
	base   string // without a slash at the end
	client http.Client
}

// New returns a client of the registry with this base URL. The URL must be https, or http on
// loopback. Requests use the transport of client. They follow redirects only within the same host,
// and give up after 30 s unless client has another timeout.
func New(base string, client *http.Client) (*Registry, error) {
	u, err := url.Parse(strings.TrimRight(base, "/"))
	if err != nil {
		return nil, fmt.Errorf("the registry's URL %s is not valid", excerpt.Quote(base, 200))
	}
	if bad := badURL(u); bad != "" {
		return nil, fmt.Errorf("the registry's URL %s %s", excerpt.Quote(base, 200), bad)
	}
	if u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("the registry's URL %s has more than a host and a path", excerpt.Quote(base, 200))
	}
	r := &Registry{base: u.String(), client: *client}
	r.client.CheckRedirect = withinHost
	if r.client.Timeout == 0 {
		r.client.Timeout = patience
	}
	return r, nil
}

// withinHost refuses a redirect to another host, or from https to http.
func withinHost(next *http.Request, before []*http.Request) error {
	switch first := before[0].URL; {
	case len(before) > 3:
		return errors.New("the registry redirects too often")
	case next.URL.Scheme != first.Scheme || next.URL.Host != first.Host:
		return fmt.Errorf("the registry redirects to another host, %s", excerpt.Quote(next.URL.Host, 100))
	}
	return nil
}

// NotFound is the error of Get for a server or a version that the registry does not have.
type NotFound struct{ Name, Version string }

// Error returns the name, and the version if one was asked for.
func (e *NotFound) Error() string {
	if e.Version == "" {
		return "the registry has no server " + e.Name
	}
	return fmt.Sprintf("the registry has no version %s of %s", excerpt.Word(e.Version, 100), e.Name)
}

// Found is the result of a search.
type Found struct {
	Servers []Server
	More    bool // the registry has more servers than Search reads
	Unread  int  // entries that are not valid
}

// Search returns the latest versions of the servers that have all words in their names, titles or
// descriptions. The registry itself looks only for one word, and only in names. So Search asks for the
// longest word first, and if that finds nothing, for the others. Without words, Search returns the
// first servers of the registry.
func (r *Registry) Search(ctx context.Context, words []string) (out Found, err error) {
	if len(words) == 0 {
		return r.searchFor(ctx, "", nil)
	}
	for _, word := range slices.SortedStableFunc(slices.Values(words), func(a, b string) int { return len(b) - len(a) })[:min(len(words), maxWords)] {
		if out, err = r.searchFor(ctx, word, words); err != nil || len(out.Servers) > 0 {
			return out, err
		}
	}
	return out, nil
}

// searchFor lets the registry search for one word, and returns the results that have all words.
func (r *Registry) searchFor(ctx context.Context, word string, words []string) (Found, error) {
	query := url.Values{"limit": {strconv.Itoa(pageSize)}, "version": {latest}}
	if word != "" {
		query.Set("search", word)
	}
	var out Found
	names, cursors := map[string]bool{}, map[string]bool{}
	for range maxPages {
		var page struct {
			Servers  []json.RawMessage `json:"servers"`
			Metadata *struct {
				NextCursor string `json:"nextCursor"`
			} `json:"metadata"`
		}
		err := r.get(ctx, "/v0.1/servers?"+query.Encode(), &page)
		switch {
		case errors.Is(err, errNotFound), err == nil && page.Servers == nil && page.Metadata == nil:
			return Found{}, r.noRegistry()
		case err != nil:
			return Found{}, err
		}
		for _, raw := range page.Servers {
			s, err := parseResponse(raw)
			switch {
			case err != nil:
				out.Unread++
			case s.Status == Deleted || names[s.Name] || !s.has(words):
			case len(out.Servers) == maxFound:
				out.More = true
				return out, nil
			default:
				names[s.Name] = true
				out.Servers = append(out.Servers, s)
			}
		}
		next := ""
		if page.Metadata != nil {
			next = page.Metadata.NextCursor
		}
		if next == "" || len(page.Servers) == 0 || cursors[next] || len(next) > maxCursor {
			return out, nil
		}
		cursors[next] = true
		query.Set("cursor", next)
	}
	out.More = true
	return out, nil
}

// latest is the version that stands for the latest one in the API.
const latest = "latest"

// Get returns one version of a server, or the latest if version is "". It returns a *NotFound error
// if the registry does not have it, or has deleted it.
func (r *Registry) Get(ctx context.Context, name, version string) (Server, error) {
	if bad := badServerName(name); bad != "" {
		return Server{}, fmt.Errorf("%s is not the name of a server in a registry: it %s", excerpt.Quote(name, 100), bad)
	}
	asked := version
	if asked == "" {
		asked = latest
	}
	var raw json.RawMessage
	err := r.get(ctx, "/v0.1/servers/"+url.PathEscape(name)+"/versions/"+url.PathEscape(asked), &raw)
	if errors.Is(err, errNotFound) {
		return Server{}, &NotFound{name, version}
	}
	if err != nil {
		return Server{}, err
	}
	s, err := parseResponse(raw)
	switch {
	case err != nil:
		return Server{}, fmt.Errorf("the registry's entry of %s cannot be used: %w", name, err)
	case s.Name != name:
		return Server{}, fmt.Errorf("the registry was asked for %s, but answered with %s", name, s.Name)
	case asked != latest && s.Version != version:
		return Server{}, fmt.Errorf("the registry was asked for version %s of %s, but answered with %s", excerpt.Word(version, 100), name, excerpt.Word(s.Version, 100))
	case s.Status == Deleted:
		return Server{}, &NotFound{name, version}
	}
	return s, nil
}

var errNotFound = errors.New("not found")

// unreached is the error of a request to a registry that got no answer.
type unreached struct {
	base string
	err  error
}

func (e *unreached) Error() string {
	return "cannot ask the registry: " + failure.Of(e.err, failure.Facts{Address: e.base}).Sentence
}

func (e *unreached) Unwrap() error { return e.err }

// Hint says what the user can do.
func (e *unreached) Hint() string {
	return "check the URL of the registry, the network connection and the proxy settings"
}

// refused is the error of a request that a registry answered with an error.
type refused struct {
	status    int
	complaint string
}

func (e *refused) Error() string {
	return fmt.Sprintf("the registry answered with status %d%s", e.status, e.complaint)
}

// Hint says what the user can do.
func (e *refused) Hint() string {
	if e.status >= 500 || e.status == http.StatusTooManyRequests {
		return "try again later"
	}
	return "check the URL of the registry"
}

// get reads the JSON at a path, which may have a query. It returns errNotFound for the status 404.
func (r *Registry) get(ctx context.Context, path string, into any) error {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, r.base+path, nil)
	if err != nil {
		return fmt.Errorf("cannot ask the registry: %w", err)
	}
	q.Header.Set("Accept", "application/json")
	resp, err := r.client.Do(q)
	if err != nil {
		return &unreached{r.base, err}
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxBody+1))
	switch {
	case resp.StatusCode == http.StatusNotFound:
		return errNotFound
	case resp.StatusCode != http.StatusOK:
		return &refused{resp.StatusCode, complaint(b)}
	case err != nil:
		return fmt.Errorf("cannot read the registry's answer: %w", err)
	case len(b) > maxBody:
		return fmt.Errorf("the registry's answer is larger than %d MiB", maxBody>>20)
	}
	if err := json.Unmarshal(b, into); err != nil {
		return r.noRegistry()
	}
	return nil
}

func (r *Registry) noRegistry() error {
	return fmt.Errorf("%s does not answer like an MCP registry", r.base)
}

// complaint returns what the body of an error says, as a part of a sentence.
func complaint(b []byte) string {
	var e struct{ Error, Detail, Title string }
	if json.Unmarshal(b, &e) != nil {
		return ""
	}
	for _, s := range []string{e.Error, e.Detail, e.Title} {
		if s != "" {
			return ": " + excerpt.Quote(s, 200)
		}
	}
	return ""
}
