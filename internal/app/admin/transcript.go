package admin

import (
	"bytes"
	"fmt"
	"net/http"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/base/trails"
	"github.com/dragoman-mcp/dragoman/internal/relay/calls"
	"github.com/dragoman-mcp/dragoman/internal/workbench/tape"
)

// writeTranscript answers /api/v1/calls/NUMBER/transcript with the result of Transcript.
func (a *callAPI) writeTranscript(w http.ResponseWriter, r *http.Request) *Problem {
	text, bad := a.TranscriptFrom(r, r.PathValue("number"))
	if bad != nil {
		return bad
	}
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Content-Disposition", `attachment; filename="call-`+r.PathValue("number")+`.txtar"`)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write(text)
	return nil
}

// TranscriptFrom does the same as Transcript for whoever has sent r; see StoryFrom.
func (a *callAPI) TranscriptFrom(r *http.Request, id string) ([]byte, *Problem) {
	rest, to, bad := a.fleet.home(r, id)
	if bad != nil {
		return nil, bad
	}
	if to != nil {
		return a.fleet.from(r, to, "/calls/"+rest+"/transcript", nil)
	}
	number, bad := callNumber(rest)
	if bad != nil {
		return nil, bad
	}
	return a.Transcript(number)
}

// Transcript returns a tape of a call, which `dragoman replay` plays. The tape contains the
// messages that were exchanged with the client and with the server. Transcript returns a problem if
// the call is not known, still runs, or was not recorded completely.
func (a *callAPI) Transcript(number uint64) ([]byte, *Problem) {
	c, ok := a.calls.Find(number)
	if !ok {
		return nil, noCall(number)
	}
	no := func(kind, detail string) ([]byte, *Problem) {
		return nil, &Problem{Type: kind, Title: "The call has no transcript", Status: http.StatusConflict, Detail: detail}
	}
	s, ok := a.calls.Story(number)
	switch {
	case !ok:
		return no("not-recorded", "Its messages are not kept. With record: memory in the configuration, Dragoman keeps the messages of the last calls, up to 64 MiB.")
	case s.Call.Running():
		return no("running", "It has not ended.")
	case s.Missed > 0:
		return no("not-whole", "Some of its messages were not kept.")
	}
	clean := a.cleaner()
	var out bytes.Buffer
	var secrets []string
	if a.project.Project != nil {
		secrets = a.project.Secrets()
	}
	about := fmt.Sprintf("Both sides of call %d: %s %s on %s.\nPlay the server for a client: dragoman replay FILE\nPlay Dragoman for the server: dragoman replay --wire server FILE -- COMMAND",
		number, clean(c.Server, c.Method), clean(c.Server, c.Target), clean(c.Server, c.Server))
	rec := tape.NewRecorder(&out, about, secrets)
	for _, x := range []struct {
		wire           trails.Wire
		name, revision string
	}{{trails.ClientWire, tape.WireClient, revisionText(c.Client.Revision)}, {trails.ServerWire, tape.WireServer, revisionText(c.To)}} {
		began := false
		for i := range s.Messages {
			m := &s.Messages[i]
			if m.Wire != x.wire || m.Failed != "" || !isMessage(m) {
				continue
			}
			if m.Cut() > 0 {
				return no("not-whole", fmt.Sprintf("A message of %d bytes was not kept completely.", m.Size))
			}
			if !began {
				began = true
				rec.Wire(x.name, x.revision)
			}
			rec.Line(m.Sent == (x.wire == trails.ServerWire), m.Text)
		}
	}
	return out.Bytes(), nil
}

// isMessage reports whether a recorded text is a JSON-RPC message. For example, the error page of a
// proxy is not. A text that was cut off is treated as a message.
func isMessage(m *calls.Message) bool {
	if m.Cut() > 0 {
		return true
	}
	_, err := jsonrpc.Scan(m.Text, jsonrpc.Limits{Bytes: len(m.Text) + 1, Tolerant: true})
	return err == nil
}
