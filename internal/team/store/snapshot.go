package store

import (
	"context"
	"maps"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/relay/pins"
	"github.com/dragoman-mcp/dragoman/internal/team/sqldb"
)

// Snapshot is what the database had at one moment, without the acts. It never changes, and nor may
// anything that it returns be changed.
type Snapshot struct {
	replaced chan struct{}
	counters map[string]int64 // the number of changes of each kind, and "changes", that of all
	reads    map[string]int   // how often the store has read each kind

	house    map[string][]byte
	secrets  map[secretID]Secret
	keys     map[string]Key
	inOrder  func() []Key // all keys, sorted when somebody first asks; nil before they were read
	people   map[string]Person
	sessions map[string]Session
	projects map[string]Project
	prompts  map[string][]Prompt  // by project, sorted by name
	examples map[string][]Example // the same

	credentials   map[SignIn][]Credential
	registrations map[string]Registration // by what they are sealed for
	flows         map[SignIn]Flow
	grants        map[string]Grant

	pins map[string][]pins.Pin // by project
}

// Replaced returns a channel that is closed when the store has a newer snapshot.
func (s *Snapshot) Replaced() <-chan struct{} { return s.replaced }

// SameKeys reports whether another snapshot has the same keys, which takes no time. It's false for nil.
func (s *Snapshot) SameKeys(as *Snapshot) bool { return s.same(as, keyKind) }

// SamePeople reports whether another snapshot has the same people and roles, and SameSessions whether it has the same
// sessions; see SameKeys.
func (s *Snapshot) SamePeople(as *Snapshot) bool { return s.same(as, personKind) }

// SameSessions is described at SamePeople.
func (s *Snapshot) SameSessions(as *Snapshot) bool { return s.same(as, sessionKind) }

// SameCredentials reports whether another snapshot has the same credentials; see SameKeys.
func (s *Snapshot) SameCredentials(as *Snapshot) bool { return s.same(as, credentialKind) }

func (s *Snapshot) same(as *Snapshot, kind string) bool {
	return as != nil && s.reads[kind] == as.reads[kind]
}

// kinds are the kinds of objects in a snapshot: the part of an object's name before the colon, and what
// reads all of them into a new snapshot.
var kinds = [...]struct {
	name string
	read func(*sqldb.Tx, *Snapshot) error
}{
	{houseKind, readHouse},
	{secretKind, readSecrets},
	{keyKind, readKeys},
	{personKind, readPeople},
	{sessionKind, readSessions},
	{projectKind, readProjects},
	{promptKind, readPrompts},
	{exampleKind, readExamples},
	{credentialKind, readCredentials},
	{registrationKind, readRegistrations},
	{flowKind, readFlows},
	{grantKind, readGrants},
	{pinKind, readPins},
}

// next returns the snapshot that follows s, or nil if nothing has changed. Kinds of which nothing has
// changed stay as they are, unless all is true.
func (s *Snapshot) next(ctx context.Context, db *sqldb.DB, all bool) (next *Snapshot, err error) {
	err = db.Read(ctx, func(t *sqldb.Tx) error {
		next = nil
		counters, err := t.Counters()
		if err != nil || !all && counters["changes"] == s.counters["changes"] {
			return err
		}
		n := *s
		n.replaced, n.counters, n.reads = make(chan struct{}), counters, make(map[string]int, len(kinds))
		maps.Copy(n.reads, s.reads)
		for _, k := range kinds {
			if all || counters[k.name] != s.counters[k.name] {
				if err := k.read(t, &n); err != nil {
					return err
				}
				n.reads[k.name]++
			}
		}
		next = &n
		return nil
	})
	return next, err
}

// moment returns a time of the database.
func moment(text string) (time.Time, error) { return time.Parse(time.RFC3339, text) }
