package transport

// Newcomer describes a client that wants to open a session.
type Newcomer struct {
	Principal  string // the authenticated principal; "" without authentication
	Remote     string // network address without port
	Connection uint64 // number of the connection, 0 if unknown
	Client     string // name and version of the client, or its User-Agent; truncated
}

// Party returns the key of a client for quotas. The key is the principal. Without authentication,
// it is the address and the name.
func (n Newcomer) Party() string {
	if n.Principal != "" {
		return "principal " + n.Principal
	}
	return "remote " + n.Remote + " " + n.Client
}

// MaxClient is the maximum length in bytes of a client's name, and of its version.
const MaxClient = 256

// Quota divides a fixed number of places so that no party can take all of them. A party may
// take another place while it has fewer places than are free. So the first party can take half of
// the places, and the next party can take half of the rest. A party never loses a place to another.
// The zero value is empty. Quota has no lock.
type Quota struct {
	taken map[string]int // number of places by party; parties without places have no entry
	all   int
}

// Room reports whether a party may take another place. The parameter most is the number of all places.
func (q *Quota) Room(party string, most int) bool { return q.taken[party] < most-q.all }

// Taken returns the number of places of a party, and of all parties together.
func (q *Quota) Taken(party string) (own, all int) { return q.taken[party], q.all }

// All returns the number of places of all parties together.
func (q *Quota) All() int { return q.all }

// Take takes a place for a party, even if Room reports false.
func (q *Quota) Take(party string) {
	if q.taken == nil {
		q.taken = make(map[string]int)
	}
	q.taken[party]++
	q.all++
}

// Give releases a place of a party.
func (q *Quota) Give(party string) {
	q.all--
	if q.taken[party]--; q.taken[party] <= 0 {
		delete(q.taken, party)
	}
}
