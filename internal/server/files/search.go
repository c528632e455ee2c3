package files

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"regexp"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/pattern"
	"github.com/dragoman-mcp/dragoman/internal/server/tools"
)

// Limits of one search.
const (
	foundUsual   = 100
	foundMost    = 1000
	searchMost   = 1_000_000        // the maximum number of entries that a search examines
	searchTime   = 50 * time.Second // the maximum duration of a search; shorter than the usual timeout of a client
	searchDepth  = 64               // the maximum depth of folders below the searched folder
	linesPerFile = 5                // the maximum number of lines of one file in the result
	searchLine   = 1 << 20          // the maximum number of bytes of a line that one match searches
	searchSteps  = 20_000_000       // the maximum number of steps of one match, which takes less than a second
	clockSteps   = 10_000_000       // the number of steps after which a search checks the time
	sortMost     = 20_000           // the number of names after which a search sorts and examines them
	progressStep = 500 * time.Millisecond
)

type searchIn struct {
	Path          string `json:"path,omitempty" jsonschema:"The folder to search. The default is everything that the server may use."`
	Pattern       string `json:"pattern,omitempty" jsonschema:"A name: a glob such as *.md, or with a slash for the path below the folder, such as **/test/*.go. A word without * ? [ { matches every name that contains it."`
	Content       string `json:"content,omitempty" jsonschema:"A text that a file must contain. Binary files are skipped."`
	Regex         bool   `json:"regex,omitempty" jsonschema:"content is a regular expression (RE2), matched in each line."`
	CaseSensitive bool   `json:"case_sensitive,omitempty" jsonschema:"Distinguish capital and small letters. The default is not to."`
	Type          string `json:"type,omitempty" jsonschema:"Return only entries of this type."`
	Hidden        bool   `json:"hidden,omitempty" jsonschema:"Also search names that begin with a dot."`
	MaxResults    int    `json:"max_results,omitempty" jsonschema:"The most entries in the answer. The default is 100."`
}

type searchOut struct {
	Results  []result `json:"results"`
	Searched int      `json:"searched" jsonschema:"How many entries were looked at."`
	Skipped  int      `json:"skipped,omitempty" jsonschema:"How many files and folders were not searched because they are binary, not readable or too deep."`
	Complete bool     `json:"complete" jsonschema:"The search saw everything. If false, stopped is the reason."`
	Stopped  string   `json:"stopped,omitempty" jsonschema:"Why the search stopped early, and what to do."`
}

// result is one entry that a search found.
type result struct {
	Path     string    `json:"path"`
	Type     string    `json:"type"`
	Size     int64     `json:"size,omitempty"`
	Modified string    `json:"modified,omitempty"`
	Lines    []matched `json:"lines,omitempty" jsonschema:"The first lines that match content."`
}

// matched is one line of a file that matches the content of the search.
type matched struct {
	Line int64  `json:"line" jsonschema:"The number of the line; the first is 1."`
	Text string `json:"text" jsonschema:"The part of the line around the match."`
}

func (s *Server) addSearch() {
	add(s, tool{
		name: "search_files", title: "Search files", long: true,
		description: "Find files and folders below a folder, by name, by content, or both. Symlinks are not followed. If the search stops at a limit, the answer says so. Then use a smaller folder or a narrower pattern.",
		restrictIn: func(p map[string]*jsonschema.Schema) {
			tools.Range(p["max_results"], 1, foundMost)
			words(p["type"], typeFile, typeFolder, typeSymlink)
		},
	}, s.search)
}

// search is the state of one call of search_files.
type search struct {
	*Server
	ctx      context.Context
	in       searchIn
	name     func(rel string) bool
	content  *pattern.Pattern // nil if the search does not look at content
	steps    int64            // the number of steps of matches since the last check of the time
	out      searchOut
	deadline time.Time
	report   func(done int, message string)
}

// errStopped ends a search that has reached a limit.
var errStopped = errors.New("stopped")

func (s *Server) search(ctx context.Context, req *mcp.CallToolRequest, in searchIn) (*mcp.CallToolResult, searchOut, error) {
	if in.Pattern == "" && in.Content == "" {
		return nil, searchOut{}, refuse("set pattern, content or both; list_dir lists a folder", "the search has neither pattern nor content")
	}
	at, all, err := s.find(in.Path)
	if err != nil {
		return nil, searchOut{}, err
	}
	run := &search{Server: s, ctx: ctx, in: in, deadline: s.now().Add(searchTime), report: s.progress(ctx, req), out: searchOut{Results: []result{}}}
	if run.in.MaxResults == 0 {
		run.in.MaxResults = foundUsual
	}
	if run.name, err = matcher(in.Pattern, in.CaseSensitive); err != nil {
		return nil, searchOut{}, err
	}
	if run.content, err = contentExpr(in); err != nil {
		return nil, searchOut{}, err
	}
	places := []place{at}
	if all {
		places = nil
		for _, r := range s.roots {
			places = append(places, place{root: r, rel: ".", name: r.name})
		}
	}
	for _, p := range places {
		dir, err := s.folder(p)
		if err != nil {
			return nil, searchOut{}, err
		}
		err = run.folder(p, dir, "", 0)
		_ = dir.Close()
		if errors.Is(err, errStopped) {
			return nil, run.out, nil
		}
		if err != nil {
			return nil, searchOut{}, s.failed("search", p, err)
		}
	}
	run.out.Complete = true
	return nil, run.out, nil
}

// contentExpr returns the expression that a line must match, or nil if the search does not look at
// content.
func contentExpr(in searchIn) (*pattern.Pattern, error) {
	if in.Content == "" {
		return nil, nil
	}
	if len(in.Content) > maxPattern {
		return nil, refuse("use a shorter text", "content has %d bytes, and the limit is %d", len(in.Content), maxPattern)
	}
	expr := in.Content
	if !in.Regex {
		expr = regexp.QuoteMeta(expr)
	}
	if !in.CaseSensitive {
		expr = "(?i)" + expr
	}
	re, err := pattern.Compile(expr)
	if errors.Is(err, pattern.ErrTooLarge) {
		return nil, refuse("use a shorter expression with fewer repetitions, such as .* instead of .{0,999}", "the regular expression in content is too large")
	}
	if err != nil {
		return nil, refuse("correct it, or set regex to false to search for the text itself", "content is not a regular expression in RE2 syntax: %s", excerpt.Line(err.Error(), 200))
	}
	return re, nil
}

// folder searches one folder. rel is the path of this folder relative to the folder where the
// search began.
func (r *search) folder(at place, dir *os.Root, rel string, depth int) error {
	var names []string
	each := func() error {
		slices.Sort(names)
		for _, n := range names {
			if err := r.entry(at.child(r.Server, n), dir, n, path.Join(rel, n), depth); err != nil {
				return err
			}
		}
		names = names[:0]
		return nil
	}
	err := eachName(dir, func(group []string) error {
		for _, n := range group {
			if (r.in.Hidden || n[0] != '.') && !isUndo(n) && utf8.ValidString(n) {
				names = append(names, n)
			}
		}
		if len(names) >= sortMost {
			return each()
		}
		return nil
	})
	if err == nil {
		err = each()
	}
	if err == nil || errors.Is(err, errStopped) || r.ctx.Err() != nil || depth == 0 {
		return err
	}
	r.out.Skipped++ // the folder is not readable, or somebody deleted it
	return nil
}

// entry examines one entry of a folder. If the entry is a folder, entry also searches that folder.
func (r *search) entry(at place, dir *os.Root, name, rel string, depth int) error {
	if err := r.ctx.Err(); err != nil {
		return err
	}
	r.out.Searched++
	r.report(r.out.Searched, at.name)
	if r.out.Searched > searchMost {
		return r.stopped(fmt.Sprintf("The search looked at %d entries. Search a smaller folder.", searchMost))
	}
	if r.out.Searched%256 == 0 && r.late() {
		return r.outOfTime()
	}
	e, err := describe(dir, name)
	if err != nil {
		return nil // the entry was deleted meanwhile
	}
	if r.spend(pattern.MaxSize * int64(len(rel))) {
		return r.outOfTime()
	}
	if (r.in.Type == "" || r.in.Type == e.Type) && r.name(rel) {
		found := result{Path: at.name, Type: e.Type, Size: e.Size, Modified: e.Modified}
		ok := r.content == nil
		if !ok && e.Type == typeFile {
			if found.Lines, err = r.lines(at, dir, name); err != nil {
				return err
			}
			ok = len(found.Lines) > 0
		}
		if ok {
			if len(r.out.Results) == r.in.MaxResults {
				return r.stopped(fmt.Sprintf("There are more than %d results. Narrow pattern or path, or raise max_results.", r.in.MaxResults))
			}
			r.out.Results = append(r.out.Results, found)
		}
	}
	if e.Type != typeFolder {
		return nil
	}
	if depth == searchDepth {
		r.out.Skipped++
		return nil
	}
	sub, err := dir.OpenRoot(name + string(os.PathSeparator) + ".")
	if err != nil {
		r.out.Skipped++
		return nil
	}
	defer func() { _ = sub.Close() }()
	return r.folder(at, sub, rel, depth+1)
}

func (r *search) stopped(why string) error {
	r.out.Stopped = why
	return errStopped
}

// late checks the time, and reports whether the deadline of the search has passed.
func (r *search) late() bool {
	r.steps = 0
	return r.now().After(r.deadline)
}

// spend counts steps of matches, and checks the time whenever it has counted clockSteps steps. It
// reports whether the deadline of the search has passed.
func (r *search) spend(steps int64) bool {
	r.steps += steps
	return r.steps >= clockSteps && r.late()
}

func (r *search) outOfTime() error {
	return r.stopped(fmt.Sprintf("The search took %s. Search a smaller folder.", searchTime))
}

// lines returns the first lines of a file that match, at most linesPerFile. It skips files that are
// not text.
func (r *search) lines(at place, dir *os.Root, name string) ([]matched, error) {
	f, _, err := r.regular(place{root: &root{dir: dir}, rel: name, name: at.name})
	if err != nil {
		r.out.Skipped++
		return nil, nil
	}
	defer func() { _ = f.Close() }()
	head, err := headOf(f)
	if err != nil {
		r.out.Skipped++
		return nil, nil
	}
	cs := charsetOf(head, len(head) < headSize)
	if cs.name == "" {
		r.out.Skipped++
		return nil, nil
	}
	if _, err := f.Seek(int64(cs.bom), io.SeekStart); err != nil {
		return nil, nil
	}
	var found []matched
	var line []byte
	number := int64(1)
	most := min(searchLine, searchSteps/r.content.Size()) // the maximum bytes of one match, because a running match cannot be stopped
	in := bufio.NewReaderSize(f, min(64<<10, most))
	for {
		if err := r.ctx.Err(); err != nil {
			return nil, err
		}
		part, end, err := nextPart(in, cs, line[:0], most)
		line = part
		if text, ok := cs.decode(part); ok {
			if span := r.content.Regexp().FindStringIndex(text); span != nil {
				found = append(found, matched{Line: number, Text: around(text, span)})
				if len(found) == linesPerFile {
					return found, nil
				}
			}
		}
		if err != nil {
			return found, nil // the file has ended, or cannot be read any more
		}
		if end {
			number++
		}
		if r.spend(r.content.Cost(len(part))) {
			return found, r.outOfTime()
		}
	}
}

// nextPart returns the next line, including its line end. If the line is longer than the limit
// most, nextPart returns only a part of the line. This part exceeds the limit by at most the size
// of in's buffer. end is true if the part ends with a line end.
func nextPart(in *bufio.Reader, cs charset, line []byte, most int) (_ []byte, end bool, err error) {
	for len(line) < most || int64(len(line))%cs.unit() != 0 {
		part, err := in.ReadSlice('\n')
		line = append(line, part...)
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if err != nil {
			return line, false, err
		}
		if cs.unit() == 1 {
			return line, true, nil
		}
		if len(line)%2 != 0 { // the byte is the first half of a UTF-16 code unit
			b, err := in.ReadByte()
			if err != nil {
				return line, false, err
			}
			line = append(line, b)
		}
		if cs.order().Uint16(line[len(line)-2:]) == '\n' {
			return line, true, nil
		}
	}
	return line, false, nil
}

// around returns the part of a line that surrounds a match.
func around(text string, span []int) string {
	const before, most = 60, 240
	text = string(bytes.TrimRight([]byte(text), "\r\n"))
	from := 0
	if len(text) > most {
		from = max(0, min(span[0], len(text))-before)
		for from > 0 && from < len(text) && !utf8.RuneStart(text[from]) {
			from--
		}
	}
	cut := excerpt.Cut(text[from:], most)
	if from > 0 {
		cut = "…" + cut
	}
	return cut
}

// progress returns a function that reports the progress of a call to the client, at most twice a
// second. The function does nothing if the client did not ask for progress.
func (s *Server) progress(ctx context.Context, req *mcp.CallToolRequest) func(done int, message string) {
	token := req.Params.GetProgressToken()
	if token == nil {
		return func(int, string) {}
	}
	var last time.Time
	return func(done int, message string) {
		if now := s.now(); now.Sub(last) >= progressStep {
			last = now
			_ = req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: token, Progress: float64(done), Message: excerpt.Cut(message, 200)})
		}
	}
}
