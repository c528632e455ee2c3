package console

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/failure"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	terminal "github.com/dragoman-mcp/dragoman/internal/base/screen"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// mostLegs is the maximum number of legs that the page of a call shows.
const mostLegs = 100

// These are the values of the query parameter view in the URL of a call's page. The value selects
// how the page shows messages.
const (
	showFormatted = ""      // with line breaks and indentation that the page adds
	showRaw       = "raw"   // the exact bytes
	showEdits     = "edits" // only the changed parts
)

// callView has the values of the page of a call.
type callView struct {
	callRow
	Story          admin.Story
	Views          []choice
	View           string
	Legs           []*leg
	More           int // the number of legs that the page does not show
	Waterfall      *waterfall
	Edits          int
	Curl, CLI      string
	Wires, JSON    string // the paths of the downloads with the messages; Wires is "" if there is no transcript
	NoWires        string // why there is no transcript
	Replay         string // the command that replays the transcript
	Wait, Overhead time.Duration
	// Failure describes the failure in the last error that Dragoman sent to the client. It is nil
	// if there is no such failure. Relayed is true if the description came from the server.
	Failure *failure.Failure
	Relayed bool
}

// leg is a row of a call's page: a message on one wire, and the message that Dragoman made from it
// for the other wire. One of the two messages may be missing.
type leg struct {
	Title, Sub, At      string
	Left, Right         string // what each side did, for example "Cursor sent"
	LeftHow, RightHow   string // how each message was sent, and its size, for example "POST /mcp · 225 bytes"
	Arrow               string
	HasLeft, HasRight   bool
	Rows                []wireRow
	Notes               []legNote
	Error               string
	LeftHead, RightHead []headLine
	HeadMarks           []rowMark // the marks of the edits in both HTTP heads
}

// HeadClass returns the CSS class of the row with the HTTP heads.
func (l *leg) HeadClass() string {
	if len(l.HeadMarks) > 0 {
		return "ed"
	}
	return "same"
}

// headLine is a field of an HTTP head. If Dragoman wrote the field or did not forward it, Edited is
// the name of the field, and Rest is the rest of the line. Otherwise Rest is the whole line. Break
// is true for all fields except the first.
type headLine struct {
	Edited, Rest string
	Break        bool
}

// legNote explains the edits with the mark Mark. ID is the id attribute of the note's element.
type legNote struct{ ID, Mark, Class, Text string }

// storyOf returns the story of the call whose number is in the path of r.
func (p *callPages) storyOf(r *http.Request) (s admin.Story, err error) {
	s, bad := p.source.StoryFrom(waits(r), r.PathValue("number"))
	switch {
	case bad == nil:
		return s, nil
	case bad.Type != "no-such-call":
		return s, problemError(bad, Crumb{"Show all calls", pathOf("calls")})
	}
	return s, notFound("No call has the number "+r.PathValue("number"), "Dragoman keeps the last 2,000 calls, and a restart clears them.", Crumb{"Show all calls", pathOf("calls")})
}

func (p *callPages) call(r *http.Request) (*View, error) {
	s, err := p.storyOf(r)
	if err != nil {
		return nil, err
	}
	v := &callView{callRow: callRows([]admin.Call{s.Call})[0], Story: s, View: r.URL.Query().Get("view")}
	if v.View != showRaw && v.View != showEdits {
		v.View = showFormatted
	}
	v.Views = []choice{{"?", "Formatted", v.View == showFormatted}, {"?view=raw", "Raw", v.View == showRaw}, {"?view=edits", "Edits only", v.View == showEdits}}
	number := s.ID()
	if len(s.Messages) > 0 {
		v.JSON = pathOf("calls", number, "wires.json")
		if _, bad := p.source.TranscriptFrom(waits(r), number); bad != nil {
			v.NoWires = bad.Detail
		} else {
			v.Wires, v.Replay = pathOf("calls", number, "wires.txtar"), p.program+" replay call-"+number+".txtar"
		}
	}
	came := -1.0 // when Dragoman received the message that it has to pass on next, in seconds since the call began; -1 for none
	for i := range s.Messages {
		m := &s.Messages[i]
		v.Edits += len(m.Edits)
		switch {
		case m.Direction == "received":
			came = m.At
		case came >= 0:
			v.Overhead += time.Duration((m.At - came) * float64(time.Second))
			came = -1
		}
	}
	v.Failure, v.Relayed = failureOf(s.Messages)
	v.Waterfall = newWaterfall(&s, v.client(), v.server())
	v.Wait = v.Waterfall.wait
	v.legs()
	v.commands(admin.Base(r), ownPath(r, ""))
	return &View{Title: v.Label() + " · " + number, Crumbs: []Crumb{{"Calls", pathOf("calls")}}, Data: v}, nil
}

// failureOf returns the failure in the last message that Dragoman sent to the client. f is nil if that
// message does not contain a failure. relayed is true if Dragoman made the message from a server's
// message.
func failureOf(all []admin.Message) (f *failure.Failure, relayed bool) {
	for i := range slices.Backward(all) {
		m := &all[i]
		if m.Wire != admin.WireClient || m.Direction != "sent" {
			continue
		}
		raw := []byte(m.Text)
		if jsonrpc.Valid(raw, jsonrpc.Limits{}) != nil {
			return nil, false
		}
		if found := jsonrpc.ValueOf(raw).Get("error").Get("data").Get("failure").Raw(); len(found) > 0 {
			return failure.Parse(found), m.Source != nil
		}
		return nil, false
	}
	return nil, false
}

func (v *callView) client() string { return cmp.Or(v.Client.Name, "client") }
func (v *callView) server() string { return cmp.Or(v.Server, "server") }

// WaitText and OverheadText return durations for the summary, or "" if the durations are unknown.
func (v *callView) WaitText() string {
	if v.Wait <= 0 {
		return ""
	}
	return spanText(v.Wait)
}

func (v *callView) OverheadText() string {
	if len(v.Story.Messages) == 0 {
		return ""
	}
	return spanText(v.Overhead)
}

// Sentence returns the summary of the call in words.
func (v *callView) Sentence() template.HTML {
	text := string(peer(v.client())) + " sent " + string(peer(v.Method))
	switch {
	case v.Server == "" && v.Outcome == admin.OutcomeRunning:
		text += "."
	case v.Server == "":
		text += ". No server got it."
	case v.Outcome == string(mcp.NotSent):
		text += " for " + string(peer(v.server())) + ", which did not receive it."
	default:
		text += " to " + string(peer(v.server())) + "."
	}
	if v.Requests > 1 {
		numbers := ""
		for _, n := range v.Retries { // the list of calls has no rows with these numbers
			numbers += ", " + strconv.FormatUint(n, 10)
		}
		if numbers != "" {
			numbers = " (numbers " + strconv.FormatUint(v.Number, 10) + numbers + ")"
		}
		text += " The client sent " + strconv.Itoa(v.Requests) + " requests for it" + numbers + ", because the server asked for input."
	}
	if n := len(v.Losses); n > 0 {
		text += " " + upper(plural(n, "thing")) + be(n)[:len(be(n))-1] + " lost."
	}
	return template.HTML(text)
}

// Key returns text that changes when the call ends or when its story changes.
func (v *callView) Key() string {
	return fmt.Sprint(v.Outcome, len(v.Story.Messages), len(v.Losses), v.Requests)
}

// legs groups the messages into legs. A leg shows a message that Dragoman sent beside the message
// from which it was made.
func (v *callView) legs() {
	all := v.Story.Messages
	used := make([]bool, len(all)) // messages from which another message was made
	for i := range all {
		if s := all[i].Source; s != nil && *s >= 0 && *s < i {
			used[*s] = true
		}
	}
	explained, shown := map[string]bool{}, map[int]bool{}
	for i := range all {
		if used[i] {
			continue // the page shows this message beside the message that was made from it
		}
		if len(v.Legs) == mostLegs {
			v.More++
			continue
		}
		m := &all[i]
		var source *admin.Message
		if m.Source != nil && *m.Source >= 0 && *m.Source < i {
			source = &all[*m.Source]
		}
		l := v.leg(len(v.Legs)+1, source, m, explained)
		if source != nil {
			if shown[*m.Source] {
				l.again(v, m)
			}
			shown[*m.Source] = true
		}
		v.Legs = append(v.Legs, l)
	}
}

// leg returns the leg of the message m. source is the message from which m was made, or nil.
func (v *callView) leg(number int, source, m *admin.Message, explained map[string]bool) *leg {
	first := m
	if source != nil {
		first = source
	}
	l := &leg{At: strconv.FormatFloat(first.At, 'f', 3, 64) + " s", Arrow: "→", Error: m.Error}
	l.Title = strconv.Itoa(number) + ". " + v.titleOf(first)
	switch {
	case source == nil && m.Direction == "sent":
		l.Sub = "Dragoman wrote this message"
	case source == nil:
		l.Sub = "no message was made from it"
	case len(m.Edits) == 0:
		l.Sub = "relayed byte for byte"
	default:
		l.Sub = plural(len(m.Edits), "edit")
	}
	fromServer := first.Wire == admin.WireServer
	if fromServer != (source == nil && m.Direction == "sent") {
		l.Arrow = "←"
	}
	left, right := source, m // left is the message on the client's wire, right the message on the server's wire
	if source == nil {
		left, right = m, nil
		if fromServer {
			left, right = nil, m
		}
	} else if fromServer {
		left, right = m, source
	}
	l.HasLeft, l.HasRight = left != nil, right != nil
	if left != nil {
		l.Left, l.LeftHow, l.LeftHead = v.client()+" "+v.didOf(left), howOf(left), headLines(left)
	}
	if right != nil {
		l.Right, l.RightHow, l.RightHead = v.server()+" "+v.didOf(right), howOf(right), headLines(right)
	}
	if source == nil {
		l.Rows = singleRows(m, v.View, right != nil)
	} else {
		l.Rows = pairRows(source, m, v.View, fromServer)
	}
	heads := headEdits(source, m)
	l.HeadMarks = headMarks(heads)
	for _, e := range heads {
		l.explain(v, e.Note, nil, explained)
	}
	for i := range m.Edits {
		l.explain(v, m.Edits[i].Note, m.Edits[i].Loss, explained)
	}
	return l
}

// explain adds the note of a mark, unless an earlier leg has already explained the mark.
func (l *leg) explain(v *callView, mark string, loss *admin.CallLoss, explained map[string]bool) {
	if explained[mark] {
		return
	}
	explained[mark] = true
	for _, n := range v.Story.Notes {
		if n.Note != mark {
			continue
		}
		x := legNote{ID: "note-" + mark, Mark: mark, Text: n.Text}
		if n.Lost {
			x.Mark, x.Class = "["+mark+"]", "lost"
			if loss != nil {
				x.Text = "Lost: " + loss.What + ". " + upper(loss.Why) + "."
			}
		}
		l.Notes = append(l.Notes, x)
	}
}

// again changes a leg if an earlier leg has the same source. It changes the title and the time, and
// does not show the HTTP head of the source again.
func (l *leg) again(v *callView, m *admin.Message) {
	number, _, _ := strings.Cut(l.Title, ".")
	l.Title = number + ". " + v.titleOf(m) + " again"
	l.At = strconv.FormatFloat(m.At, 'f', 3, 64) + " s"
	l.LeftHead, l.LeftHow = nil, "the same message as before"
	if m.Wire == admin.WireClient {
		l.RightHead, l.RightHow, l.LeftHow, l.LeftHead = nil, l.LeftHow, howOf(m), headLines(m)
	}
	l.HeadMarks = headMarks(headEdits(m))
}

// didOf returns what the peer did with the message m. m.Direction says what Dragoman did, so the
// result is the opposite. A message with an error was not sent, or it got no answer; then the page
// claims no more than we know.
func (v *callView) didOf(m *admin.Message) string {
	switch {
	case m.Direction == "received":
		return "sent"
	case m.Error == "":
		return "received"
	case m.Wire == admin.WireClient || v.Outcome == string(mcp.NotSent):
		return "did not receive"
	}
	return "may have received"
}

// howOf returns how a message was sent, and its size.
func howOf(m *admin.Message) string {
	how := ""
	switch {
	case m.Request != nil:
		how = m.Request.Method + " " + m.Request.Path + " · "
	case m.Response != nil:
		how = strconv.Itoa(m.Response.Status) + " · "
	}
	return how + number(m.Size) + " bytes"
}

// headLines returns the header fields of a message, one per line.
func headLines(m *admin.Message) (lines []headLine) {
	for _, h := range []*admin.Head{m.Request, m.Response} {
		if h == nil {
			continue
		}
		for _, f := range h.Headers {
			line := headLine{Rest: f[0] + ": " + f[1], Break: len(lines) > 0}
			if h.Of(f[0]) != nil {
				line.Edited, line.Rest = f[0], ": "+f[1]
			}
			lines = append(lines, line)
		}
	}
	return lines
}

// headEdits returns the edits of the heads of all given messages. A message may be nil.
func headEdits(of ...*admin.Message) (all []admin.HeadEdit) {
	for _, m := range of {
		if m == nil {
			continue
		}
		for _, h := range []*admin.Head{m.Request, m.Response} {
			if h != nil {
				all = append(all, h.Edits...)
			}
		}
	}
	return all
}

// headMarks returns one mark for each note that the edits refer to.
func headMarks(edits []admin.HeadEdit) (marks []rowMark) {
	for _, e := range edits {
		mark := rowMark{Sign: "~" + e.Note, Target: "note-" + e.Note, Title: "headers: note " + e.Note}
		if !slices.Contains(marks, mark) {
			marks = append(marks, mark)
		}
	}
	return marks
}

// scanned parses a recorded message. It returns nil if the recording is cut off or is not a valid
// message.
func scanned(m *admin.Message) *jsonrpc.Message {
	x, err := jsonrpc.Scan(m.Bytes(), jsonrpc.Limits{})
	if err != nil {
		return nil
	}
	return x
}

// asksForInput reports whether x is a result with which a modern server requests input.
func asksForInput(x *jsonrpc.Message) bool {
	return x.Kind == jsonrpc.Result && x.At(x.ResultMember("resultType")).Is(mcp.ResultInputRequired)
}

// titleOf returns the title of a leg. The title says what happens to m, the first message of the
// leg.
func (v *callView) titleOf(m *admin.Message) string {
	who := v.client()
	if m.Wire == admin.WireServer {
		who = v.server()
	}
	if m.Direction == "sent" {
		who = "Dragoman"
	}
	x := scanned(m)
	switch {
	case m.Size == 0 && m.Request != nil && m.Request.Method == http.MethodGet:
		return who + " continues the event stream"
	case m.Size == 0 && m.Response != nil:
		return who + " sends status " + strconv.Itoa(m.Response.Status) + " without a message"
	case x == nil:
		return who + " sends a message"
	case x.Kind == jsonrpc.Request && m.Wire == admin.WireClient && m.Direction == "received":
		return who + " sends " + x.Method
	case x.Kind == jsonrpc.Request && m.Direction == "received":
		return who + " asks: " + x.Method
	case x.Kind == jsonrpc.Request:
		return who + " sends " + x.Method
	case x.Kind == jsonrpc.Notification:
		return who + " notifies: " + x.Method
	case asksForInput(x):
		return who + " asks for input"
	case x.Kind == jsonrpc.Failure:
		return who + " returns an error"
	case m.Wire == admin.WireClient && m.Direction == "received":
		return who + " answers"
	}
	return who + " returns the result"
}

// ofConnection contains the header fields that apply to one connection or to one body. The curl
// command omits them, because curl sets them itself. The recorded values can be wrong for the new
// request.
var ofConnection = map[string]bool{"accept-encoding": true, "connection": true, "content-length": true, "host": true, "transfer-encoding": true}

// commands sets Curl and CLI, the shell commands that repeat the call. base is the URL of Dragoman, and within the path
// of the project's endpoints below it.
func (v *callView) commands(base, within string) {
	var m *admin.Message
	for i := range v.Story.Messages {
		if x := &v.Story.Messages[i]; x.Wire == admin.WireClient && x.Direction == "received" {
			m = x
			break
		}
	}
	if m == nil || m.Cut > 0 {
		return
	}
	x := scanned(m)
	if x == nil || x.Kind != jsonrpc.Request {
		return
	}
	endpoint, name := base+within+"/mcp", ""
	if m.Request == nil && v.Server != "" && v.Target != "" {
		// The message didn't come over HTTP. A run of the console, for example, uses the server's own
		// names, which only the server's own endpoint has.
		endpoint, name = endpointOf(base+within, v.Server), v.Target
	}
	if m.Request != nil {
		if m.Request.Path != "" {
			endpoint = base + m.Request.Path
		}
		var b strings.Builder
		b.WriteString("curl " + terminal.ShellWord(endpoint))
		sent := map[string]bool{}
		for _, f := range m.Request.Headers {
			if ofConnection[strings.ToLower(f[0])] {
				continue
			}
			sent[strings.ToLower(f[0])] = true
			b.WriteString(" \\\n  -H " + terminal.ShellWord(f[0]+": "+f[1]))
		}
		for _, f := range [][2]string{{"Content-Type", "application/json"}, {"Accept", "application/json, text/event-stream"}} {
			if !sent[strings.ToLower(f[0])] {
				b.WriteString(" \\\n  -H " + terminal.ShellWord(f[0]+": "+f[1]))
			}
		}
		b.WriteString(" \\\n  --data-raw " + terminal.ShellWord(visibleJSON(string(x.Raw))))
		v.Curl = b.String()
	}
	if x.Method != mcp.MethodCallTool {
		return
	}
	if name == "" {
		name, _ = jsonrpc.Text(x.Raw, x.Param("name"))
	}
	// dragoman call would parse a name that begins with "-" as an option.
	if name != "" && !strings.HasPrefix(name, "-") {
		v.CLI = "dragoman call " + terminal.ShellWord(endpoint) + " " + terminal.ShellWord(name)
		if args := x.Param("arguments"); !args.IsZero() {
			v.CLI += " --json-args " + terminal.ShellWord(visibleJSON(string(args.Of(x.Raw))))
		}
	}
}

// endpointOf returns the URL of the endpoint that offers only the given server, or all of them for ""; see [admin.Base].
func endpointOf(base, server string) string {
	return base + endpointPath(server) + "/mcp"
}

// visibleJSON replaces the invisible characters of a JSON text by \u escapes, which have the same
// meaning in JSON.
func visibleJSON(text string) string {
	var b strings.Builder
	var before rune
	for _, r := range text {
		switch {
		case r == '\n' || r == '\t' || r == '\r':
			b.WriteByte(' ')
		case !excerpt.Invisible(r, before):
			b.WriteRune(r)
		case r > 0xffff:
			r -= 0x10000
			fmt.Fprintf(&b, `\u%04x\u%04x`, 0xd800+(r>>10), 0xdc00+(r&0x3ff))
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
		before = r
	}
	return b.String()
}

// serveTranscript handles GET /console/calls/NUMBER/wires.txtar. It sends the messages of a call as
// a file that `dragoman replay` can play.
func (p *callPages) serveTranscript(w http.ResponseWriter, r *http.Request) {
	s, err := p.storyOf(r)
	if err != nil {
		p.frame.fail(w, r, err)
		return
	}
	text, bad := p.source.TranscriptFrom(r, s.ID())
	if bad != nil {
		p.frame.fail(w, r, &pageError{Status: bad.Status, Title: bad.Title, Text: bad.Detail, Next: Crumb{"Show the call", pathOf("calls", r.PathValue("number"))}})
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Content-Disposition", `attachment; filename="call-`+s.ID()+`.txtar"`)
	_, _ = w.Write(text)
}

// serveWires handles GET /console/calls/NUMBER/wires.json. It sends the call with its messages as a
// JSON file.
func (p *callPages) serveWires(w http.ResponseWriter, r *http.Request) {
	s, err := p.storyOf(r)
	if err != nil {
		p.frame.fail(w, r, err)
		return
	}
	var body bytes.Buffer
	out := json.NewEncoder(&body)
	out.SetEscapeHTML(false)
	out.SetIndent("", "  ")
	if err := out.Encode(s); err != nil {
		p.frame.fail(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Disposition", `attachment; filename="call-`+s.ID()+`.json"`)
	_, _ = w.Write(body.Bytes())
}
