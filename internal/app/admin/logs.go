package admin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/logring"
	"github.com/dragoman-mcp/dragoman/internal/transport/eventstream"
	"github.com/dragoman-mcp/dragoman/internal/transport/stdio"
)

// Logs is the response of /api/v1/logs. It contains the last records, oldest first.
type Logs struct {
	Records []LogRecord `json:"records" doc:"the last records, the oldest first"`
	Missing []Missing   `json:"missing,omitempty" doc:"the other replicas that have not sent their records; left out if all have, or for a process alone"`
}

// LogRecord is a log record of Dragoman, or a line that a server wrote to stderr. Secrets in a
// LogRecord are masked. Control characters in Text and in the values of Attributes are escaped.
type LogRecord struct {
	ID         string     `json:"id" doc:"the record's position, for the header Last-Event-ID or the query parameter after"`
	Replica    string     `json:"replica,omitempty" doc:"the name of the replica that has written the record; left out for a process alone"`
	Time       time.Time  `json:"time" doc:"when the record was written, or when the line of stderr arrived"`
	Level      string     `json:"level" doc:"debug, info, warn or error; always info for lines of stderr"`
	Server     string     `json:"server,omitempty" doc:"the server's name; left out if the record isn't about a server"`
	Source     string     `json:"source" doc:"log: our own log; stderr: the server's stderr"`
	Code       string     `json:"code,omitempty" doc:"the kind of the record; docs/monitoring.md lists all codes"`
	Text       string     `json:"text" doc:"the record's message, or the line of stderr, with control characters escaped and secrets masked"`
	Attributes Attributes `json:"attributes,omitempty" doc:"the attributes of the record, except server and code"`
	Missed     uint64     `json:"missed,omitempty" doc:"only in events: number of earlier records that were dropped because the reader was too slow; left out if there were none"`
}

// The values of LogRecord.Source.
const (
	SourceLog    = "log"    // Dragoman's own log
	SourceStderr = "stderr" // the stderr of the server's process
)

// Attribute is an attribute of a log record.
type Attribute struct{ Key, Value string }

// Attributes is an ordered list of attributes. In JSON, it is an object.
type Attributes []Attribute

// MarshalJSON implements json.Marshaler.
func (a Attributes) MarshalJSON() ([]byte, error) {
	out := []byte{'{'}
	for i, x := range a {
		if i > 0 {
			out = append(out, ',')
		}
		key, err := json.Marshal(x.Key)
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(x.Value)
		if err != nil {
			return nil, err
		}
		out = append(append(append(out, key...), ':'), value...)
	}
	return append(out, '}'), nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (a *Attributes) UnmarshalJSON(b []byte) error {
	in := json.NewDecoder(bytes.NewReader(b))
	switch t, err := in.Token(); {
	case err != nil:
		return fmt.Errorf("the attributes cannot be read: %w", err)
	case t != json.Delim('{'):
		return errors.New("the attributes are not an object")
	}
	*a = nil
	for in.More() {
		key, err := in.Token()
		if err != nil {
			return err
		}
		var x Attribute
		x.Key, _ = key.(string)
		if err := in.Decode(&x.Value); err != nil {
			return err
		}
		*a = append(*a, x)
	}
	return nil
}

// EventRecord is the name of the events of /api/v1/logs/stream that contain a LogRecord. The only
// other event of this stream is EventEnd.
const EventRecord = "record"

// Limits of the routes for logs.
const (
	usualLogs      = 100
	mostLogs       = 20_000
	mostLogStreams = 32
)

// logQuery holds the parameters of a request for log records.
type logQuery struct {
	filter logring.Filter
	after  logring.Cursor
	last   int // the number of past records to send, if the request has no position
}

// logAPI shows the records of Dragoman's log and of the servers' stderr.
type logAPI struct {
	project project
	recent  *logring.Ring
	fleet   *fleet
	streams *Streams
}

// readLogQuery reads the query parameters server, limit and after, and the header Last-Event-ID.
func (a *logAPI) readLogQuery(r *http.Request) (q logQuery, bad *Problem) {
	values := r.URL.Query()
	q.filter.Server, q.last = values.Get("server"), usualLogs
	if name := r.PathValue("name"); name != "" {
		q.filter.Server = name
	}
	if name := q.filter.Server; name != "" && !a.recent.Has(name) && !a.configured(name) {
		return q, &Problem{Type: "no-such-server", Title: "No such server", Status: http.StatusNotFound, Detail: "No server is named " + excerpt.Quote(name, maxName) + "."}
	}
	if text := values.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 || n > mostLogs {
			return q, badParameter("limit", fmt.Sprintf("Write a number from 0 to %d.", mostLogs))
		}
		q.last = n
	}
	if id := lastEventID(r); id != "" {
		// If the id is from an earlier process, the client gets all records of this process.
		q.after = a.cursorOf(id, q.filter)
	} else {
		q.after = a.recent.Tail(q.filter, q.last)
	}
	return q, nil
}

// configured reports whether a server is configured and enabled.
func (a *logAPI) configured(name string) bool {
	for _, s := range a.project.Statuses() {
		if s.Name == name {
			return true
		}
	}
	return false
}

// cursorOf returns the position of the record with the given id. If the id is from an earlier
// process, it returns the position before the oldest record that f selects.
func (a *logAPI) cursorOf(id string, f logring.Filter) (c logring.Cursor) {
	if !parseEventID(id, a.recent.Epoch(), &c.Seq, &c.Ordinal) {
		if a.fleet.self() != "" {
			return a.recent.Tail(f, 0) // or from another replica, whose records the reader has
		}
		return a.recent.Tail(f, -1)
	}
	return c
}

// masks contains what masks the secrets of servers in the log, for records that are read together. Lines
// of stderr have a function of their own for this; other records may contain names from servers too, such
// as a URI with a password.
type masks map[string]func(string) string

// logRecord converts a logring.Record to a LogRecord.
func (a *logAPI) logRecord(x *logring.Record, m masks) LogRecord {
	clean := func(text string) string {
		text = x.Clean(stdio.Printable([]byte(text)))
		if !x.Stderr {
			if m[x.Server] == nil {
				m[x.Server] = a.project.Clean(x.Server)
			}
			text = m[x.Server](text)
		}
		return excerpt.MaskSecrets(text)
	}
	r := LogRecord{
		ID: eventID(a.recent.Epoch(), x.Seq, x.Ordinal), Replica: a.fleet.self(),
		Time: x.Time.UTC(), Level: levelName(x.Level), Server: x.Server, Source: SourceLog, Missed: x.Missed,
	}
	if x.Stderr {
		r.Source = SourceStderr
	}
	text, attrs := x.Shown(clean)
	r.Text = text
	for _, attr := range attrs {
		if attr.Key == "code" {
			r.Code = attr.Value
			continue
		}
		r.Attributes = append(r.Attributes, Attribute(attr))
	}
	return r
}

func levelName(l slog.Level) string {
	switch {
	case l < slog.LevelInfo:
		return "debug"
	case l < slog.LevelWarn:
		return "info"
	case l < slog.LevelError:
		return "warn"
	}
	return "error"
}

// Logs returns the last records about a server, oldest first. They include lines of the server's
// stderr. Secrets in the records are masked.
func (a *logAPI) Logs(server string, last int) []LogRecord {
	q := logQuery{filter: logring.Filter{Server: server}, last: last}
	q.after = a.recent.Tail(q.filter, last)
	return a.records(q)
}

// readLogs answers /api/v1/logs with the last records.
func (a *logAPI) readLogs(r *http.Request) (any, *Problem) {
	q, bad := a.readLogQuery(r)
	if bad != nil {
		return nil, bad
	}
	out := Logs{Records: a.records(q)}
	if lastEventID(r) == "" { // what comes after a record is known only where the record is
		a.gather(r, &q, &out)
	}
	return out, nil
}

// values returns the query parameters of a request with q, without its position.
func (q *logQuery) values() url.Values {
	v := url.Values{"limit": {strconv.Itoa(q.last)}}
	if q.filter.Server != "" {
		v.Set("server", q.filter.Server)
	}
	return v
}

// gather adds the records of the other replicas.
func (a *logAPI) gather(r *http.Request, q *logQuery, out *Logs) {
	out.Missing = gather(a.fleet, r, a.fleet.path("/logs", q.values()), func(_ Other, x *Logs) { out.Records = append(out.Records, x.Records...) })
	slices.SortStableFunc(out.Records, func(x, y LogRecord) int { return x.Time.Compare(y.Time) })
	out.Records = out.Records[max(0, len(out.Records)-q.last):]
}

// records returns the records that a query selects, oldest first.
func (a *logAPI) records(q logQuery) []LogRecord {
	out := []LogRecord{}
	if q.last == 0 {
		return out
	}
	records, _ := a.recent.Read(q.after, q.filter, q.last)
	m := masks{}
	for i := range records {
		out = append(out, a.logRecord(&records[i], m))
	}
	return out
}

// writeLogStream answers /api/v1/logs/stream. It sends the last records, and then each new record,
// as server-sent events. A client that reads too slowly misses records. The next record that it gets
// contains the number of missed records. A slow client never blocks the goroutines that write to the
// log.
func (a *logAPI) writeLogStream(w http.ResponseWriter, r *http.Request) *Problem {
	q, bad := a.readLogQuery(r)
	if bad != nil {
		return bad
	}
	next, end := a.fleet.follow(r, "/logs/stream", q.values(), EventRecord, func(out []byte) ([]byte, <-chan struct{}, bool) {
		records, more := a.recent.Read(q.after, q.filter, streamBatch)
		m := masks{}
		for i := range records {
			x := a.logRecord(&records[i], m)
			data, err := json.Marshal(x)
			if err != nil {
				continue // cannot happen, because JSON can encode all values in a LogRecord
			}
			out = eventstream.AppendEvent(out, x.ID, EventRecord, data)
			q.after = logring.Cursor{Seq: records[i].Seq, Ordinal: records[i].Ordinal}
		}
		return out, more, false
	})
	defer end()
	a.streams.Serve(w, r, next)
	return nil
}
