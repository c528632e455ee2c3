package transport

// Newcomer is a client that wants to open a session, as far as it is known.
type Newcomer struct {
	Principal  string // the authenticated principal; "" without authentication
	Remote     string // network address without port
	Connection uint64 // number of the connection, 0 if unknown
	Client     string // its name and version, or its User-Agent; truncated
}

// Party returns the key of a client for quotas: the principal or, without
// authentication, the address and the name.
func (n Newcomer) Party() string {
	if n.Principal != "" {
		return "principal " + n.Principal
	}
	return "remote " + n.Remote + " " + n.Client
}

// MaxClient is the maximum length of a client's name and version, in bytes.
const MaxClient = 256

// Quota divides a fixed number of places so that no party can take them all. A party
// may take one more while it has fewer places than are free: the first party can take
// half, the next half of the rest. A place is never taken away. The zero value is
// empty. Quota has no lock.
type Quota struct {
	taken map[string]int // by party; without parties that have none
	all   int
}

// Room reports whether a party may take another of most places.
func (q *Quota) Room(party string, most int) bool { return q.taken[party] < most-q.all }

// Taken returns how many places a party has, and how many all parties have.
func (q *Quota) Taken(party string) (own, all int) { return q.taken[party], q.all }

// All returns how many places all parties have.
func (q *Quota) All() int { return q.all }

// Take takes a place, even if there is no room.
func (q *Quota) Take(party string) {
	if q.taken == nil {
		q.taken = make(map[string]int)
	}
	q.taken[party]++
	q.all++
}

// Give releases a place.
func (q *Quota) Give(party string) {
	q.all--
	if q.taken[party]--; q.taken[party] <= 0 {
		delete(q.taken, party)
	}
}
