package admin

import (
	"fmt"
	"net/http"
	"slices"
	"sync"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/base/work"
)

// Omitted describes a part of a result that Dragoman did not keep.
type Omitted struct {
	Member string `json:"member" doc:"the place of the omitted part in the result, such as content[2]"`
	Type   string `json:"type,omitempty" doc:"the type of the content, such as image; left out if the part has no type"`
	Bytes  int    `json:"bytes" doc:"length of the part in bytes"`
}

// runs holds the runs of an API. The zero value is ready to use. It is safe for concurrent use.
type runs struct {
	work work.Group

	mu   sync.Mutex
	last uint64
	all  []*run // oldest first
}

// add adds a run that is about to start. It returns a problem if too many runs are running.
func (s *runs) add(x *run) *Problem {
	s.mu.Lock()
	defer s.mu.Unlock()
	running := 0
	for _, y := range s.all {
		if !y.over() {
			running++
		}
	}
	if running >= mostRuns {
		return &Problem{Type: "too-many-runs", Title: "Too many runs", Status: http.StatusTooManyRequests, RetryAfter: busyFor, Detail: fmt.Sprintf("%d runs are running, which is the maximum. Wait until a run ends, or cancel one.", mostRuns)}
	}
	s.last++
	x.number = s.last
	x.show.ID = eventID(x.events.epoch, x.number)
	s.all = append(s.all, x)
	return nil
}

// trim drops ended runs, the oldest first, if there are too many runs or if the runs hold too many
// bytes in total.
func (s *runs) trim() {
	s.mu.Lock()
	defer s.mu.Unlock()
	count, held := 0, 0
	for i := len(s.all) - 1; i >= 0; i-- {
		x := s.all[i]
		count++
		size, over := x.held()
		held += size
		if over && (count > keptRuns || held > keptResults && count > 1) {
			s.all = slices.Delete(s.all, i, i+1)
			count--
			held -= size
		}
	}
}

// newest returns all runs, newest first.
func (s *runs) newest() []*run {
	s.mu.Lock()
	all := slices.Clone(s.all)
	s.mu.Unlock()
	slices.Reverse(all)
	return all
}

// find returns the run with the given id.
func (s *runs) find(id string) (*run, *Problem) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.all {
		if x.show.ID == id { // the id never changes, so reading it does not need the run's lock
			return x, nil
		}
	}
	return nil, &Problem{Type: "no-such-run", Title: "No such run", Status: http.StatusNotFound, Detail: fmt.Sprintf("Dragoman keeps only the last %d runs of this process.", keptRuns)}
}

// close cancels all runs and waits until they have ended.
func (s *runs) close() {
	s.work.Close()
	s.mu.Lock()
	all := slices.Clone(s.all)
	s.mu.Unlock()
	for _, x := range all {
		x.cancel(errRunCancelled)
	}
	s.work.Wait()
}

// held returns the size in bytes of the run's result, arguments, log and messages, and whether the run has
// ended.
func (x *run) held() (int, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.show.Result) + len(x.show.Arguments) + x.logBytes + x.wireBytes, x.show.Ended != nil
}

// keepLog adds a log message of the server. It drops the oldest messages if there are too many, or
// if they are too large in total.
func (x *run) keepLog(l RunLog) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.show.Logs = append(x.show.Logs, l)
	x.logBytes += l.size()
	drop := 0
	for len(x.show.Logs)-drop > keptLogs || x.logBytes > keptLogBytes && drop < len(x.show.Logs)-1 {
		x.logBytes -= x.show.Logs[drop].size()
		drop++
	}
	x.show.Logs = slices.Delete(x.show.Logs, 0, drop)
}

func (l RunLog) size() int { return len(l.Level) + len(l.Logger) + len(l.Text) }

// keepResult returns a result unchanged if it is small enough. Otherwise it keeps only the list
// items and members that fit, and describes the omitted parts. It omits a large result without a
// list completely.
func keepResult(result []byte) (kept []byte, omitted []Omitted) {
	if len(result) <= keptResult {
		return result, nil
	}
	whole := jsonrpc.Whole(result)
	for _, key := range []string{"content", "contents", "messages"} {
		list := jsonrpc.Find(result, whole, key)
		if jsonrpc.KindOf(result, list) != '[' {
			continue
		}
		kept = append(jsonrpc.AppendQuote([]byte{'{'}, key), ":["...)
		first, i := true, 0
		for e := range jsonrpc.Elements(result, list) {
			if size := e.End - e.Start; len(kept)+size <= keptResult {
				if !first {
					kept = append(kept, ',')
				}
				kept, first = append(kept, e.Of(result)...), false
			} else if len(omitted) < mostOmitted {
				kind, _ := jsonrpc.Text(result, jsonrpc.Find(result, e, "type"))
				omitted = append(omitted, Omitted{Member: fmt.Sprintf("%s[%d]", key, i), Type: excerpt.Line(kind, maxName), Bytes: size})
			}
			i++
		}
		kept = append(kept, ']')
		for m := range jsonrpc.Members(result, whole) {
			name, _ := jsonrpc.Text(result, m.Key)
			size := m.Value.End - m.Value.Start
			switch {
			case name == key:
			case len(kept)+size+len(name) <= keptResult:
				kept = append(append(jsonrpc.AppendQuote(append(kept, ','), name), ':'), m.Value.Of(result)...)
			case len(omitted) < mostOmitted:
				omitted = append(omitted, Omitted{Member: excerpt.Line(name, maxName), Bytes: size})
			}
		}
		return append(kept, '}'), omitted
	}
	return nil, []Omitted{{Member: "result", Bytes: len(result)}}
}

// mostOmitted is the maximum number of omitted parts that keepResult describes.
const mostOmitted = 100
