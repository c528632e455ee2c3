package admin

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/base/trails"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/calls"
)

// Story is the response of /api/v1/calls/NUMBER: a call with the messages that were exchanged with
// the client and with the server. Secrets are masked.
type Story struct {
	Call
	Messages []Message `json:"messages" doc:"the messages in the order of time; empty if the call wasn't recorded"`
	Missed   int       `json:"missed" doc:"number of messages and edits that weren't kept"`
	Notes    []Note    `json:"notes" doc:"why the edits were made: first the notes with letters, then the losses, which have numbers"`
}

// Note explains the edits that were made for one reason.
type Note struct {
	Note   string `json:"note" doc:"the mark of the edits: a letter, or a number for a loss"`
	Reason string `json:"reason" doc:"the reason as a fixed code, for programs"`
	Text   string `json:"text" doc:"the reason in words, as a phrase"`
	Lost   bool   `json:"lost,omitempty" doc:"true if the edits left out something that the receiver's revision can't express"`
}

// Message is one message of a Story.
type Message struct {
	At        float64 `json:"at" doc:"seconds since the call began"`
	Wire      string  `json:"wire" enum:"client,server" doc:"client: between the client and Dragoman; server: between Dragoman and the server"`
	Direction string  `json:"direction" enum:"received,sent" doc:"whether we received or sent the message"`
	// Text contains the message if it is valid UTF-8. Otherwise Base64 contains the message.
	Text     string  `json:"text,omitempty" doc:"the message, if it's UTF-8; the members edits and masked count positions in bytes"`
	Base64   []byte  `json:"base64,omitempty" doc:"the message, if it isn't UTF-8"`
	Size     int     `json:"size" doc:"length of the whole message in bytes"`
	Cut      int     `json:"cut,omitempty" doc:"number of bytes at the message's end that weren't kept"`
	Masked   []Range `json:"masked,omitempty" doc:"ranges of bytes that were replaced because they contain secrets; each replacement is as long as the secret"`
	Error    string  `json:"error,omitempty" doc:"why the message was not sent, or why it got no answer"`
	Request  *Head   `json:"request,omitempty" doc:"the HTTP request that carried the message"`
	Response *Head   `json:"response,omitempty" doc:"the HTTP response that carried the message"`
	// Source is the index of the message from which Dragoman made this message. It is nil for a
	// message that Dragoman received, and for a message that Dragoman wrote itself.
	Source *int   `json:"source,omitempty" doc:"index of the message from which this one was made"`
	Edits  []Edit `json:"edits,omitempty" doc:"how this message differs from its source, by position; all other bytes were copied"`
}

// The values of Message.Wire.
const (
	WireClient = "client"
	WireServer = "server"
)

// Range is a range of bytes: the index of the first byte, and the index after the last byte.
type Range [2]int

// Edit is one difference between a message and its source: the bytes To of the message replace the
// bytes At of the source.
type Edit struct {
	Kind   string    `json:"kind" enum:"changed,added,removed,lost" doc:"changed: other bytes replace those of the source; added: the bytes are only in the message; removed: they're only in the source; lost: the receiver's revision can't express them"`
	At     Range     `json:"at" doc:"the range of bytes that the edit replaces in the source, the message from which this one was made"`
	To     Range     `json:"to" doc:"the range of bytes in this message that replaces the range in at"`
	Reason string    `json:"reason" doc:"the reason for the edit, as a code; a note of the call has the same reason in words"`
	Note   string    `json:"note" doc:"the mark of the note that explains the edit: a letter, or a number for a loss"`
	Loss   *CallLoss `json:"loss,omitempty" doc:"what was left out; only for the kind lost"`
}

// Head is the start line and the header of an HTTP message, with secrets masked.
type Head struct {
	Method  string      `json:"method,omitempty" doc:"the HTTP method; only for a request"`
	Path    string      `json:"path,omitempty" doc:"the path; only for a request"`
	Status  int         `json:"status,omitempty" doc:"the HTTP status; only for a response"`
	Headers [][2]string `json:"headers" doc:"the header fields, as pairs of name and value"`
	// In a received head, Edits lists the fields that Dragoman did not forward. In a sent head,
	// Edits lists the fields that Dragoman wrote itself. Dragoman forwarded all other fields, or
	// the reason for the edit is not known.
	Edits []HeadEdit `json:"edits,omitempty" doc:"in a message that we received, the fields that weren't forwarded; in one that we sent, those that we added"`
}

// HeadEdit describes one header field that Dragoman added or removed.
type HeadEdit struct {
	Name   string `json:"name" doc:"name of the field"`
	Kind   string `json:"kind" enum:"added,removed" doc:"removed: the field wasn't forwarded; added: we added it"`
	Reason string `json:"reason" doc:"the reason for the edit, as a code; a note of the call has the same reason in words"`
	Note   string `json:"note" doc:"the mark of the note that explains the edit: a letter, or a number for a loss"`
}

// Of returns the edit of a field. It returns nil if the field has no edit.
func (h *Head) Of(name string) *HeadEdit {
	for i := range h.Edits {
		if h.Edits[i].Name == name {
			return &h.Edits[i]
		}
	}
	return nil
}

// Bytes returns the recorded bytes of the message.
func (m *Message) Bytes() []byte {
	if m.Base64 != nil {
		return m.Base64
	}
	return []byte(m.Text)
}

// StoryOf returns a call with its messages. ok is false if Dragoman does not know the call.
func (a *callAPI) StoryOf(number uint64) (s Story, ok bool) {
	c, ok := a.calls.Find(number)
	if !ok {
		return s, false
	}
	told, recorded := a.calls.Story(number)
	if recorded {
		c = told.Call
	}
	s = Story{Call: a.call(&c, time.Now(), a.cleaner(), false), Messages: []Message{}, Missed: told.Missed, Notes: []Note{}}
	mask := a.masker()
	var notes calls.Notes
	for i := range told.Messages {
		s.Messages = append(s.Messages, messageOf(&told.Messages[i], mask, s.Losses, &notes))
	}
	note := func(list []jsonrpc.Reason, lost bool) {
		for _, why := range list {
			s.Notes = append(s.Notes, Note{Note: notes.Of(why), Reason: mcp.ReasonCode(why), Text: mcp.ReasonText(why), Lost: lost})
		}
	}
	note(notes.Reasons, false)
	note(notes.Losses, true)
	return s, true
}

// StoryFrom returns a call with its messages for whoever has sent r. id is a Call's ID. If another replica has the call,
// it's asked, unless r is nil.
func (a *callAPI) StoryFrom(r *http.Request, id string) (s Story, bad *Problem) {
	rest, to, bad := a.fleet.home(r, id)
	if bad != nil {
		return s, bad
	}
	number, bad := callNumber(rest)
	switch {
	case bad != nil:
	case to != nil:
		var text []byte
		if text, bad = a.fleet.from(r, to, "/calls/"+rest, nil); bad == nil && json.Unmarshal(text, &s) != nil {
			bad = noCall(number)
		}
	default:
		var ok bool
		if s, ok = a.StoryOf(number); !ok {
			return s, noCall(number)
		}
		if c, ok := a.calls.Find(number); ok && a.house.knowsCallers(r) {
			s.Client.Who = a.house.callerOf(c.Client.Who)
		}
	}
	return s, bad
}

// maxReason is the length of a Call's Reason in bytes.
const maxReason = 500

// reasonsFor returns a function that finds the Reason of a call in the last message to its client. It's "" for
// a call that hasn't failed, and where the message wasn't kept whole. The list of calls is open to this machine,
// but messages are not: without a proof of who asks, every Reason is "".
func (a *callAPI) reasonsFor(r *http.Request) func(*Call) string {
	if _, err := a.access.Check(r); err != nil {
		return func(*Call) string { return "" }
	}
	mask := sync.OnceValue(a.masker)
	return func(c *Call) string {
		if c.Code == 0 && !c.ToolError || !c.Recorded {
			return ""
		}
		told, _ := a.calls.Story(c.Number)
		for i := len(told.Messages) - 1; i >= 0; i-- {
			if m := &told.Messages[i]; m.Wire == trails.ClientWire && m.Sent && m.Cut() == 0 {
				answer, _ := mask().Message(m.Text)
				return excerpt.Line(reasonIn(answer), maxReason)
			}
		}
		return ""
	}
}

// reasonIn returns the message of an error response, or the first text of a tool's result.
func reasonIn(answer []byte) string {
	whole := jsonrpc.Whole(answer)
	if text, ok := jsonrpc.Text(answer, jsonrpc.Find(answer, jsonrpc.Find(answer, whole, "error"), "message")); ok {
		return text
	}
	content := jsonrpc.Find(answer, jsonrpc.Find(answer, whole, "result"), "content")
	for item := range jsonrpc.Elements(answer, content) {
		if text, ok := jsonrpc.Text(answer, jsonrpc.Find(answer, item, "text")); ok {
			return text
		}
	}
	return ""
}

func (a *callAPI) masker() *calls.Masker {
	if a.project.Project == nil {
		return calls.NewMasker(nil)
	}
	return calls.NewMasker(a.project.Secrets())
}

func messageOf(m *calls.Message, mask *calls.Masker, losses []CallLoss, notes *calls.Notes) Message {
	text, masked := mask.Message(m.Text)
	out := Message{
		At: m.At.Seconds(), Wire: WireClient, Direction: "received", Size: m.Size, Cut: m.Cut(),
		Error: mask.Text("", m.Failed),
	}
	// A message that Dragoman sent in an HTTP request may also have the head of the response.
	// Dragoman received that head.
	out.Request = headOf(mask.Head(m.Request), m.Sent, notes)
	out.Response = headOf(mask.Head(m.Response), m.Sent && m.Request == nil, notes)
	if m.Wire == trails.ServerWire {
		out.Wire = WireServer
	}
	if m.Sent {
		out.Direction = "sent"
	}
	for whole := text; ; {
		// The recording may have cut the message in the middle of a character.
		if utf8.Valid(whole) {
			out.Text = string(whole)
			out.Cut += len(text) - len(whole)
			break
		}
		if out.Cut == 0 || len(text)-len(whole) == utf8.UTFMax-1 || len(whole) == 0 {
			out.Base64 = text
			out.Cut = m.Cut()
			break
		}
		whole = whole[:len(whole)-1]
	}
	for _, s := range masked {
		out.Masked = append(out.Masked, Range{s.Start, s.End})
	}
	if m.Source >= 0 {
		out.Source = &m.Source
	}
	for _, e := range m.Edits {
		x := Edit{Kind: string(calls.KindOf(e)), At: Range{e.At.Start, e.At.End}, To: Range{e.To.Start, e.To.End}, Reason: mcp.ReasonCode(e.Why), Note: notes.Of(e.Why)}
		if prefix, lost := calls.IsLoss(e.Why); lost {
			for i := range losses {
				if strings.HasPrefix(losses[i].What, prefix) {
					x.Loss = &losses[i]
					break
				}
			}
		}
		out.Edits = append(out.Edits, x)
	}
	return out
}

// headOf converts a recorded head to a Head. sent says whether Dragoman sent the head or received it.
func headOf(h *trails.Head, sent bool, notes *calls.Notes) *Head {
	if h == nil {
		return nil
	}
	kind := "removed"
	if sent {
		kind = "added"
	}
	out := &Head{Method: h.Method, Path: h.Path, Status: h.Status, Headers: [][2]string{}}
	for _, f := range h.Fields() {
		out.Headers = append(out.Headers, [2]string{f.Name, f.Value})
		if why := h.Why(f.Name); why != jsonrpc.NoReason && out.Of(f.Name) == nil {
			out.Edits = append(out.Edits, HeadEdit{Name: f.Name, Kind: kind, Reason: mcp.ReasonCode(why), Note: notes.Of(why)})
		}
	}
	return out
}

// storyRoutes are the routes for the messages of calls and for the recording.
var storyRoutes = []route{
	{
		method: http.MethodGet, path: "/calls/{number}", least: identity.Viewer, name: "call",
		summary: "One call with the client's and the server's messages, and what was changed in them; with replicas, write NAME.NUMBER", answer: Story{}, problems: []int{404}, read: (*API).readCall,
	},
	{
		method: http.MethodGet, path: "/calls/{number}/transcript", least: identity.Viewer, name: "transcript",
		summary: "The client's and the server's messages in a call, as a file for `dragoman replay`", kind: "text/plain", problems: []int{404, 409}, write: (*API).writeTranscript,
	},
	{
		method: http.MethodGet, path: "/recording", least: identity.Viewer, name: "recording",
		summary: "Which calls are recorded", answer: Recording{}, read: (*API).readRecording,
	},
	{
		method: http.MethodPost, path: "/recording", least: identity.Operator, name: "record",
		summary: "Record the calls to one server or of one client for some minutes, even if recording is off",
		body:    RecordingRequest{}, answer: Recording{}, problems: []int{400, 404, 409, 413, 415}, read: withBody(4<<10, (*API).record),
	},
}

// readCall answers /api/v1/calls/NUMBER.
func (a *callAPI) readCall(r *http.Request) (any, *Problem) {
	return result(a.StoryFrom(r, r.PathValue("number")))
}

// callNumber reads the number of a call.
func callNumber(text string) (uint64, *Problem) {
	number, err := strconv.ParseUint(text, 10, 64)
	if err != nil || number == 0 {
		return 0, &Problem{Type: "no-such-call", Title: "No such call", Status: http.StatusNotFound, Detail: "Write the number of a call at the end of the path."}
	}
	return number, nil
}

func noCall(number uint64) *Problem {
	return &Problem{
		Type: "no-such-call", Title: "No such call", Status: http.StatusNotFound,
		Detail: fmt.Sprintf("There is no call %d. Dragoman keeps the last %d calls of this process.", number, calls.Kept),
	}
}

// Recording is the response of GET and POST /api/v1/recording.
type Recording struct {
	All     bool              `json:"all" doc:"whether all calls are recorded; see the setting record"`
	Windows []RecordingWindow `json:"windows" doc:"the periods in which the calls to one server or of one client are recorded"`
	Bytes   int               `json:"bytes" doc:"memory that all recordings use, in bytes"`
}

// RecordingWindow is a period in which Dragoman records the calls that match Server and Client. An
// empty field matches all calls.
type RecordingWindow struct {
	Server string    `json:"server,omitempty" doc:"the server whose calls are recorded; left out for all"`
	Client string    `json:"client,omitempty" doc:"the client whose calls are recorded; left out for all"`
	Until  time.Time `json:"until" doc:"when the recording ends"`
}

// RecordingRequest is the body of POST /api/v1/recording. Server, Client or both must be set.
type RecordingRequest struct {
	Server  string `json:"server,omitempty" doc:"the server whose calls to record; required if client is left out"`
	Client  string `json:"client,omitempty" doc:"the client whose calls to record, as it names itself; required if server is left out"`
	Minutes int    `json:"minutes,omitempty" doc:"how many minutes to record, 1 to 60; the default is 10"`
}

// readRecording answers GET /api/v1/recording.
func (a *callAPI) readRecording(*http.Request) (any, *Problem) {
	all, windows := a.calls.Recording()
	out := Recording{All: all, Windows: []RecordingWindow{}, Bytes: a.calls.Held()}
	for _, x := range windows {
		out.Windows = append(out.Windows, RecordingWindow{Server: x.Server, Client: x.Client, Until: x.Until.UTC()})
	}
	return out, nil
}

// record answers POST /api/v1/recording.
func (a *callAPI) record(r *http.Request, in RecordingRequest) (any, *Problem) {
	longest := int(calls.LongestTime / time.Minute)
	switch {
	case in.Server == "" && in.Client == "":
		return nil, badBody("Name a server or a client.")
	case len(in.Server) > maxName || len(in.Client) > maxName:
		return nil, badBody(fmt.Sprintf("The name of the server or the client is longer than %d bytes.", maxName))
	case in.Minutes < 0 || in.Minutes > longest:
		return nil, badBody(fmt.Sprintf(`"minutes" must be a number from 1 to %d.`, longest))
	case in.Server != "":
		if missing := a.project.noServer(in.Server); missing != nil {
			return nil, missing
		}
	}
	if in.Minutes == 0 {
		in.Minutes = usualMinutes
	}
	if !a.calls.RecordFor(calls.Window{Server: in.Server, Client: in.Client, Until: time.Now().Add(time.Duration(in.Minutes) * time.Minute)}) {
		return nil, &Problem{Type: "too-many-recordings", Title: "Too many recordings are running", Status: http.StatusConflict, Detail: "Wait until one of the recordings has ended."}
	}
	return a.readRecording(r)
}

const usualMinutes = 10
