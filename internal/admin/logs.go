package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/logring"
	"github.com/dragoman-mcp/dragoman/internal/transport/eventstream"
	"github.com/dragoman-mcp/dragoman/internal/transport/stdio"
)

// Logs is the answer of /api/v1/logs: the last records, oldest first.
type Logs struct {
	Records []LogRecord `json:"records"`
}

// LogRecord is a log record of Dragoman, or a line that a server wrote to stderr. Secrets in
// it are masked. Control characters in Text and in the values are escaped.
type LogRecord struct {
	// ID is the position of the record, for Last-Event-ID and the parameter after.
	ID   string    `json:"id"`
	Time time.Time `json:"time"`
	// Level is "debug", "info", "warn" or "error". Lines of stderr have no level, and are
	// "info".
	Level  string `json:"level"`
	Server string `json:"server,omitempty"` // "" if the record is about no server
	Source string `json:"source"`           // SourceLog or SourceStderr
	Code   string `json:"code,omitempty"`   // names the kind of the record; see docs/monitoring.md
	Text   string `json:"text"`
	// Attributes are the attributes without server and code.
	Attributes Attributes `json:"attributes,omitempty"`
	// Missed is how many records before this one were dropped before they could be read.
	Missed uint64 `json:"missed,omitempty"`
}

// The values of LogRecord.Source.
const (
	SourceLog    = "log"    // Dragoman's own log
	SourceStderr = "stderr" // the stderr of the server's process
)

// Attribute is an attribute of a log record.
type Attribute struct{ Key, Value string }

// Attributes are attributes in their order. Their JSON is one object.
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
	if t, err := in.Token(); err != nil || t != json.Delim('{') {
		return fmt.Errorf("attributes are not an object: %w", err)
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

// The events of /api/v1/logs/stream. EventRecord carries a LogRecord.
const (
	EventRecord = "record"
	EventEnd    = "end" // Dragoman is stopping; no data
)

// Bounds of the log routes.
const (
	usualLogs    = 100
	mostLogs     = 20_000
	mostStreams  = 32
	logBatch     = 256
	logKeepAlive = 15 * time.Second
	logStall     = 30 * time.Second // for one write to a reader
)

// logQuery is what a request asks of the log.
type logQuery struct {
	filter logring.Filter
	after  logring.Cursor
	last   int  // how many records to begin with, if resume is false
	resume bool // after is set
}

// readLogQuery reads the parameters server, limit and after, and the header Last-Event-ID.
// If ok is false, the request has been answered.
func (a *API) readLogQuery(w http.ResponseWriter, r *http.Request) (q logQuery, ok bool) {
	values := r.URL.Query()
	q.filter.Server, q.last = values.Get("server"), usualLogs
	if name := q.filter.Server; name != "" && !a.opts.Recent.Has(name) && !a.configured(name) {
		refuse(w, Problem{Type: "no-such-server", Title: "No such server", Status: http.StatusNotFound, Instance: r.URL.Path, Detail: "No server is named " + excerpt.Quote(name, maxName) + "."})
		return q, false
	}
	if text := values.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 || n > mostLogs {
			refuse(w, Problem{Type: "parameter", Title: "The parameter limit is invalid", Status: http.StatusBadRequest, Instance: r.URL.Path, Detail: fmt.Sprintf("Write a number from 0 to %d.", mostLogs)})
			return q, false
		}
		q.last = n
	}
	id := values.Get("after")
	if last := r.Header.Get("Last-Event-ID"); last != "" {
		id = last
	}
	if id != "" {
		// The position of another process has no meaning here, so the reader gets the
		// records from the beginning of this one.
		q.after, q.resume = a.cursorOf(id, q.filter), true
	}
	return q, true
}

// configured reports whether a server is configured and enabled.
func (a *API) configured(name string) bool {
	for _, s := range a.opts.Runtime.Statuses() {
		if s.Name == name {
			return true
		}
	}
	return false
}

// cursorOf returns the position of a record. For an id that is not of this process it is that
// of the oldest record.
func (a *API) cursorOf(id string, f logring.Filter) (c logring.Cursor) {
	epoch, rest, _ := strings.Cut(id, "-")
	seq, ordinal, _ := strings.Cut(rest, "-")
	if epoch != strconv.FormatInt(a.opts.Recent.Epoch(), 36) {
		return a.opts.Recent.Tail(f, -1)
	}
	c.Seq, _ = strconv.ParseUint(seq, 36, 64)
	c.Ordinal, _ = strconv.ParseUint(ordinal, 36, 64)
	return c
}

// logRecord returns a record for clients.
func (a *API) logRecord(x *logring.Record) LogRecord {
	clean := func(text string) string {
		return excerpt.MaskSecrets(x.Clean(stdio.Printable([]byte(text))))
	}
	r := LogRecord{
		ID: strings.Join([]string{
			strconv.FormatInt(a.opts.Recent.Epoch(), 36), strconv.FormatUint(x.Seq, 36), strconv.FormatUint(x.Ordinal, 36),
		}, "-"),
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

// serveLogs answers /api/v1/logs with the last records.
func (a *API) serveLogs(w http.ResponseWriter, r *http.Request) {
	if !a.admits(w, r) {
		return
	}
	q, ok := a.readLogQuery(w, r)
	if !ok {
		return
	}
	if !q.resume {
		q.after = a.opts.Recent.Tail(q.filter, q.last)
	}
	out := Logs{Records: []LogRecord{}}
	records, _ := a.opts.Recent.Read(q.after, q.filter, max(q.last, 1))
	for i := range records {
		out.Records = append(out.Records, a.logRecord(&records[i]))
	}
	if q.last == 0 {
		out.Records = out.Records[:0]
	}
	writeJSON(w, r, out)
}

// serveLogStream answers /api/v1/logs/stream: the last records, then each new one, as
// server-sent events. A reader that is too slow misses records, and the next record that it
// gets says how many. It never blocks the goroutine that logs.
func (a *API) serveLogStream(w http.ResponseWriter, r *http.Request) {
	if !a.admits(w, r) {
		return
	}
	q, ok := a.readLogQuery(w, r)
	if !ok {
		return
	}
	if a.streams.Add(1) > mostStreams {
		a.streams.Add(-1)
		refuse(w, Problem{Type: "too-many-streams", Title: "Too many streams are open", Status: http.StatusServiceUnavailable, Instance: r.URL.Path, Detail: fmt.Sprintf("At most %d streams may be open. Close one, then try again.", mostStreams)})
		return
	}
	defer a.streams.Add(-1)
	if !q.resume {
		q.after = a.opts.Recent.Tail(q.filter, q.last)
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if r.Method == http.MethodHead {
		return
	}
	a.streamLogs(r.Context(), w, q)
}

// streamLogs writes records until the reader is gone or Drain is called.
func (a *API) streamLogs(ctx context.Context, w http.ResponseWriter, q logQuery) {
	conn := http.NewResponseController(w)
	write := func(b []byte) bool {
		_ = conn.SetWriteDeadline(time.Now().Add(logStall))
		_, err := w.Write(b)
		return err == nil && conn.Flush() == nil
	}
	if !write(eventstream.AppendComment(nil, "dragoman")) {
		return
	}
	quiet := time.NewTicker(logKeepAlive)
	defer quiet.Stop()
	var out []byte
	for {
		records, more := a.opts.Recent.Read(q.after, q.filter, logBatch)
		out = out[:0]
		for i := range records {
			x := a.logRecord(&records[i])
			data, err := json.Marshal(x)
			if err != nil {
				continue // it has only texts and numbers
			}
			out = eventstream.AppendEvent(out, x.ID, EventRecord, data)
			q.after = logring.Cursor{Seq: records[i].Seq, Ordinal: records[i].Ordinal}
		}
		if len(out) > 0 && !write(out) {
			return
		}
		if more == nil {
			continue
		}
		select {
		case <-more:
		case <-quiet.C:
			if !write(eventstream.AppendComment(nil, "")) {
				return
			}
		case <-a.draining:
			write(eventstream.AppendEvent(nil, "", EventEnd, []byte("{}")))
			return
		case <-ctx.Done():
			return
		}
	}
}

// Drain ends the streams, so that the listener can stop. It may be called more than once.
func (a *API) Drain() { a.drain.Do(func() { close(a.draining) }) }
