package tape

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// wireMark is the beginning of the name of a section such as "wire client 2025-06-18". The sections
// with the messages on this wire of the call follow. The date is the revision of the client or of
// the server on this wire.
const wireMark = "wire "

// The wires on a tape of a call.
const (
	WireClient = "client" // the wire between the client and Dragoman
	WireServer = "server" // the wire between Dragoman and the server
)

// Wire begins the part of a tape with the messages on one wire of a call. The part has no
// handshake. If a tape has such parts, it must not have other sections outside of them.
func (r *Recorder) Wire(name, revision string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.section = ""
	r.write([]byte(strings.TrimSpace("-- "+wireMark+name+" "+revision) + " --\n"))
}

// Line records a message on one line, because the tape of a pipe has one line for each message. It
// replaces each line end in the message with a space. This does not change the meaning of the
// message, because JSON does not allow line ends inside strings.
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

// ErrNoWire means that a tape does not contain the requested wire.
var ErrNoWire = errors.New("the tape does not have the requested wire")

// ParseWire does the same as Parse, but reads only one wire from a tape of a call. If wire is "",
// ParseWire reads the first wire, or the whole tape if the tape has no wires.
func ParseWire(b []byte, wire string) (*Tape, error) {
	// txtar.Parse panics at this line, because the space is part of both the marker at the
	// beginning of the line and the marker at its end.
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

// handshake is the id of the initialize request that a replay sends. A tape of a call does not
// contain this request, because such a tape begins after the handshake.
const handshake = `"dragoman-replay"`

// hello sends an initialize request to a legacy server. A tape of a call does not contain this
// request.
func (p *pipePlay) hello() {
	params := fmt.Appendf(nil, `{"protocolVersion":%q,"capabilities":{"roots":{},"sampling":{},"elicitation":{}},"clientInfo":{"name":"dragoman-replay","version":"1"}}`, p.tape.revision)
	_ = p.line(jsonrpc.AppendRequest(nil, handshake, mcp.MethodInitialize, params))
}

// greet handles messages of the peer that a tape of a call does not contain: the messages of the
// handshake, and pings of a client. It reports whether m was such a message.
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
