package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/base/screen"
)

// sideBySide is the minimum width of a terminal at which a message is printed beside the message
// that it was made from.
const sideBySide = 110

// printStory prints one call with its messages.
func (c *callsCommand) printStory(ctx context.Context, s *running, number string) error {
	var story admin.Story
	if err := s.decode(ctx, "/api/v1/calls/"+number, nil, &story); err != nil {
		return err
	}
	if c.asJSON {
		return c.printJSON(&story, "  ")
	}
	width := 0
	if c.screen {
		width = c.width
	}
	_, err := io.WriteString(c.stdout, storyText(&story, time.Local, width, c.screen && c.status.colour))
	return err
}

// saveTranscript writes the transcript of a call to a new file.
func (c *callsCommand) saveTranscript(ctx context.Context, s *running, number string) error {
	resp, err := s.get(ctx, "/api/v1/calls/"+number+"/transcript", nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	f, err := os.OpenFile(c.save, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return withHint(fmt.Errorf("cannot write the transcript: %w", err), "name a file that does not exist yet")
	}
	_, err = io.Copy(f, io.LimitReader(resp.Body, maxReport))
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("cannot write the transcript: %w", err)
	}
	if !c.quiet {
		c.status.Printf("wrote %s; `dragoman replay %s` plays it", clean(c.save), clean(c.save))
	}
	return nil
}

// storyText formats a story as text. width is the width of the terminal. It is 0 if the output is
// not a terminal.
func storyText(s *admin.Story, zone *time.Location, width int, colour bool) string {
	p := storyPrinter{Story: s, width: width, colour: colour}
	p.client, p.server = cmp.Or(clean(s.Client.Name), "client"), cmp.Or(clean(s.Server), "server")
	if p.client == "dragoman" { // the client is a command of Dragoman itself
		p.client = "client"
	}
	p.head(zone)
	for i := range s.Messages {
		p.message(i)
	}
	p.notes()
	return p.String()
}

// storyPrinter formats a story as text.
type storyPrinter struct {
	*admin.Story
	strings.Builder
	client, server string // the names of the client and of the server
	width          int
	colour         bool
}

func (p *storyPrinter) paint(y screen.Style, text string) string {
	if !p.colour {
		return text
	}
	return y.Paint(text)
}

// head writes what applies to the whole call, such as its outcome and its client.
func (p *storyPrinter) head(zone *time.Location) {
	c := &p.Story.Call
	fmt.Fprintf(p, "call %s: %s", clean(c.ID()), p.paint(screen.Bold, clean(calledOf(c))))
	if c.Server != "" {
		fmt.Fprintf(p, " on %s", clean(c.Server))
	}
	fmt.Fprintf(p, "\n%s, started %s, took %s\n", clean(c.Outcome), c.Started.In(zone).Format(time.DateTime), tookOf(c))
	who := cmp.Or(strings.TrimSpace(c.Client.Name+" "+c.Client.Version), "unknown")
	if c.Client.Who != "" {
		who += " of " + c.Client.Who
	}
	fmt.Fprintf(p, "client: %s, revision %s", clean(who), cmp.Or(c.Client.Revision, "unknown"))
	if c.Revision != "" {
		fmt.Fprintf(p, "; server: revision %s", c.Revision)
	}
	p.WriteByte('\n')
	if note := callNote(c); note != "" {
		fmt.Fprintf(p, "%s\n", clean(note))
	}
	if !c.Recorded {
		p.WriteString("\nThe messages of this call are not kept. With \"record: memory\" under \"dragoman\" in the\nconfiguration, Dragoman keeps the messages of the last calls, up to 64 MiB. This call is\nolder, or Dragoman did not record it.\n")
	}
	if p.Missed > 0 {
		fmt.Fprintf(p, "messages and edits that were not kept: %d\n", p.Missed)
	}
}

// way returns the sender and the receiver of a message as text, for example "client to dragoman".
func (p *storyPrinter) way(m *admin.Message) string {
	peer := p.client
	if m.Wire == admin.WireServer {
		peer = p.server
	}
	if m.Direction == "sent" {
		return "dragoman to " + peer
	}
	return peer + " to dragoman"
}

// message writes the message with the index i.
func (p *storyPrinter) message(i int) {
	m := &p.Messages[i]
	fmt.Fprintf(p, "\n%s  %s  %s", p.paint(screen.Bold, strconv.Itoa(i+1)+"."), p.paint(screen.Bold, p.way(m)), p.paint(screen.Dim, strconv.FormatFloat(m.At, 'f', 3, 64)+" s, "+strconv.Itoa(m.Size)+" bytes"))
	switch {
	case m.Source != nil:
		fmt.Fprintf(p, "%s", p.paint(screen.Dim, ", from "+strconv.Itoa(*m.Source+1)))
	case m.Direction == "sent":
		p.WriteString(p.paint(screen.Dim, ", by dragoman"))
	}
	p.WriteByte('\n')
	p.http(m)
	switch {
	case m.Source != nil && *m.Source < i && len(m.Edits) > 0:
		p.changed(&p.Messages[*m.Source], m)
	case m.Size > 0:
		p.lines("    ", "    ", string(m.Bytes()))
	}
	if m.Cut > 0 {
		fmt.Fprintf(p, "    … bytes that were not kept: %d\n", m.Cut)
	}
	if m.Error != "" {
		fmt.Fprintf(p, "    %s\n", p.paint(screen.Red, clean(m.Error)))
	}
}

// http writes the HTTP request and response that carried a message: the first line and the headers
// of each.
func (p *storyPrinter) http(m *admin.Message) {
	for _, h := range []*admin.Head{m.Request, m.Response} {
		if h == nil {
			continue
		}
		first := "HTTP status " + strconv.Itoa(h.Status)
		if h.Method != "" {
			first = h.Method + " " + h.Path
		}
		p.lines("    ", "      ", first)
		indent := "    "
		if len(h.Edits) > 0 {
			indent = "       "
		}
		for _, f := range h.Headers {
			begin := indent
			if e := h.Of(f[0]); e != nil {
				begin = p.paint(screen.Yellow, screen.Pad(sign(e.Kind)+e.Note, len(indent)))
			}
			p.lines(begin, indent+"  ", f[0]+": "+f[1])
		}
	}
}

// lines writes text from a client or server, and wraps it at the width of the terminal. The first
// line begins with the string begin, and each further line with the string rest.
func (p *storyPrinter) lines(begin, rest, text string) {
	text = clean(text)
	if p.width == 0 {
		p.WriteString(begin + text + "\n")
		return
	}
	for i, line := range screen.Break(text, max(p.width-screen.Width(rest), 20)) {
		if i > 0 {
			begin = rest
		}
		p.WriteString(begin + line + "\n")
	}
}

// part returns the bytes of text in the range at. It adds "…" if some of these bytes were not
// recorded.
func part(text []byte, at admin.Range) string {
	from, to := min(at[0], len(text)), min(at[1], len(text))
	out := string(text[from:max(from, to)])
	if at[1] > len(text) {
		out += "…"
	}
	return out
}

// mark returns the mark of an edit in the output: "~a" for example, or "[1]" for a loss.
func mark(e *admin.Edit) string {
	if e.Kind == "lost" {
		return "[" + e.Note + "]"
	}
	return sign(e.Kind) + e.Note
}

// sign returns the sign for a kind of edit: "~", "+" or "-".
func sign(kind string) string {
	return map[string]string{"changed": "~", "added": "+", "removed": "-"}[kind]
}

// changed writes a message that was made from another message, and marks the edits.
func (p *storyPrinter) changed(source, m *admin.Message) {
	left, right := source.Bytes(), m.Bytes()
	if p.width >= sideBySide {
		column := (p.width - len("    ") - len("  [10]  ")) / 2
		p.columns(column, screen.Cell{Text: p.way(source), Style: screen.Bold}, "", screen.Cell{Text: p.way(m), Style: screen.Bold})
		p.each(source, m, func(at, to admin.Range, e *admin.Edit) {
			switch {
			case e == nil:
				p.columns(column, screen.Cell{Text: part(left, at)}, "", screen.Cell{Text: part(right, to)})
			case e.Kind == "lost" && to[1] == to[0]:
				p.columns(column, screen.Cell{Text: part(left, at), Style: screen.Red}, mark(e), screen.Cell{Text: "(lost)", Style: screen.Yellow})
			default:
				p.columns(column, screen.Cell{Text: part(left, at), Style: screen.Red}, mark(e), screen.Cell{Text: part(right, to), Style: screen.Green})
			}
		})
		return
	}
	p.each(source, m, func(at, to admin.Range, e *admin.Edit) {
		if e == nil {
			p.lines("       ", "       ", part(right, to))
			return
		}
		begin := screen.Pad(mark(e), 5)
		if at[1] > at[0] {
			p.lines(p.paint(screen.Yellow, begin)+"- ", "     - ", part(left, at))
			begin = "     "
		}
		if to[1] > to[0] {
			p.lines(p.paint(screen.Yellow, begin)+"+ ", "     + ", part(right, to))
		}
	})
}

// columns writes left and right as two columns, with mark between them.
func (p *storyPrinter) columns(width int, left screen.Cell, mark string, right screen.Cell) {
	a, b := screen.Break(clean(left.Text), width), screen.Break(clean(right.Text), width)
	for i := range max(len(a), len(b)) {
		l, r := "", ""
		if i < len(a) {
			l = a[i]
		}
		if i < len(b) {
			r = b[i]
		}
		line := "    " + p.paint(left.Style, l)
		if r != "" || mark != "" {
			line += strings.Repeat(" ", width-screen.Width(l)) + "  " + p.paint(screen.Yellow, screen.Pad(mark, 4)) + "  " + p.paint(right.Style, r)
		}
		p.WriteString(strings.TrimRight(line, " ") + "\n")
		mark = ""
	}
}

// each calls f for each edit. It also calls f, with e nil, for each run of bytes that is the same
// in both messages. at is the range in source, and to is the range in m.
func (p *storyPrinter) each(source, m *admin.Message, f func(at, to admin.Range, e *admin.Edit)) {
	at, to := 0, 0
	same := func(atEnd, toEnd int) {
		if toEnd > to {
			f(admin.Range{at, atEnd}, admin.Range{to, toEnd}, nil)
		}
	}
	for i := range m.Edits {
		e := &m.Edits[i]
		same(e.At[0], e.To[0])
		f(e.At, e.To, e)
		at, to = e.At[1], e.To[1]
	}
	same(source.Size, m.Size)
}

// notes writes what each mark in the messages means.
func (p *storyPrinter) notes() {
	if len(p.Notes) == 0 {
		return
	}
	p.WriteByte('\n')
	for _, n := range p.Notes {
		name := n.Note
		if n.Lost {
			name = "[" + n.Note + "]"
		}
		p.lines(screen.Pad(name, 5), "     ", n.Text)
	}
	for _, l := range p.Losses {
		p.lines("lost ", "     ", l.What+": "+l.Why)
	}
}
