package transport

// Newcomer describes a client that wants to open a session.
type Newcomer struct {
	Principal  string // the authenticated principal; "" without authentication
	Remote     string // network address without port
	Connection uint64 // number of the network connection; 0 if unknown
	Client     string // name and version of the client, or its User-Agent header; truncated
}

// Party returns the key of the client in quotas: the principal, or the address and the name if the
// client is not authenticated.
func (n Newcomer) Party() string {
	if n.Principal != "" {
		return "principal " + n.Principal
	}
	return "remote " + n.Remote + " " + n.Client
}

// MaxClient is the maximum length of Newcomer.Client in bytes.
const MaxClient = 256

// Quota divides a fixed number of places so that no party can take all of them. A party may take
// another place while the number of its own places is less than the number of free places. So the
// first party can take half of all places, and the next party can take half of the places that are
// left. No party loses a place to another party. The zero value has no taken places. Quota has no
// lock, so callers must hold their own.
type Quota struct {
	taken map[string]int // number of places by party; parties without places have no entry
	all   int
}

// Room reports whether a party may take another place. most is the number of all places, free or
// taken.
func (q *Quota) Room(party string, most int) bool { return q.taken[party] < most-q.all }

// Taken returns the number of places that a party has taken, and that all parties together have
// taken.
func (q *Quota) Taken(party string) (own, all int) { return q.taken[party], q.all }

// All returns the number of places that all parties together have taken.
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
