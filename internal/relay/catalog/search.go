package catalog

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// search looks for the server of one URI. Servers may become ready while it runs, so it can be repeated.
type search struct {
	View
	a        *knownAudience
	uri      string
	ask      bool // whether servers may be asked
	template bool // whether the URI may also be a listed template
	answers  map[Source]answered
	several  bool // whether several servers have the resource, and nobody can tell which one is meant
}

// answered is what a server said when it was asked for a resource.
type answered int

const (
	notAsked answered = iota
	saidNothing
	saidNo
	saidYes
)

// Owner returns the server to which Dragoman sends requests for a URI, and the server's own URI. This
// is the server that lists the URI, or else the server that named the URI in a result, or the one with
// a claim to it; see claims. For the URI of a page or a skill, it is the server that keeps it, or that it
// names. If there is none of them, and only one server has resources, Owner returns that server.
// Otherwise, it asks the servers, and waits for those that have not started yet, as Find does. A server
// is never asked for a resource that is hidden.
func (v View) Owner(ctx context.Context, uri string) (Target, error) {
	return v.search(uri, true).owner(ctx)
}

// Referred does the same as Owner for a URI that may also be a template, as in completion/complete.
func (v View) Referred(ctx context.Context, uri string) (Target, error) {
	s := v.search(uri, true)
	s.template = true
	return s.owner(ctx)
}

// KnownOwner does the same as Owner, but asks no server and waits for none. It is for requests with many
// URIs.
func (v View) KnownOwner(ctx context.Context, uri string) (Target, error) {
	return v.search(uri, false).owner(ctx)
}

func (v View) search(uri string, ask bool) *search {
	return &search{View: v, a: v.c.audience(v.client), uri: uri, ask: ask, answers: make(map[Source]answered)}
}

func (s *search) owner(ctx context.Context) (Target, error) {
	if s.uri == "" {
		return Target{}, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "params.uri must be a string"}
	}
	t, err := s.find(ctx)
	if t.Server == nil && err == nil && s.ask && !s.several {
		s.findLate(ctx, s.late(), func() bool {
			t, err = s.find(ctx)
			return t.Server != nil || err != nil || s.several || len(s.silent()) == 0
		})
	}
	switch {
	case t.Server != nil || err != nil:
		return t, err
	case s.several:
		return Target{}, Missing(s.client, s.uri)
	}
	all := s.silent()
	if claim := s.claims(ctx, s.a, s.uri); len(claim) > 0 && exclusive(s.uri) == "" {
		// Nobody else has it, as far as we know, so this server says what is wrong.
		u := claim[0].server
		if !s.ask || !slices.ContainsFunc(all, func(other Source) bool { return other != u }) {
			return s.target(u)
		}
	}
	if len(all) > 0 {
		return Target{}, s.unavailable(all)
	}
	return Target{}, Missing(s.client, s.uri)
}

// find looks for the server once. The target is zero if there is none yet.
func (s *search) find(ctx context.Context) (Target, error) {
	if exclusive(s.uri) == "" && !s.template {
		if u := s.lister(); u != nil {
			return s.listedBy(ctx, u) // without waiting for lists
		}
	}
	if u, inner, named := own(s.uri, s.c.Sources); named && len(s.c.Sources) > 1 {
		if u == nil || !s.shown(u, inner) {
			return Target{}, Missing(s.client, s.uri)
		}
		return Target{Server: u, Name: inner, Quoted: jsonrpc.AppendQuote(nil, inner)}, nil
	}
	if exclusive(s.uri) == pages {
		s.c.list(ctx, s.a, mcp.MethodListTools) // a tool's page is its own, also if another server lists it
	}
	s.offers(ctx, s.a)
	if s.template {
		if x := s.known(s.a, mcp.MethodListTemplates, s.uri); x != nil {
			return x.target, nil
		}
	}
	if exclusive(s.uri) != "" {
		return s.unlisted(ctx, s.keeper())
	}
	return s.listedBy(ctx, s.lister())
}

// listedBy returns the server of a URI that lister lists, or that nobody lists if lister is nil.
func (s *search) listedBy(ctx context.Context, lister Source) (Target, error) {
	u, err := s.byName(ctx, lister)
	if err != nil {
		return Target{}, err
	}
	return s.unlisted(ctx, u)
}

// unlisted returns the server of a URI for which u is all that lists and results say. It is nil if they
// say nothing.
func (s *search) unlisted(ctx context.Context, u Source) (Target, error) {
	if u == nil {
		u = firstClaim(s.claims(ctx, s.a, s.uri))
	}
	if u == nil {
		u = s.soleWithResources(ctx)
	}
	if u == nil {
		u = s.holder(ctx)
	}
	if u == nil {
		return Target{}, nil
	}
	return s.target(u)
}

func (s *search) target(u Source) (Target, error) {
	if !s.shown(u, s.uri) {
		return Target{}, Missing(s.client, s.uri)
	}
	return Target{Server: u, Name: s.uri}, nil
}

// shown reports whether the client may see a resource of a server.
func (v View) shown(u Source, uri string) bool {
	return v.Shows(KindServer, u.Name(), "") && v.Shows(KindResource, u.Name(), uri)
}

// lister returns the server that lists a URI, as a resource or as a skill, or nil. After a change of the
// configuration, this includes a server whose list has not been read again.
func (s *search) lister() Source {
	methods := [...]string{mcp.MethodListResources, mcp.MethodListSkills}
	for _, method := range methods {
		if x := s.known(s.a, method, s.uri); x != nil {
			return x.target.Server
		}
	}
	for _, method := range methods {
		s.c.mu.Lock()
		u := s.c.unreadHolderLocked(s.a, heldName{method, s.uri})
		s.c.mu.Unlock()
		if u != nil && s.shown(u, s.uri) {
			return u
		}
	}
	return nil
}

// keeper returns the server that keeps a URI, or nil.
func (s *search) keeper() Source {
	holder := s.c.uris().holder(s.uri)
	if at := slices.IndexFunc(s.c.Sources, func(u Source) bool { return u.Name() == holder }); at >= 0 {
		return s.c.Sources[at]
	}
	return nil
}

// soleWithResources returns the only server that has resources. It returns nil if no server or more
// than one server has resources. It assumes that a server has resources if its capabilities are not
// known yet.
func (s *search) soleWithResources(ctx context.Context) (sole Source) {
	for i, h := range s.c.hellos(ctx, s.a) {
		u := s.c.Sources[i]
		if h != nil && !has(h.Capabilities, "resources") || !s.Shows(KindServer, u.Name(), "") {
			continue
		}
		if sole != nil {
			return nil
		}
		sole = u
	}
	return sole
}

// offers reads the lists that claim URIs, all at the same time, and merges them. What is merged here for
// the first time was offered at the same time.
func (v View) offers(ctx context.Context, a *knownAudience) {
	methods := []string{mcp.MethodListResources, mcp.MethodListTemplates}
	if v.Declared(ctx, mcp.MethodListSkills) == nil {
		methods = append(methods, mcp.MethodListSkills)
	}
	var all []*reading
	for _, method := range methods {
		all = append(all, v.c.readAll(a, method)...)
	}
	v.c.await(ctx, all, false)
	for _, method := range methods {
		v.c.mergedList(a, method)
	}
}

// skills returns the merged list of skills, or nil if no server has any.
func (v View) skills(ctx context.Context, a *knownAudience) *mergedList {
	if v.Declared(ctx, mcp.MethodListSkills) != nil {
		return nil
	}
	return v.c.list(ctx, a, mcp.MethodListSkills)
}

// claim is a template or the folder of a skill that matches a URI which no server need list.
type claim struct {
	server   Source
	since    uint64 // when it was offered first
	strength strength
}

// strength is how much a claim says. A template is fixed if it has a fixed first segment. One that fixes
// no more than its scheme, such as note://{id}, can be offered by anybody, so its server only comes first
// when all are asked. The folder of a skill is the weakest one.
type strength int

const (
	fixedTemplate strength = iota
	wideTemplate
	folderOfSkill
	noClaim
)

// strengthOf returns how much an item of a list claims a URI.
func strengthOf(method, offered, uri string) strength {
	if method == mcp.MethodListSkills {
		folder := offered[:strings.LastIndexByte(offered, '/')+1]
		if ownFolder(folder) && strings.HasPrefix(uri+"/", folder) {
			return folderOfSkill
		}
		return noClaim
	}
	t, variable := templateOf("", offered)
	switch head, _, _ := strings.Cut(offered, "{"); {
	case !(variable && t.matches(uri) || offered == uri):
	case fixed(head):
		return fixedTemplate
	case strings.Contains(head, ":"):
		return wideTemplate
	}
	return noClaim
}

// claims returns what claims a URI, the first one first: the one that was offered first, then the
// strongest, and then the first in the configuration. The length of the fixed text does not count: with
// a longer one, a server could take single URIs of another one. For the same reason, a strong claim does
// not count before a weak one that was there first.
//
// A skill's files need not be in a list of resources, and a skill may have any scheme (SEP-2640, "Skill
// URIs"; those of skill:// are in URIs). But every server can list a skill at file:///home/SKILL.md, so a
// folder needs a whole segment behind the host.
func (v View) claims(ctx context.Context, a *knownAudience, uri string) (all []claim) {
	lists := []*mergedList{v.c.list(ctx, a, mcp.MethodListTemplates)}
	all = v.unreadClaims(a, mcp.MethodListTemplates, uri)
	if exclusive(uri) == "" {
		all = append(all, v.unreadClaims(a, mcp.MethodListSkills, uri)...)
		if l := v.skills(ctx, a); l != nil {
			lists = append(lists, l)
		}
	}
	for _, l := range lists {
		for i := range l.items {
			x := &l.items[i]
			if strength := strengthOf(l.method, x.offered, uri); strength != noClaim && l.find(x.offered, v.show) == x {
				all = append(all, claim{x.target.Server, x.since, strength})
			}
		}
	}
	slices.SortStableFunc(all, func(x, y claim) int {
		return cmp.Or(cmp.Compare(x.since, y.since), cmp.Compare(x.strength, y.strength))
	})
	return all
}

// unreadClaims returns the claims of servers whose list has not been read again after a change of the
// configuration.
func (v View) unreadClaims(a *knownAudience, method, uri string) (all []claim) {
	c := v.c
	c.mu.Lock()
	for key, have := range c.held {
		if key.method != method {
			continue
		}
		if strength := strengthOf(method, key.offered, uri); strength != noClaim {
			if u := c.unreadHolderLocked(a, key); u != nil {
				all = append(all, claim{u, have.since, strength})
			}
		}
	}
	c.mu.Unlock()
	return slices.DeleteFunc(all, func(x claim) bool { return !v.shown(x.server, uri) })
}

// firstClaim returns the server of the first claim, or nil if the servers have to be asked.
func firstClaim(all []claim) Source {
	if len(all) == 0 || all[0].strength == wideTemplate {
		return nil
	}
	return all[0].server
}

// holder asks the servers that the client may see which of them has the resource, and remembers the one
// that has it. It doesn't remember that none of them has it, because the next call may make the resource.
// If several have it, the one with the first claim is chosen, and else the first in the configuration.
// But for an exclusive URI, holder then returns nil, because nobody can tell which one is meant. Servers
// that are still starting are not asked, and neither are those that come after one of them, nor one whose
// template for the URI is held: to ask is to read.
func (s *search) holder(ctx context.Context) Source {
	if !s.ask || s.c.Holds == nil || strings.Contains(s.uri, "{") {
		return nil // a URI template is not a URI (RFC 6570)
	}
	var all []Source
	order := s.claims(ctx, s.a, s.uri)
	rank := s.ranks(order)
	for _, u := range s.ready(ctx) {
		held, own := s.heldBy(u)
		if own {
			return nil // it would be this server's, so no other one has to know the URI either
		}
		if !held && s.answers[u] == notAsked && rank(u) >= 0 {
			all = append(all, u)
		}
	}
	if len(all) == 0 {
		return nil
	}
	slices.SortStableFunc(all, func(x, y Source) int { return rank(x) - rank(y) })
	claimants := 0
	for claimants < len(all) && rank(all[claimants]) < len(order) {
		claimants++
	}
	owner := s.firstHolder(ctx, all, claimants, exclusive(s.uri) != "")
	switch {
	case owner != nil && exclusive(s.uri) != "":
		s.c.showURI(owner.Name(), s.uri, true)
	case owner != nil:
		s.c.learn(s.uri, owner, 0)
	}
	return owner
}

// ranks returns a function that says when a server's turn comes, or a negative number if another one with
// an earlier claim has not started yet.
func (s *search) ranks(order []claim) func(u Source) int {
	starting := slices.IndexFunc(order, func(x claim) bool { return !s.started(x.server) })
	return func(u Source) int {
		at := slices.IndexFunc(order, func(x claim) bool { return x.server == u })
		if at < 0 {
			at = len(order)
		}
		if starting >= 0 && at > starting {
			return -1
		}
		return at
	}
}

// ready returns the servers that have started, have resources and may be asked for this one.
func (s *search) ready(ctx context.Context) (all []Source) {
	for i, h := range s.c.hellos(ctx, s.a) {
		u := s.c.Sources[i]
		if h != nil && has(h.Capabilities, "resources") && s.shown(u, s.uri) && s.started(u) && len(all) < maxAsked {
			all = append(all, u)
		}
	}
	return all
}

// started reports whether what we know of a server comes from the server, and not from an earlier process.
func (s *search) started(u Source) bool {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	p := s.c.seenLocked("", u, s.a)
	return p != nil && p.have
}

// firstHolder asks servers at the same time, and waits no longer than the result needs. The first ones are
// claimants. If one of them does not answer, nobody after it gets what may be its own. If sole is true,
// firstHolder returns nil if several servers have the resource.
func (s *search) firstHolder(ctx context.Context, all []Source, claimants int, sole bool) (owner Source) {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	var asking sync.WaitGroup
	defer asking.Wait()
	defer cancel()
	type answer struct {
		at   int
		said answered
	}
	answers := make(chan answer, len(all))
	for i, u := range all {
		asking.Go(func() {
			said := saidNo
			if has, err := s.c.Holds(ctx, u, s.client, s.uri); err != nil {
				said = saidNothing
			} else if has {
				said = saidYes
			}
			answers <- answer{i, said}
		})
	}
	failed := false
	for range all {
		got := <-answers
		s.answers[all[got.at]] = got.said
		failed = failed || got.said == saidNothing && got.at < claimants
		if sole {
			if got.said == saidYes {
				s.several = s.several || owner != nil
				owner = all[got.at]
			}
			continue
		}
		for i := 0; i < len(all) && s.answers[all[i]] != notAsked; i++ {
			if s.answers[all[i]] == saidYes {
				return all[i]
			}
			if i < claimants && s.answers[all[i]] == saidNothing {
				return nil
			}
		}
	}
	if s.several || failed {
		return nil
	}
	return owner
}

// silent returns the servers that may have the resource, but have not said so: they have not started, or
// did not answer when they were asked.
func (s *search) silent() []Source {
	all := slices.DeleteFunc(slices.Clone(s.c.Sources), func(u Source) bool { return !s.shown(u, s.uri) })
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	return slices.DeleteFunc(all, s.answeredLocked)
}

// answeredLocked reports whether a server has said that it does not have the resource, or has said all that
// it has.
func (s *search) answeredLocked(u Source) bool {
	if said := s.answers[u]; said != notAsked {
		return said != saidNothing
	}
	p := s.c.seenLocked("", u, s.a)
	if p == nil || !p.have {
		return false
	}
	if !has(p.hello.Capabilities, "resources") {
		return true
	}
	for _, method := range [...]string{mcp.MethodListResources, mcp.MethodListTemplates} {
		if p := s.c.seenLocked(method, u, s.a); p == nil || !p.have {
			return false
		}
	}
	return true
}

// late returns the readings that may show which of the silent servers has the resource.
func (s *search) late() (all []lateList) {
	methods := []string{"", mcp.MethodListResources, mcp.MethodListTemplates}
	switch {
	case exclusive(s.uri) == pages:
		methods = append(methods, mcp.MethodListTools)
	case exclusive(s.uri) == skills:
		methods = append(methods, mcp.MethodListSkills)
	}
	for _, method := range methods {
		s.c.recallAll(method)
	}
	for _, u := range s.silent() {
		s.c.mu.Lock()
		for _, method := range methods {
			if p, r := s.c.readLocked(s.a, method, u); r != nil && !p.have {
				all = append(all, lateList{u, r})
			}
		}
		s.c.mu.Unlock()
	}
	return all
}

// unavailable returns the error for a resource that some servers may have which have not said so. The
// cause of a single one is the reason why its last reading failed.
func (s *search) unavailable(all []Source) error {
	names := make([]string, len(all))
	for i, u := range all {
		names[i] = u.Name()
	}
	e := &mcp.Error{
		Origin: mcp.FromGateway, Cause: "unavailable", Outcome: mcp.NotSent, Retryable: true, Op: "find resource",
		Message: fmt.Sprintf("the resource %s may belong to a server that has not answered yet: %s", excerpt.Cut(s.uri, maxRepeated), strings.Join(names, ", ")),
	}
	if len(all) > 1 {
		return e
	}
	e.Upstream = names[0]
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	if p := s.c.lastLocked("", all[0], s.a); p != nil && !p.have && p.cause != nil {
		e.Failure, e.Exposed = p.cause.Failure, p.cause.Exposed
	}
	return e
}

// lateList is a list that a server has not answered yet.
type lateList struct {
	server Source
	*reading
}

// findLate waits for the readings of servers that may have what find looks for, until find says that it
// needs no more. One server is enough, so the others may hang.
func (s *search) findLate(ctx context.Context, late []lateList, find func() (enough bool)) {
	if len(late) == 0 {
		return
	}
	// The readings are in no hurry, so their servers may still wait until others have started. But now a
	// call waits for them. The results do not matter, as the readings get the same ones.
	hurry, cancel := context.WithCancel(mcp.WithCall(mcp.WithPurpose(ctx, "lists"), s.client))
	read := make(chan struct{}, len(late))
	var all sync.WaitGroup
	for i, r := range late {
		if i == 0 || late[i-1].server != r.server {
			all.Go(func() { _, _ = r.server.Hello(hurry, s.a.factsAt(r.server.Name())) })
		}
		all.Go(func() {
			select {
			case <-r.done:
				read <- struct{}{}
			case <-hurry.Done():
			}
		})
	}
	defer func() {
		cancel()
		all.Wait()
	}()
	for range late {
		select {
		case <-read:
			if find() {
				return
			}
		case <-ctx.Done():
			find()
			return
		}
	}
}
