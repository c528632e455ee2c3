package tape

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
)

// wireMark begins a line such as "wire client 2025-06-18". The sections of one wire of a call
// follow this line. The revision is that of the client or of the server.
const wireMark = "wire "

// The wires of a tape of a call.
const (
	WireClient = "client" // between the client and Dragoman
	WireServer = "server" // between Dragoman and the server
)

// Wire begins the part of a tape for one wire of a call. The part has no handshake. A tape with
// such a part must not have sections outside of such parts.
func (r *Recorder) Wire(name, revision string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.section = ""
	r.write([]byte(strings.TrimSpace("-- "+wireMark+name+" "+revision) + " --\n"))
}

// Line records a message as one line, because the tape of a pipe has one line for each message.
// Line replaces the line ends in the message with spaces, which does not change the JSON, because
// JSON has line ends only between values.
func (r *Recorder) Line(fromClient bool, line []byte) {
	section := serverLine
	if fromClient {
		section = clientLine
	}
	r.line(section, bytes.Map(func(c rune) rune {
		if c == '\n' || c == '\r' {
			return ' '
		}
		return c
	}, line))
}

// noName is a line that begins and ends like the header of a section, but has no name.
const noName = "-- --"

// ErrNoWire means that a tape does not have the requested wire.
var ErrNoWire = errors.New("the tape does not have the requested wire")

// ParseWire does the same as Parse for one wire of a tape of a call, which has two wires. The wire
// "" means the first wire, or the whole tape if the tape has no wires.
func ParseWire(b []byte, wire string) (*Tape, error) {
	// txtar.Parse panics at this line, because the marks at its beginning and at its end overlap in
	// the space.
	for line := range bytes.Lines(b) {
		if string(bytes.TrimRight(line, "\r\n")) == noName {
			return nil, fmt.Errorf("the line %q does not name a section", noName)
		}
	}
	a := txtar.Parse(b)
	var files []txtar.File
	revision, found, inside, marked := "", false, false, false
	for _, f := range a.Files {
		mark, ok := strings.CutPrefix(f.Name, wireMark)
		if !ok {
			if inside {
				files = append(files, f)
			}
			continue
		}
		marked = true
		name, rev, _ := strings.Cut(mark, " ")
		if inside = !found && (wire == "" || name == wire); inside {
			found, revision = true, rev
		}
	}
	switch {
	case !marked && wire == "":
		return parse(a)
	case !found:
		return nil, fmt.Errorf("%w: %s", ErrNoWire, wire)
	}
	t, err := parse(&txtar.Archive{Comment: a.Comment, Files: files})
	if err != nil {
		return nil, err
	}
	t.call = true
	t.revision, _ = mcp.ParseRevision(revision)
	return t, nil
}

// handshake is the id of the initialize request that a replay sends. The recorded messages do not
// contain this request, because the tape of a call begins after the handshake.
const handshake = `"dragoman-replay"`

// hello sends the initialize request to a legacy server. The tape of a call does not contain this
// request.
func (p *pipePlay) hello() {
	params := fmt.Appendf(nil, `{"protocolVersion":%q,"capabilities":{"roots":{},"sampling":{},"elicitation":{}},"clientInfo":{"name":"dragoman-replay","version":"1"}}`, p.tape.revision)
	_ = p.line(jsonrpc.AppendRequest(nil, handshake, mcp.MethodInitialize, params))
}

// greet handles a message of the handshake, which a tape of a call does not contain. It
// reports whether m was such a message.
func (p *pipePlay) greet(m *jsonrpc.Message) bool {
	switch {
	case m == nil || !p.tape.call:
		return false
	case p.score.client:
		if string(m.ID) != handshake {
			return false
		}
		_ = p.line(jsonrpc.AppendNotification(nil, mcp.NoteInitialized, nil))
		p.greeted.Do(func() { close(p.open) })
	case m.Method == mcp.MethodInitialize:
		result := fmt.Appendf(nil, `{"protocolVersion":%q,"capabilities":{"tools":{},"resources":{},"prompts":{}},"serverInfo":{"name":"dragoman-replay","version":"1"}}`, p.tape.revision)
		_ = p.line(jsonrpc.AppendResult(nil, m.ID, result))
	case m.Method == mcp.NoteInitialized:
	case m.Method == mcp.MethodPing:
		_ = p.line(jsonrpc.AppendResult(nil, m.ID, []byte("{}")))
	default:
		return false
	}
	return true
}
