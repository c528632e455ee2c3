package logring

import (
	"log/slog"
	"slices"
	"sort"
	"sync"
	"time"
)

// Limits of a Ring. Records of one server are of two kinds: log records and lines of stderr. The
// size of a record is the size of its text and attributes, plus recordSize.
const (
	maxRecords  = 1000      // the most records of one server and kind
	maxBytes    = 256 << 10 // the most bytes of the records of one server and kind
	totalRecord = 20_000    // the most records of all servers together
	totalBytes  = 8 << 20
	recordSize  = 240 // the memory of a record without its texts

	maxText    = 4 << 10 // the most bytes of a text or a value
	maxAttrs   = 32      // the most attributes of one record
	maxServers = 1024    // the most servers; records of further servers are stored without a server
)

// Record is one log record, or one line of stderr. It must not be changed.
type Record struct {
	// Seq is the number of the record among all records of a ring. Ordinal is its number among the
	// records of its server. Both start at 1.
	Seq, Ordinal uint64
	// Missed is the number of records before this one that were dropped before the reader
	// could read them. Read sets it.
	Missed uint64
	Time   time.Time
	Level  slog.Level
	Server string // the name of the server; "" for records about no server
	Stderr bool   // a line of the server's stderr, not a log record
	Text   string // the message or the line
	Attrs  []Attr // the attributes without "server"

	clean func(string) string
	shown *shown // shared by all copies of the record
}

// shown contains the text and the attributes of a record in the form that readers see.
type shown struct {
	once  sync.Once
	text  string
	attrs []Attr
}

// Attr is an attribute of a log record.
type Attr struct{ Key, Value string }

// Clean masks the secrets of the record's server in a text of the record.
func (r *Record) Clean(text string) string {
	if r.clean == nil {
		return text
	}
	return r.clean(text)
}

// Shown returns the text and the attributes, each passed through clean. Only the first call of
// Shown for a record runs clean, so all readers must use the same function. The result must not be
// modified.
func (r *Record) Shown(clean func(string) string) (text string, attrs []Attr) {
	s := r.shown
	if s == nil {
		s = &shown{}
	}
	s.once.Do(func() {
		same := func(text string) string {
			if c := clean(text); c != text {
				return c
			}
			return text // return the unchanged text, so that memory holds only one copy
		}
		s.text, s.attrs = same(r.Text), r.Attrs
		for i, a := range r.Attrs {
			b := Attr{same(a.Key), same(a.Value)}
			if b == a {
				continue
			}
			if &s.attrs[0] == &r.Attrs[0] {
				s.attrs = slices.Clone(r.Attrs)
			}
			s.attrs[i] = b
		}
	})
	return s.text, s.attrs
}

func (r *Record) size() int {
	n := recordSize + len(r.Text)
	for _, a := range r.Attrs {
		n += len(a.Key) + len(a.Value) + 32
	}
	return n
}

// Cursor is a position in a ring: the position of the last record that a reader has read. The zero
// Cursor is before the first record of the ring.
type Cursor struct{ Seq, Ordinal uint64 }

// Ring keeps the last log records and lines of stderr. Call New to create a Ring. A Ring is safe
// for concurrent use.
type Ring struct {
	epoch int64

	mu      sync.Mutex // held only for work in memory
	seq     uint64
	servers map[string]*server
	records int
	bytes   int
	grown   chan struct{} // closed when the next record is added; nil if no reader waits
	parts   map[string]*Ring
}

// server holds the records of one server.
type server struct {
	ordinal uint64
	kinds   [2]queue // the log records, and the lines of stderr
}

// queue is a queue of records, oldest first.
type queue struct {
	records []Record
	bytes   int
}

// New returns an empty ring.
func New() *Ring {
	return &Ring{epoch: time.Now().UnixMilli(), servers: make(map[string]*server)}
}

// Epoch returns the time at which the ring was created, in milliseconds. It distinguishes the
// rings of different processes.
func (r *Ring) Epoch() int64 { return r.epoch }

// Part returns the ring for a part of the program, such as a project, which a Handler of r finds by the
// attribute "project" of a record. It has the limits of a whole ring to itself, so one part can neither
// read nor displace the records of another.
func (r *Ring) Part(project string) *Ring {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.parts[project]
	if p == nil {
		if r.parts == nil {
			r.parts = make(map[string]*Ring)
		}
		p = New()
		r.parts[project] = p
	}
	return p
}

// Forget drops the ring of a part. Its later records are not kept.
func (r *Ring) Forget(project string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.parts, project)
}

// partOf returns the ring for the records of a project, or nil if none is kept. mine is the project of
// the records that r itself keeps, beside those without one.
func (r *Ring) partOf(project string) *Ring {
	if project == "" || project == mine {
		return r
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.parts[project]
}

// mine has the same value as event.DefaultProject.
const mine = "default"

// Stderr returns a function that adds a line of a server's stderr to the ring. clean masks the
// server's secrets. If clean is nil, secrets are not masked. The function copies the line.
func (r *Ring) Stderr(name string, clean func(string) string) func(line []byte) {
	return func(line []byte) {
		if len(line) == 0 {
			return
		}
		r.add(Record{Time: time.Now(), Level: slog.LevelInfo, Server: name, Stderr: true, Text: string(line[:min(len(line), maxText)]), clean: clean})
	}
}

// add appends a record.
func (r *Ring) add(x Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.servers[x.Server]
	if s == nil && x.Server != "" && len(r.servers) >= maxServers-1 {
		x.Server = ""
		s = r.servers[""]
	}
	if s == nil {
		s = &server{}
		r.servers[x.Server] = s
	}
	x.shown = &shown{}
	r.seq++
	s.ordinal++
	x.Seq, x.Ordinal = r.seq, s.ordinal
	q := &s.kinds[kindOf(&x)]
	q.records = append(q.records, x)
	q.bytes += x.size()
	r.records++
	r.bytes += x.size()
	for len(q.records) > 1 && (len(q.records) > maxRecords || q.bytes > maxBytes) {
		r.dropLocked(q)
	}
	for r.records > 1 && (r.records > totalRecord || r.bytes > totalBytes) {
		r.dropLocked(r.oldestLocked())
	}
	if r.grown != nil {
		close(r.grown)
		r.grown = nil
	}
}

func kindOf(x *Record) int {
	if x.Stderr {
		return 1
	}
	return 0
}

// oldestLocked returns the queue with the oldest record.
func (r *Ring) oldestLocked() (oldest *queue) {
	for _, s := range r.servers {
		for i := range s.kinds {
			q := &s.kinds[i]
			if len(q.records) > 0 && (oldest == nil || q.records[0].Seq < oldest.records[0].Seq) {
				oldest = q
			}
		}
	}
	return oldest
}

// dropLocked drops the oldest record of a queue.
func (r *Ring) dropLocked(q *queue) {
	n := q.records[0].size()
	q.records[0] = Record{} // release the strings of the record
	q.records = q.records[1:]
	q.bytes -= n
	r.bytes -= n
	r.records--
}

// Filter selects records. The zero value selects all records.
type Filter struct {
	Server string // only records of this server; "" for all
}

// Read returns up to limit records that f selects after a cursor, oldest first. If there are no
// such records, the channel more is closed when the next record is added, even if f does not select
// the new record.
func (r *Ring) Read(after Cursor, f Filter, limit int) (records []Record, more <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	records = r.nextLocked(after, f, limit)
	if len(records) == 0 {
		if r.grown == nil {
			r.grown = make(chan struct{})
		}
		more = r.grown
	}
	number := func(seq, ordinal uint64) uint64 {
		if f.Server != "" {
			return ordinal
		}
		return seq
	}
	last := number(after.Seq, after.Ordinal)
	for i := range records {
		n := number(records[i].Seq, records[i].Ordinal)
		if n > last+1 {
			records[i].Missed = n - last - 1
		}
		last = n
	}
	return records, more
}

// Tail returns the cursor before the last n records that f selects. If n is negative, it returns
// the cursor before all these records.
func (r *Ring) Tail(f Filter, n int) Cursor {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.nextLocked(Cursor{}, f, totalRecord)
	if n < 0 || n > len(all) {
		n = len(all)
	}
	if n == 0 {
		c := Cursor{Seq: r.seq}
		if s := r.servers[f.Server]; f.Server != "" && s != nil {
			c.Ordinal = s.ordinal
		}
		return c
	}
	x := all[len(all)-n]
	return Cursor{x.Seq - 1, x.Ordinal - 1}
}

// nextLocked returns copies of up to limit records that f selects after a cursor, oldest first.
func (r *Ring) nextLocked(after Cursor, f Filter, limit int) (out []Record) {
	var rest [][]Record
	for name, s := range r.servers {
		if f.Server != "" && f.Server != name {
			continue
		}
		for _, q := range s.kinds {
			if x := since(q.records, after.Seq); len(x) > 0 {
				rest = append(rest, x)
			}
		}
	}
	for len(out) < limit && len(rest) > 0 {
		first := 0
		for i := range rest {
			if rest[i][0].Seq < rest[first][0].Seq {
				first = i
			}
		}
		out = append(out, rest[first][0])
		if rest[first] = rest[first][1:]; len(rest[first]) == 0 {
			rest[first] = rest[len(rest)-1]
			rest = rest[:len(rest)-1]
		}
	}
	return out
}

// since returns the records whose Seq is greater than seq.
func since(all []Record, seq uint64) []Record {
	return all[sort.Search(len(all), func(i int) bool { return all[i].Seq > seq }):]
}

// Has reports whether the ring has had records of a server.
func (r *Ring) Has(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.servers[name] != nil
}
