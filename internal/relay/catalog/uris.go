package catalog

import (
	"slices"
	"strings"
	"sync"
)

// URIs decides under which URI clients see the pages (ui://) and skills (skill://) of each server,
// because the URI of a page or a skill says nothing about its server (SEP-2640, "Skill URIs"). The
// first server that offers a URI keeps it for good, so that no other server can take its place. For
// every other server with the same URI, clients see the URI with a segment in front that names the
// server: skill://dragoman-NAME/refunds/SKILL.md. This form depends on the server and its URI alone,
// so it means the same after a restart, and it leads to its server even if nobody else has the URI.
// No server can choose it: a URI that already looks like it gets another segment.
//
// A skill is one unit: either all URIs below its root change or none, since clients resolve the
// relative references in a skill against its root (SEP-2640, "Relative References"). docs/adr/0022
// has the reasons. The zero value is ready to use.
type URIs struct {
	mu sync.Mutex
	// claims contains the server of each URI that its server has kept. A key that ends in "/" is the
	// root of a skill, and stands for all URIs below it.
	claims map[string]string
	// below contains, for each folder of a claimed skill:// URI, the only server with a claim in it.
	// It is "" if there are several.
	below map[string]string
	// roots contains the roots of each server's skills. The value is true if the server kept the
	// skill's own URIs.
	roots     map[uriOf]bool
	templates []claimedTemplate
	size      map[string]int // the bytes of each server's claims and roots
}

type uriOf struct{ server, uri string }

// claimedTemplate is a URI template of a server: its text before the first variable and after the
// last one.
type claimedTemplate struct{ server, head, tail string }

const (
	uriMark = "dragoman-" // the beginning of the segment that names a server
	skills  = "skill://"
	pages   = "ui://"
	// These constants bound what one server may keep. Further URIs of the server are rewritten even
	// if no other server has them, so no other server can get what this one has lost.
	maxClaimed          = 1 << 20 // bytes
	maxClaimedURI       = 2048    // bytes
	maxSegments         = 64
	maxClaimedTemplates = 100
)

// exclusive returns the scheme of a URI that belongs to the server that names it, so that another
// server with the same URI has something else: the pages of tools, and skills. For all other URIs,
// it returns "".
func exclusive(uri string) string {
	switch {
	case strings.HasPrefix(uri, pages):
		return pages
	case strings.HasPrefix(uri, skills):
		return skills
	}
	return ""
}

// marked reports whether a URI of an exclusive scheme has the segment that names a server. The case
// does not matter, since the segment is in the place of a host name (RFC 3986 §3.2.2).
func marked(uri, scheme string) bool {
	rest := uri[len(scheme):]
	return len(rest) >= len(uriMark) && strings.EqualFold(rest[:len(uriMark)], uriMark)
}

// show returns the URI under which clients see a URI of a server. If claim is true, the server keeps
// a URI that no other server has.
func (o *URIs) show(server, uri string, claim bool) string {
	scheme := exclusive(uri)
	if scheme == "" {
		return uri
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if !marked(uri, scheme) && fits(uri) && o.keepsLocked(server, uri, claim) {
		return uri
	}
	return scheme + uriMark + server + "/" + uri[len(scheme):]
}

// own reads a URI that names its server: it returns this server and the server's own URI. ok is false
// for any other URI. server is nil if it is not in all, or if nothing follows its name.
func own(uri string, all []Source) (server Source, inner string, ok bool) {
	scheme := exclusive(uri)
	if scheme == "" || !marked(uri, scheme) {
		return nil, "", false
	}
	name, rest, whole := strings.Cut(uri[len(scheme)+len(uriMark):], "/")
	if !whole {
		return nil, "", true
	}
	for _, u := range all {
		if u.Name() == name {
			return u, scheme + rest, true
		}
	}
	return nil, scheme + rest, true
}

func fits(uri string) bool {
	return len(uri) <= maxClaimedURI && strings.Count(uri, "/") <= maxSegments
}

// keepsLocked reports whether clients see a URI of a server unchanged.
func (o *URIs) keepsLocked(server, uri string, claim bool) bool {
	if strings.HasPrefix(uri, skills) {
		for folder := range folders(uri + "/") {
			if keeps, known := o.roots[uriOf{server, folder}]; known {
				return keeps // the outermost skill: a nested one is a part of it (SEP-2640, "Nested Skills")
			}
		}
		if root, ok := strings.CutSuffix(uri, "SKILL.md"); ok && isFolder(root) {
			return o.rootLocked(server, root, claim)
		}
	}
	return o.claimLocked(server, uri, claim)
}

// addRoot records the root of a server's skill, from the URI of its entry in skills/list.
func (o *URIs) addRoot(server, uri string) {
	root := uri[:strings.LastIndexByte(uri, '/')+1]
	if exclusive(uri) != skills || marked(uri, skills) || !isFolder(root) || !fits(uri) {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, known := o.roots[uriOf{server, root}]; !known {
		o.rootLocked(server, root, true)
	}
}

// isFolder reports whether a URI is a folder below the root of the scheme skill.
func isFolder(uri string) bool { return len(uri) > len(skills) && uri[len(uri)-1] == '/' }

func (o *URIs) rootLocked(server, root string, claim bool) bool {
	keeps := o.claimLocked(server, root, claim)
	if claim && o.takeLocked(server, root) {
		if o.roots == nil {
			o.roots = make(map[uriOf]bool)
		}
		o.roots[uriOf{server, root}] = keeps
	}
	return keeps
}

// takeLocked counts the bytes of one more key of a server. It returns false if there is no room.
func (o *URIs) takeLocked(server, key string) bool {
	if o.size[server]+len(key) > maxClaimed {
		return false
	}
	if o.size == nil {
		o.size = make(map[string]int)
	}
	o.size[server] += len(key)
	return true
}

// claimLocked reports whether a server has, or can have, a key of claims. If claim is true, the
// server gets it.
func (o *URIs) claimLocked(server, key string, claim bool) bool {
	if holder, taken := o.claims[key]; taken {
		return holder == server
	}
	if !o.freeLocked(server, key) {
		return false
	}
	return !claim || o.storeLocked(server, key)
}

// storeLocked gives a server a key of claims. It returns false if the server has too many.
func (o *URIs) storeLocked(server, key string) bool {
	if !o.takeLocked(server, key) {
		return false
	}
	if o.claims == nil {
		o.claims, o.below = make(map[string]string), make(map[string]string)
	}
	o.claims[key] = server
	if t, ok := templateOf(server, key); ok {
		o.storeTemplateLocked(t)
	}
	if strings.HasPrefix(key, skills) {
		for folder := range folders(key) {
			if only, ok := o.below[folder]; ok && only != server {
				o.below[folder] = ""
			} else {
				o.below[folder] = server
			}
		}
	}
	return true
}

// storeTemplateLocked makes the URIs that match a template its server's. A template without a fixed
// first segment would take the URIs of all other servers, so such a template has only itself.
func (o *URIs) storeTemplateLocked(t claimedTemplate) {
	n := 0
	for _, have := range o.templates {
		if have.server == t.server {
			n++
		}
	}
	if n < maxClaimedTemplates && fixed(t.head) {
		o.templates = append(o.templates, t)
	}
}

// fixed reports whether the text before the first variable of a template contains the scheme and a
// whole segment.
func fixed(head string) bool {
	scheme, rest, ok := strings.Cut(head, ":")
	return ok && scheme != "" && strings.IndexByte(strings.TrimLeft(rest, "/"), '/') > 0
}

// freeLocked reports whether no other server has a claim that conflicts with a new one.
func (o *URIs) freeLocked(server, key string) bool {
	if strings.HasPrefix(key, skills) {
		for folder := range folders(key + "/") {
			if holder, taken := o.claims[folder]; taken && holder != server {
				return false
			}
		}
		if isFolder(key) {
			if only, used := o.below[key]; used && only != server {
				return false
			}
			if holder, taken := o.claims[key[:len(key)-1]]; taken && holder != server {
				return false
			}
		}
	}
	for _, t := range o.templates {
		if t.server != server && t.matches(key) {
			return false
		}
	}
	return true
}

// templateOf reads a URI template. ok is false if it has no variable.
func templateOf(server, template string) (t claimedTemplate, ok bool) {
	head, rest, ok := strings.Cut(template, "{")
	return claimedTemplate{server, head, rest[strings.LastIndexByte(rest, '}')+1:]}, ok
}

func (t *claimedTemplate) matches(uri string) bool {
	return strings.HasPrefix(uri, t.head) && strings.HasSuffix(uri, t.tail) && len(uri) >= len(t.head)+len(t.tail)
}

// folders yields the folders of a skill:// URI, the outermost first. A URI that ends in "/" is a
// folder of its own.
func folders(uri string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for i := len(skills); i < len(uri); i++ {
			if uri[i] == '/' && i > len(skills) && !yield(uri[:i+1]) {
				return
			}
		}
	}
}

// holder returns the server that kept a URI which clients see, or "".
func (o *URIs) holder(uri string) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	holder := o.claims[uri]
	if holder == "" && strings.HasPrefix(uri, skills) {
		for folder := range folders(uri + "/") {
			if h := o.claims[folder]; h != "" {
				return h
			}
		}
	}
	return holder
}

// Retain forgets what servers have kept that are no longer configured. Other servers may then keep
// the same URIs.
func (o *URIs) Retain(configured []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	old, roots := o.claims, o.roots
	o.claims, o.below, o.roots, o.templates, o.size = nil, nil, nil, nil, nil
	for key, server := range old {
		if slices.Contains(configured, server) {
			o.storeLocked(server, key)
		}
	}
	for key, keeps := range roots {
		if slices.Contains(configured, key.server) && o.takeLocked(key.server, key.uri) {
			if o.roots == nil {
				o.roots = make(map[uriOf]bool)
			}
			o.roots[key] = keeps
		}
	}
}
