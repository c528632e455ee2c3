package console

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
)

// testTeam has the keys and the people of a test's source. Admins may do everything, operators see all keys, and anybody
// else has those with their own subject as the owner.
type testTeam struct {
	keys   []admin.APIKey
	people []admin.PersonDetails
	acted  []string
	bad    *admin.Problem // the answer to the next change
}

func (s *testTeam) sees(who *identity.Principal, k *admin.APIKey) bool {
	return who != nil && (who == identity.Local || who.Subject == "admin" || who.Subject == "operator" || k.Owner == who.Subject)
}

func (s *testTeam) KeysFor(_ context.Context, who *identity.Principal) (all []admin.APIKey, _ *admin.Problem) {
	for i := range s.keys {
		if s.sees(who, &s.keys[i]) {
			all = append(all, s.keys[i])
		}
	}
	return all, nil
}

func (s *testTeam) KeysMark(who *identity.Principal) string {
	all, _ := s.KeysFor(context.Background(), who)
	return fmt.Sprint(len(all))
}

func (s *testTeam) KeyFor(_ context.Context, who *identity.Principal, id string) (admin.APIKeyDetails, *admin.Problem) {
	for i := range s.keys {
		if s.keys[i].ID == id && s.sees(who, &s.keys[i]) {
			return admin.APIKeyDetails{APIKey: s.keys[i], Now: admin.KeyUse{Sessions: 1, Calls: 2}}, nil
		}
	}
	return admin.APIKeyDetails{}, &admin.Problem{Type: "no-such-key", Status: http.StatusNotFound, Title: "No such key"}
}

// failure returns the problem that the test wants, once.
func (s *testTeam) failure() *admin.Problem {
	bad := s.bad
	s.bad = nil
	return bad
}

func (s *testTeam) MakeKeyFor(_ context.Context, who *identity.Principal, q admin.APIKeyRequest) (admin.NewAPIKey, *admin.Problem) {
	if bad := s.failure(); bad != nil {
		return admin.NewAPIKey{}, bad
	}
	k := admin.APIKey{ID: fmt.Sprintf("made%d", len(s.keys)), Name: q.Name, Hint: "wxyz", Role: q.Role, Owner: q.Owner, Servers: q.Servers, Tools: q.Tools, Mine: q.Mine, Made: time.Now()}
	if q.Mine {
		k.Owner = who.Subject
	}
	s.keys = append(s.keys, k)
	s.acted = append(s.acted, fmt.Sprint(who.Subject, " makes ", q.Name, " ", q.Role, " ", q.Life, " ", q.Servers, q.Tools, q.Owner, q.Mine))
	return admin.NewAPIKey{APIKey: k, Text: "drgk_the-text-of-" + k.ID, Note: "A note."}, nil
}

func (s *testTeam) RotateKeyFor(ctx context.Context, who *identity.Principal, id string, q admin.APIKeyRotation) (admin.NewAPIKey, *admin.Problem) {
	k, bad := s.KeyFor(ctx, who, id)
	if bad == nil {
		bad = s.failure()
	}
	if bad != nil {
		return admin.NewAPIKey{}, bad
	}
	s.acted = append(s.acted, fmt.Sprint(who.Subject, " rotates ", id, " ", q.Overlap, " ", q.Life, " ", q.Hint))
	return admin.NewAPIKey{APIKey: k.APIKey, Text: "drgk_rotated-" + id}, nil
}

func (s *testTeam) RevokeKeyFor(ctx context.Context, who *identity.Principal, id string) (admin.RevokedKey, *admin.Problem) {
	k, bad := s.KeyFor(ctx, who, id)
	if bad != nil {
		return admin.RevokedKey{}, bad
	}
	s.keys = slices.DeleteFunc(s.keys, func(x admin.APIKey) bool { return x.ID == id })
	s.acted = append(s.acted, who.Subject+" revokes "+id)
	return admin.RevokedKey{APIKey: k.APIKey, Ends: k.Now}, nil
}

// LookFor returns a list that has the key's name and the request.
func (s *testTeam) LookFor(ctx context.Context, who *identity.Principal, id string, q admin.KeyLookRequest) (admin.KeyLook, *admin.Problem) {
	k, bad := s.KeyFor(ctx, who, id)
	if bad == nil {
		bad = s.failure()
	}
	if bad != nil {
		return admin.KeyLook{}, bad
	}
	s.acted = append(s.acted, fmt.Sprint(who.Subject, " looks as ", id, " ", q.Endpoint, " ", q.Server, " ", q.Revision, " ", *q.Capabilities))
	return admin.KeyLook{
		Key: k.APIKey, Revision: q.Revision, Instructions: "Be kind, " + k.Name, SignIns: []string{"tickets" + k.Name},
		Lists: []admin.LookList{
			{Method: "tools/list", Items: []admin.LookItem{{Name: "add" + k.Name, Title: k.Name, Description: k.Name}}},
			{Method: "prompts/list", Refused: &admin.LookRefusal{Code: -32601, Message: "no" + k.Name}},
		},
		Denied: []admin.LookDenied{{RuleItem: admin.RuleItem{Server: "gh", Item: "push" + k.Name, RuleDecision: admin.RuleDecision{Do: "deny", Why: "rule 1"}}, Code: -32602, Told: "Unknown tool: push"}},
	}, nil
}

func (s *testTeam) PeopleFor(who *identity.Principal) (all []admin.Person, _ *admin.Problem) {
	for i := range s.people {
		all = append(all, s.people[i].Person)
	}
	return all, nil
}

func (s *testTeam) PersonFor(_ context.Context, _ *identity.Principal, name string) (admin.PersonDetails, *admin.Problem) {
	for _, p := range s.people {
		if p.ID == name {
			return p, nil
		}
	}
	return admin.PersonDetails{}, &admin.Problem{Type: "no-such-person", Status: http.StatusNotFound, Title: "No such person"}
}

func (s *testTeam) InviteFor(_ *http.Request, who *identity.Principal, project string, q admin.InvitationRequest) (admin.NewInvitation, *admin.Problem) {
	if bad := s.failure(); bad != nil {
		return admin.NewInvitation{}, bad
	}
	p := admin.Person{ID: fmt.Sprintf("person%d", len(s.people)), Name: q.Name}
	s.people = append(s.people, admin.PersonDetails{Person: p})
	s.acted = append(s.acted, fmt.Sprint(who.Subject, " invites ", q.Name, " to ", project, " as ", strings.Join(q.Roles, " ")))
	return admin.NewInvitation{Person: p, Link: "https://example.com/console/invitation?token=for-" + p.ID, Expires: time.Now().Add(time.Hour)}, nil
}

func (s *testTeam) InviteAgainFor(r *http.Request, who *identity.Principal, name string) (admin.NewInvitation, *admin.Problem) {
	p, bad := s.did(r.Context(), who, "links", name)
	return admin.NewInvitation{Person: p.Person, Link: "https://example.com/console/invitation?token=again-" + p.ID}, bad
}

// did notes a change of a person, which may fail.
func (s *testTeam) did(ctx context.Context, who *identity.Principal, what, name string) (admin.PersonDetails, *admin.Problem) {
	p, bad := s.PersonFor(ctx, who, name)
	if bad == nil {
		bad = s.failure()
	}
	if bad == nil {
		s.acted = append(s.acted, who.Subject+" "+what+" "+name)
	}
	return p, bad
}

func (s *testTeam) SetRolesFor(ctx context.Context, who *identity.Principal, name, project string, q admin.RolesRequest) (admin.Person, *admin.Problem) {
	p, bad := s.did(ctx, who, fmt.Sprint("makes ", strings.Join(q.Was, " "), " ", strings.Join(q.Roles, " "), " in ", project), name)
	return p.Person, bad
}

func (s *testTeam) EndSessionFor(ctx context.Context, who *identity.Principal, name, session string) (admin.PersonSession, *admin.Problem) {
	_, bad := s.did(ctx, who, "ends "+session+" of", name)
	return admin.PersonSession{}, bad
}

func (s *testTeam) SignOutFor(ctx context.Context, who *identity.Principal, name string) (admin.SignedOut, *admin.Problem) {
	p, bad := s.did(ctx, who, "signs out", name)
	return admin.SignedOut{Person: p.Person, Ended: p.Sessions}, bad
}

func (s *testTeam) RemovePersonFor(ctx context.Context, who *identity.Principal, name string) (admin.RemovedPerson, *admin.Problem) {
	p, bad := s.did(ctx, who, "removes", name)
	s.people = slices.DeleteFunc(s.people, func(x admin.PersonDetails) bool { return bad == nil && x.ID == name })
	return admin.RemovedPerson{Person: p.Person, Keys: len(p.Keys), SignIns: len(p.SignIns)}, bad
}

// teamOf returns keys and people whose texts are text.
func teamOf(text string) testTeam {
	ago := func(days int) *time.Time { t := time.Now().Add(-time.Duration(days) * 24 * time.Hour); return &t }
	soon := time.Now().Add(24 * time.Hour)
	keys := []admin.APIKey{
		{ID: "k1", Name: "ci" + text, Hint: "abcd", Role: "caller", Servers: []string{"docs-*" + text}, Tools: []string{"gh/get_*" + text}, Expires: &soon, Used: ago(0), Refused: 1200, Made: *ago(200), By: "local" + text},
		{ID: "k2", Name: "old" + text, Hint: "efgh", Role: "admin", Made: *ago(200), By: "local"},
		{ID: "k3", Name: "hers" + text, Hint: "ijkl", Role: "caller", Owner: "caller" + text, Mine: true, Expires: &soon, Used: ago(100), OverlapUntil: &soon, Made: *ago(200), By: "local"},
		{ID: "k4", Name: "gone", Hint: "mnop", Role: "caller", Expires: ago(1), Expired: true, Made: *ago(200), By: "local"},
	}
	return testTeam{keys: keys, people: []admin.PersonDetails{
		{
			Person: admin.Person{ID: "ada", Name: "Ada" + text, Roles: []admin.PersonRoles{{Project: "default", Roles: []string{"caller", "operator"}}, {Project: "shop" + text, Roles: []string{"viewer"}}}, Sessions: 2, Seen: "2026-11-28", Added: *ago(9), By: "local" + text},
			Browsers: []admin.PersonSession{
				{ID: "SA", Browser: "Firefox on Linux", Address: "192.0.2.7", Way: "invitation", Began: *ago(2), Seen: *ago(0), Until: soon},
				{ID: "SB", Began: *ago(9), Seen: *ago(3), Until: soon},
			},
			Keys: keys[2:3], SignIns: []admin.PersonSignIn{{Project: "default", Server: "tickets" + text, Since: *ago(4)}, {Project: "default", Since: *ago(4), Ended: true}},
		},
		{Person: admin.Person{ID: "ben", Name: "Ben" + text, Invited: &soon, Added: *ago(1), By: "Ada" + text}},
	}}
}
