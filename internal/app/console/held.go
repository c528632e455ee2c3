package console

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/relay/pins"
)

// Reviewer knows the definitions that have changed since they were approved, and takes decisions about them. *admin.API
// implements Reviewer. Only ReadPins opens servers.
type Reviewer interface {
	ChangedPins() admin.Pins
	ReviewPin(context.Context, admin.PinDecision) (admin.PinReview, *admin.Problem)
	DecidePin(ctx context.Context, by string, q admin.PinDecision, state pins.State) (admin.PinDecided, *admin.Problem)
	ReadPins(context.Context) []admin.PinUnread
}

// heldPath is the path of the list of changed definitions.
const heldPath = prefix + "/tools/held"

// heldPages are the list of changed definitions, and the page of each on which people decide about it. There's no way
// to decide about several at once.
type heldPages struct {
	frame  *frame
	source interface {
		Reviewer
		CallsOf(admin.CallQuery) admin.Calls
	}
	forms forms
}

func (p *heldPages) register(f *frame) {
	f.add(p.listPage())
	f.add(p.reviewPage())
	f.handle("POST /tools/held", identity.Operator, p.read)
	f.handle("POST /tools/held/{id}", identity.Operator, p.decide)
}

func (p *heldPages) listPage() Page {
	return Page{
		Path: "/tools/held", Least: identity.Viewer, Template: "held.html", Nav: "Reviews", Group: catalogs, Key: "R",
		View: func(r *http.Request) (*View, error) { return p.list(r, nil, false) },
		Count: func(*screen) string {
			if waits, _ := undecided(p.source.ChangedPins().Changes); waits > 0 {
				return number(waits)
			}
			return ""
		},
	}
}

func (p *heldPages) reviewPage() Page {
	return Page{Path: "/tools/held/{id}", Least: identity.Viewer, Template: "review.html", Sheet: "review.css", View: func(r *http.Request) (*View, error) { return p.review(r, "") }}
}

// undecided returns how many changes wait for a decision, and the number of all others.
func undecided(all []admin.PinChange) (waits, rejected int) {
	for i := range all {
		if all[i].Rejected {
			rejected++
		} else {
			waits++
		}
	}
	return waits, rejected
}

// held is a changed definition on a page.
type held struct{ admin.PinChange }

// ID names a change in an address. It begins with what names the item, so a link leads on when the item has changed
// again. A decision names the whole hash.
func (h held) ID() string {
	return h.itemID() + h.SHA256[:min(len(h.SHA256), 16)]
}

func (h held) itemID() string {
	sum := sha256.Sum256([]byte(h.Server + "\x00" + h.Item))
	return fmt.Sprintf("%x-", sum[:4])
}

// Path returns the path of the page of the change.
func (h held) Path() string { return heldPath + "/" + h.ID() }

// Name returns what the item is called by its server, and Kind what it is.
func (h held) Name() string { _, name := h.kind(); return name }
func (h held) Kind() string { kind, _ := h.kind(); return kind }

func (h held) kind() (kind, name string) {
	if name, ok := strings.CutPrefix(h.Item, "prompt:"); ok {
		return "prompt", name
	}
	if name, ok := strings.CutPrefix(h.Item, "resource:"); ok {
		return "resource template", name
	}
	return "tool", h.Item
}

// Class and Word are the state label.
func (h held) Class() string {
	switch {
	case h.Rejected:
		return "off"
	case h.Held:
		return "held"
	}
	return "warn"
}

func (h held) Word() string {
	switch {
	case h.Rejected && h.Held:
		return "rejected"
	case h.Rejected:
		return "rejected, in use"
	case h.Held:
		return "held"
	}
	return "changed, in use"
}

// heldList has the values of the list.
type heldList struct {
	Mode            string
	Rows            []held
	Pager           pager
	Waits, Rejected int
	Asked           bool // the lists of all servers have just been read
	Unread          []admin.PinUnread
	Number          string
	Key             string
}

func (p *heldPages) list(r *http.Request, unread []admin.PinUnread, asked bool) (*View, error) {
	all := p.source.ChangedPins()
	v := &heldList{Mode: all.Mode, Asked: asked, Unread: unread, Number: formNumber()}
	v.Waits, v.Rejected = undecided(all.Changes)
	slices.SortStableFunc(all.Changes, func(a, b admin.PinChange) int {
		if a.Rejected != b.Rejected {
			return map[bool]int{false: -1, true: 1}[a.Rejected]
		}
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Server, b.Server), cmp.Compare(a.Item, b.Item))
	})
	var rows []admin.PinChange
	rows, v.Pager = paged(all.Changes, r.URL.Query())
	for _, x := range rows {
		v.Rows = append(v.Rows, held{x})
		v.Key += x.Server + "\x00" + x.Item + x.SHA256 + fmt.Sprint(x.Rejected, x.Held)
	}
	v.Key += fmt.Sprint(v.Waits, v.Rejected, v.Mode)
	return &View{Title: "Reviews", Crumbs: []Crumb{{"Tools", pathOf("tools")}}, Data: v}, nil
}

// read reads the lists of all servers, and shows the list.
func (p *heldPages) read(w http.ResponseWriter, r *http.Request) {
	if !p.frame.parsed(w, r) {
		return
	}
	unread, _ := p.forms.once(r, r.PostForm.Get("number"), func() any { return p.source.ReadPins(r.Context()) })
	of, asked := unread.([]admin.PinUnread)
	p.frame.again(w, r, p.listPage(), func(r *http.Request) (*View, error) { return p.list(r, of, asked) })
}

// mostRows is the maximum number of values on the page of a change. What has more can't be approved there, because the
// page wouldn't show all of it.
const mostRows = 2000

// review has the values of the page of a change.
type review struct {
	held
	Of        admin.PinReview
	Rows      []reviewRow
	Added     int // how many values there are of each kind
	Removed   int
	Changed   int
	Same      int
	All       bool   // the page shows what hasn't changed, too
	Invisible int    // how many invisible characters are new
	Why       string // why the page has no button to approve; "" if it has one
	Calls     int    // how many recorded calls were refused since the change
	More      bool   // there may be others that aren't recorded any more
	Problem   string
	Number    string
	Project   string
	Key       string
}

// reviewRow is a value, or Fold values that haven't changed.
type reviewRow struct {
	Path, Old, New template.HTML
	Class          string // as in the style sheet
	Sign, Word     string
	Fold           int
}

// find returns the change whose page a request asks for.
func (p *heldPages) find(r *http.Request) (held, error) {
	id := r.PathValue("id")
	var near []Crumb
	for _, x := range p.source.ChangedPins().Changes {
		h := held{x}
		if h.ID() == id {
			return h, nil
		}
		if strings.HasPrefix(id, h.itemID()) {
			near = append(near, Crumb{h.Server + "/" + h.Item, h.Path()})
		}
	}
	return held{}, notFound("This definition does not wait for a decision", "It has changed again, or somebody has decided about it.", Crumb{"Show all reviews", heldPath}, near...)
}

func (p *heldPages) review(r *http.Request, problem string) (*View, error) {
	h, err := p.find(r)
	switch {
	case err != nil && stateOf(r).feed:
		return &View{Data: &review{Key: "gone"}}, nil // the page loads again, and says so
	case err != nil:
		return nil, err
	}
	v := &review{held: h, Problem: problem, Number: formNumber(), Project: projectOf(r), All: r.URL.Query().Get("view") == "all", Key: fmt.Sprint(h.SHA256, h.Rejected, h.Held)}
	out := &View{Title: h.Name(), Crumbs: []Crumb{{"Tools", pathOf("tools")}, {"Reviews", heldPath}}, Data: v}
	if stateOf(r).feed {
		return out, nil // only the key is live, so we needn't read the database again and again
	}
	of, bad := p.source.ReviewPin(r.Context(), admin.PinDecision{Server: h.Server, Item: h.Item, SHA256: h.SHA256})
	if bad != nil {
		return nil, &pageError{Status: bad.Status, Title: bad.Title, Text: bad.Detail, Next: Crumb{"Show all reviews", heldPath}}
	}
	v.Of = of
	v.show(of.Rows)
	p.countRefused(v)
	return out, nil
}

// Counts says how many values have changed in which way.
func (v *review) Counts() string {
	var out []string
	for _, x := range []struct {
		n    int
		word string
	}{{v.Changed, "changed"}, {v.Added, "added"}, {v.Removed, "removed"}, {v.Same, "the same"}} {
		if x.n > 0 {
			out = append(out, number(x.n)+" "+x.word)
		}
	}
	return strings.Join(out, ", ")
}

// Masked reports whether the page can't show what has changed.
func (v *review) Masked() bool { return v.Added+v.Removed+v.Changed == 0 }

// countRefused sets how many calls were refused because the item is held, as far as they are recorded.
func (p *heldPages) countRefused(v *review) {
	if !v.Held {
		return
	}
	const most = 2000
	found := p.source.CallsOf(admin.CallQuery{Server: v.Server, Text: "held", Limit: most})
	for _, c := range found.Calls {
		name := cmp.Or(c.Target, c.Name)
		if c.Cause == "held" && !c.Started.Before(v.Since) && (name == v.Name() || strings.HasSuffix(name, "__"+v.Name())) {
			v.Calls++
		}
	}
	v.More = found.Before > 0
}

// show sets the rows of the page.
func (v *review) show(all []pins.Row) {
	fold := 0
	flush := func() {
		if fold > 0 {
			v.Rows = append(v.Rows, reviewRow{Fold: fold})
		}
		fold = 0
	}
	shown := 0
	for _, x := range all {
		row := reviewRow{Path: exact([]pins.Part{{Text: cmp.Or(x.Path, "the whole")}}, "", true)}
		old, now := []pins.Part{{Text: x.Old, Changed: true}}, []pins.Part{{Text: x.New, Changed: true}}
		switch x.Change {
		case pins.Same:
			if v.Same++; !v.All {
				fold++
				continue
			}
			old[0].Changed, now[0].Changed = false, false
			row.Class = "same"
		case pins.Added:
			v.Added++
			old, row.Class, row.Sign, row.Word = nil, "lost", "+", "added"
		case pins.Removed:
			v.Removed++
			now, row.Class, row.Sign, row.Word = nil, "lost", "−", "removed"
		case pins.Changed:
			v.Changed++
			old, now = pins.Words(x.Old, x.New)
			row.Class, row.Sign, row.Word = "lost", "~", "changed"
		}
		for _, part := range now {
			if part.Changed {
				v.Invisible += countInvisible(part.Text)
			}
		}
		if shown++; shown > mostRows {
			continue
		}
		flush()
		if old != nil {
			row.Old = exact(old, "del", v.All)
		}
		if now != nil {
			row.New = exact(now, "ins", v.All)
		}
		v.Rows = append(v.Rows, row)
	}
	flush()
	switch {
	case all == nil:
		v.Why = "The definition is too long to show, so nobody can review it here."
	case shown > mostRows:
		v.Why = "The definition has more values than this page shows, so it can't be approved here."
	}
}

// decide approves or rejects the change that the form names.
func (p *heldPages) decide(w http.ResponseWriter, r *http.Request) {
	if !p.frame.parsed(w, r) {
		return
	}
	number, state := r.PostForm.Get("number"), map[string]pins.State{"approve": pins.Approved, "reject": pins.Rejected}[r.PostForm.Get("do")]
	if state == "" || number == "" {
		p.frame.fail(w, r, &pageError{Status: http.StatusBadRequest, Title: "The form can't be read", Text: "Load the page of the change again.", Next: Crumb{"Show all reviews", heldPath}})
		return
	}
	type decision struct {
		done admin.PinDecided
		bad  *admin.Problem
		err  error // the change isn't there
	}
	answer, _ := p.forms.once(r, number, func() any {
		h, err := p.find(r)
		if err != nil {
			return decision{err: err}
		}
		q := admin.PinDecision{Server: h.Server, Item: h.Item, SHA256: r.PostForm.Get("sha256")}
		done, bad := p.source.DecidePin(r.Context(), stateOf(r).viewer.who.Subject, q, state)
		return decision{done: done, bad: bad}
	})
	x, known := answer.(decision)
	_, gone := p.find(r)
	switch {
	case known && x.err == nil && x.bad == nil:
		name := held{admin.PinChange{Item: x.done.Item}}.Name()
		say(w, strings.TrimSpace(excerpt.Line(name, 100)+" of "+excerpt.Line(x.done.Server, 64)+" is "+x.done.State+". "+x.done.Note))
		http.Redirect(w, r, heldPath, http.StatusSeeOther)
	case gone != nil:
		var e *pageError
		if errors.As(gone, &e) {
			e.Status, e.Title, e.Text = http.StatusConflict, "Nothing has been decided", "The definition has changed again since you looked at it, or somebody has decided about it."
		}
		p.frame.fail(w, r, gone)
	default:
		why := &admin.Problem{Status: http.StatusConflict, Title: "This form was sent before", Detail: "Look at the definition, and decide again."}
		if x.bad != nil {
			why = x.bad
		}
		p.frame.again(w, r, p.reviewPage(), func(r *http.Request) (*View, error) {
			view, err := p.review(r, why.Error())
			if view != nil {
				view.Status = why.Status
			}
			return view, err
		})
	}
}

// heldNeeds returns a need for each server with changed definitions that wait for a decision.
func heldNeeds(all admin.Pins) (out []need) {
	at := map[string]int{}
	for _, x := range all.Changes {
		if x.Rejected {
			continue
		}
		i, known := at[x.Server]
		if !known {
			i = len(out)
			at[x.Server] = i
			out = append(out, need{Class: "held", Word: "Review", Who: x.Server, Path: held{x}.Path(), Since: x.Since, weight: 2})
		}
		n, it := &out[i], excerpt.Cut(x.Item, 100)
		n.Count++
		n.What = "has changed " + plural(n.Count, "definition")
		title := "Review change"
		if n.Count > 1 {
			it, title, n.Path = "them", "Review changes", heldPath
		}
		n.Buttons = []button{{Title: title, Path: n.Path}}
		if n.Sentence = "Clients can't use " + it + " until somebody approves the change"; !x.Held {
			n.Sentence = "Clients use " + it + " as described now, and nobody has approved that"
		}
		if x.Since.Before(n.Since) {
			n.Since = x.Since
		}
	}
	return out
}

// exact returns a text from a peer as HTML that hides nothing: what nobody can see is a box with its code point, and so
// is what could stand above or below the line. What has changed is in elements with the name tag. If whole is false, the
// middle of a long part that hasn't changed is left out.
func exact(parts []pins.Part, tag string, whole bool) template.HTML {
	w := exactWriter{}
	w.WriteString("<bdi>")
	for _, x := range parts {
		switch runes := []rune(x.Text); {
		case x.Changed:
			w.WriteString("<" + tag + ">")
			w.text(x.Text, true)
			w.WriteString("</" + tag + ">")
		case !whole && len(runes) > 3*foldEnd && utf8.ValidString(x.Text):
			w.text(string(runes[:foldEnd]), false)
			fmt.Fprintf(&w, `<span class="faint"> … %s the same … </span>`, plural(len(runes)-2*foldEnd, "character"))
			w.text(string(runes[len(runes)-foldEnd:]), false)
		default:
			w.text(x.Text, false)
		}
	}
	w.WriteString("</bdi>")
	return template.HTML(w.String())
}

// foldEnd is how many characters are shown on each side of what is left out.
const foldEnd = 200

// exactWriter writes text for exact.
type exactWriter struct {
	strings.Builder
	before rune
	marks  int // combining marks since the last other character
}

// text writes a part. In one that has changed, line breaks and tabs have boxes too, and so have the spaces if there is
// nothing else in it.
func (w *exactWriter) text(text string, changed bool) {
	blank := changed && strings.Trim(text, " ") == ""
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		char, n := text[:size], 1
		for text = text[size:]; strings.HasPrefix(text, char); text = text[size:] {
			n++
		}
		label, name := labelOf(r)
		mark := unicode.In(r, unicode.Mn, unicode.Me)
		switch broken := r == utf8.RuneError && size == 1; {
		case broken:
			w.box(fmt.Sprintf("x%02X", char[0]), "a byte that is not UTF-8", n)
		case r == ' ' && blank:
			w.box("SP", "space", n)
		case r == '\n' || r == '\t':
			if changed {
				w.box(label, name, n)
			}
			if r == '\n' || !changed {
				w.WriteString(strings.Repeat(char, n))
			}
		case excerpt.Invisible(r, w.before):
			w.box(label, name, n)
		case mark:
			free := min(n, max(0, mostMarks-w.marks))
			w.WriteString(strings.Repeat(char, free))
			if n > free {
				w.box(fmt.Sprintf("U+%04X", r), "combining mark", n-free)
			}
			w.marks += n
		default:
			w.WriteString(strings.Repeat(template.HTMLEscapeString(char), n))
		}
		if w.before = r; !mark {
			w.marks = 0
		}
	}
}

// box writes the box of a character that stands there n times.
func (w *exactWriter) box(label, name string, n int) {
	if n > 1 {
		label = fmt.Sprintf("%s ×%s", label, number(n))
	}
	fmt.Fprintf(w, `<span class="inv" title="%s">%s</span>`, name, label)
}
