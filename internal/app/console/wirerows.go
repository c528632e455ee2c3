package console

import (
	"html/template"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
)

// wireRow is a row with two columns. Each column has lines of one message: Left on the client's
// wire, and Right on the server's wire.
type wireRow struct {
	Class       string // "same", "ed" or "lost"
	Left, Right template.HTML
	NoLeft      bool // the left column is empty in this row
	NoRight     bool
	Marks       []rowMark
	Lacuna      string // the text that replaces lost text and says why it was lost; "" if nothing was lost
	Folded      bool   // the view "Edits only" does not show the row
}

// rowMark is a label beside a row, with a link to the note that explains the edit.
type rowMark struct{ Sign, Target, Title string }

// wireColumn has the HTML of one column of a row while a rowBuilder builds the row.
type wireColumn struct {
	b    strings.Builder
	text string // the text of the column so far, without HTML
}

func (s *wireColumn) add(text string, open, close string) {
	if text == "" {
		return
	}
	if s.text == "" {
		text = strings.TrimPrefix(text, "\n") // each row begins on a new line anyway
	}
	if text == "" {
		return
	}
	s.text += text
	if open == "" {
		s.b.WriteString(string(wireText(text)))
		return
	}
	for i, line := range strings.Split(text, "\n") {
		if i > 0 {
			s.b.WriteByte('\n')
		}
		rest := strings.TrimLeft(line, " ")
		s.b.WriteString(line[:len(line)-len(rest)])
		if rest != "" {
			s.b.WriteString(open + string(wireText(rest)) + close)
		}
	}
}

func (s *wireColumn) take() (html template.HTML, none bool) {
	html, none = template.HTML(s.b.String()), s.text == ""
	*s = wireColumn{}
	return html, none
}

// mostWire is the maximum number of characters of a message that a page shows. Recorded messages
// are shorter, so pages show them completely.
const mostWire = 1 << 20

// wireText is like peerBlock, but for a whole message.
func wireText(text string) template.HTML { return peerText(text, mostWire, true) }

// rowBuilder builds the rows from segments: text that is the same on both wires, and edits.
type rowBuilder struct {
	rows        []wireRow
	left, right wireColumn
	marks       []rowMark
	class       string
	lacuna      string
	fold        bool
}

// end ends the row.
func (b *rowBuilder) end() {
	if b.left.text == "" && b.right.text == "" && len(b.marks) == 0 {
		return
	}
	row := wireRow{Class: b.class, Marks: b.marks, Lacuna: b.lacuna}
	if row.Class == "" {
		row.Class = "same"
	}
	row.Left, row.NoLeft = b.left.take()
	row.Right, row.NoRight = b.right.take()
	row.Folded = b.fold && row.Class == "same"
	b.marks, b.class, b.lacuna = nil, "", ""
	if n := len(b.rows); n > 0 && row.Class == "same" && b.rows[n-1].Class == "same" {
		last := &b.rows[n-1] // row continues the unchanged text of the previous row
		last.Left, last.Right = last.Left+"\n"+row.Left, last.Right+"\n"+row.Right
		last.NoLeft, last.NoRight = last.NoLeft && row.NoLeft, last.NoRight && row.NoRight
		return
	}
	b.rows = append(b.rows, row)
}

// same adds text that is the same on both wires, except for white space. If the current row
// contains an edit, the row ends at the first line break of the text. Otherwise, the row ends at
// the last line break.
func (b *rowBuilder) same(left, right string) {
	add := func(l, r string) {
		b.left.add(l, "", "")
		b.right.add(r, "", "")
	}
	if b.class == "" {
		i, j := strings.LastIndexByte(left, '\n'), strings.LastIndexByte(right, '\n')
		if i < 0 || j < 0 {
			add(left, right)
			return
		}
		add(left[:i], right[:j])
		b.end()
		add(left[i:], right[j:])
		return
	}
	i, j := strings.IndexByte(left, '\n'), strings.IndexByte(right, '\n')
	if i < 0 || j < 0 {
		add(left, right)
		return
	}
	add(left[:i], right[:j])
	b.end()
	b.same(left[i:], right[j:])
}

// wireSegment is an edit, or text that is the same on both wires.
type wireSegment struct {
	side [2]string   // the formatted text on the client's wire and on the server's wire
	edit *admin.Edit // nil if the text is the same on both wires
}

// alone reports whether the edit is shown in separate rows. This requires that a row can end before
// and after the edit; see lineEnds.
func (s *wireSegment) alone() bool {
	if s.edit == nil {
		return false
	}
	return s.edit.Kind == "lost" || s.edit.Kind != "changed" && strings.Contains(s.side[0]+s.side[1], "\n")
}

// lineEnds reports whether a row can end before segment i. It can if the next text of both columns
// begins on a new line.
func lineEnds(all []wireSegment, i int) bool {
	for side := range 2 {
		begun, next := slices.ContainsFunc(all[:i], func(s wireSegment) bool { return s.side[side] != "" }), ""
		for j := i; j < len(all) && next == ""; j++ {
			next = all[j].side[side]
		}
		if begun && next != "" && next[0] != '\n' {
			return false
		}
	}
	return true
}

// edit adds an edit. from is the wire from which the edited message came: 0 for the client's wire,
// and 1 for the server's wire. end is true if a row can end before the edit.
func (b *rowBuilder) edit(s *wireSegment, from int, end bool) {
	e, source, message := s.edit, s.side[from], s.side[1-from]
	columns := [2]*wireColumn{&b.left, &b.right}
	if e.Kind == "lost" && strings.HasPrefix(source, ",\n") {
		columns[from].add(",", "", "") // the comma belongs to the line before the lost text
		source = source[1:]
	}
	if e.Kind == "lost" || s.alone() && end {
		b.end()
	}
	b.class = "ed"
	mark := rowMark{Sign: map[string]string{"changed": "~", "added": "+", "removed": "−", "lost": ""}[e.Kind] + e.Note, Target: "note-" + e.Note, Title: e.Kind + ": note " + e.Note}
	if e.Kind == "lost" {
		mark.Sign = "[" + e.Note + "]"
		b.class, b.lacuna = "lost", "The revision of the other side cannot express this."
		if e.Loss != nil {
			b.lacuna = upper(e.Loss.Why) + "."
		}
	}
	found := false
	for _, m := range b.marks {
		found = found || m == mark
	}
	if !found {
		b.marks = append(b.marks, mark)
	}
	open, close := "<mark>", "</mark>"
	if e.Kind == "lost" {
		open, close = "", ""
	}
	if e.Kind == "removed" {
		open, close = "<del>", "</del>"
	}
	columns[from].add(source, open, close)
	columns[1-from].add(message, "<mark>", "</mark>")
}

// pairRows returns the rows that compare the message m with the message from which it was made.
// fromServer is true if source came from the server.
func pairRows(source, m *admin.Message, view string, fromServer bool) []wireRow {
	b := &rowBuilder{fold: view == showEdits}
	from := 0
	if fromServer {
		from = 1
	}
	var all []wireSegment
	received, written := layoutOf(source.Bytes(), view), layoutOf(m.Bytes(), view)
	at, done := 0, 0
	add := func(atEnd, toEnd int, e *admin.Edit) {
		s := wireSegment{edit: e}
		s.side[from], s.side[1-from] = received.part(at, atEnd), written.part(done, toEnd)
		at, done = atEnd, toEnd
		all = append(all, s)
	}
	for i := range m.Edits {
		e := &m.Edits[i]
		add(e.At[0], e.To[0], nil)
		add(e.At[1], e.To[1], e)
	}
	add(source.Size, m.Size, nil)
	for i := range all {
		s := &all[i]
		if s.edit == nil {
			b.same(s.side[0], s.side[1])
			continue
		}
		b.edit(s, from, lineEnds(all, i))
		if s.edit.Kind == "lost" || s.alone() && lineEnds(all, i+1) {
			b.end()
		}
	}
	b.end()
	return b.rows
}

// singleRows returns the row of a message that has no counterpart on the other wire. right is true
// if the message is on the server's wire.
func singleRows(m *admin.Message, view string, right bool) []wireRow {
	text := layoutOf(m.Bytes(), view).part(0, m.Size)
	b := &rowBuilder{}
	if right {
		b.right.add(text, "", "")
	} else {
		b.left.add(text, "", "")
	}
	b.end()
	return b.rows
}

// layout is a message, together with the white space that a page inserts into it.
type layout struct {
	text  []byte
	space map[int]string // the inserted white space, by the position of the byte after it
	blank map[int]bool   // the positions of white space in the message that the page does not show
}

// layoutOf returns the layout of a JSON text. It adds no white space in the raw view, and none to a
// text that has line breaks already.
func layoutOf(text []byte, view string) layout {
	l := layout{text: text}
	if view == showRaw || strings.ContainsRune(string(text), '\n') {
		return l
	}
	l.space, l.blank = map[int]string{}, map[int]bool{}
	depth, inText := 0, false
	br := func(i int) { l.space[i] = "\n" + strings.Repeat("  ", min(max(depth, 0), 20)) }
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case inText && c == '\\':
			i++
		case c == '"':
			inText = !inText
		case inText:
		case c == ' ' || c == '\t' || c == '\r':
			l.blank[i] = i == 0 || text[i-1] != ':'
		case c == '{' || c == '[':
			end := i + 1
			for end < len(text) && text[end] == ' ' {
				end++
			}
			if end < len(text) && (text[end] == '}' || text[end] == ']') {
				i = end
				continue
			}
			depth++
			br(i + 1)
		case c == '}' || c == ']':
			depth--
			br(i)
		case c == ',':
			br(i + 1)
		case c == ':' && i+1 < len(text) && text[i+1] != ' ':
			l.space[i+1] = " "
		}
	}
	return l
}

// part returns the text between the positions from and to, with the inserted white space. If the
// recording ends before the position to, part appends "…".
func (l layout) part(from, to int) string {
	missing := to > len(l.text) && to > from
	from, to = min(from, len(l.text)), min(to, len(l.text))
	var b strings.Builder
	for i := from; i < to; i++ {
		b.WriteString(l.space[i])
		if !l.blank[i] {
			b.WriteByte(l.text[i])
		}
	}
	if missing {
		b.WriteString("…")
	}
	return b.String()
}
