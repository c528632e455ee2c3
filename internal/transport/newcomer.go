package transport

// Newcomer is a client that wants to open a session, as far as a door knows it.
type Newcomer struct {
	Principal  string // who authenticated; "" while nobody has to
	Remote     string // network address without port
	Connection uint64 // number of the connection, 0 when it is not known
	Client     string // the name and version that it gives, or its User-Agent; bounded by the door
}

// Party returns the key by which a client's share of sessions is counted: the
// principal, or, without authentication, the address and the name.
func (n Newcomer) Party() string {
	if n.Principal != "" {
		return "principal " + n.Principal
	}
	return "remote " + n.Remote + " " + n.Client
}

// MaxClient is how many bytes of a client's name and version count.
const MaxClient = 256

// Quota shares out a bounded number of places so that no party can take them all. Each
// party may take one more while it has fewer than are free: the first can take half,
// the next half of the rest. A place that is taken is never taken away. The zero value
// is empty. It has no lock.
type Quota struct {
	taken map[string]int // by party; nobody with 0
	all   int
}

// Room reports whether a party may take one more of most places.
func (q *Quota) Room(party string, most int) bool { return q.taken[party] < most-q.all }

// Taken returns how many places a party has, and how many all have.
func (q *Quota) Taken(party string) (own, all int) { return q.taken[party], q.all }

// All returns how many places all parties have together.
func (q *Quota) All() int { return q.all }

// Take takes a place, whether there is room or not.
func (q *Quota) Take(party string) {
	if q.taken == nil {
		q.taken = make(map[string]int)
	}
	q.taken[party]++
	q.all++
}

// Give gives a place back.
func (q *Quota) Give(party string) {
	q.all--
	if q.taken[party]--; q.taken[party] <= 0 {
		delete(q.taken, party)
	}
}
