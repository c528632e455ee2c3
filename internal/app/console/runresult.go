package console

import (
	"bytes"
	"encoding/base64"
	"mime"
	"net/http"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
)

// mostParts is the maximum number of parts of a result that a page shows.
const mostParts = 50

// resultView shows the result of a run.
type resultView struct {
	Parts      []resultPart
	More       int     // the number of parts that the page does not show
	Structured message // the member structuredContent of the result; empty if the result has none
	Raw        message // the whole result, if it has none of the expected forms; otherwise empty
	Size       string  // the size of the whole result, as text
	Omitted    []admin.Omitted
	File       string // the path from which the user can download the result; "" if Dragoman did not keep it
}

// resultPart shows one part of a result.
type resultPart struct {
	ID      string
	Kind    string // "text", "image", "audio", "file", "link" or "other"
	Title   string // the heading, for example "Picture"
	Sub     string // type and size
	Role    string // the role of the sender, if the part is a message of a prompt; otherwise ""
	Text    message
	Src     string // the path from which the browser loads the part's data; "" if there is no usable data
	Name    string // the name and the URI of the resource, if known
	About   string // the description of the resource, if known
	Problem string // why the page cannot show the part's data; "" if it can
}

// pictures and sounds are the media types that a page can show or play. SVG is not among them,
// because an SVG file can contain scripts and links.
var (
	pictures = map[string]bool{"image/png": true, "image/jpeg": true, "image/gif": true, "image/webp": true, "image/avif": true, "image/bmp": true}
	sounds   = map[string]bool{"audio/wav": true, "audio/x-wav": true, "audio/wave": true, "audio/mpeg": true, "audio/mp3": true, "audio/ogg": true, "audio/webm": true, "audio/mp4": true, "audio/aac": true, "audio/flac": true}
)

// partsOf returns the parts of a result. These are the content of a tool's result, the contents of
// a resource, or the messages of a prompt. known is false if the result has none of these forms.
func partsOf(result []byte) (parts []jsonrpc.Value, known bool) {
	if jsonrpc.Valid(result, jsonrpc.Limits{}) != nil {
		return nil, false
	}
	v := jsonrpc.ValueOf(result)
	for _, key := range []string{"content", "contents", "messages"} {
		if list := v.Get(key); list.Kind() == '[' {
			for e := range list.Elements() {
				parts = append(parts, e)
			}
			return parts, true
		}
	}
	return nil, false
}

// resultOf converts the result of the run x for its page. If all is false, the page shows only the
// beginning of long text.
func resultOf(x *admin.Run, all bool) *resultView {
	out := &resultView{Omitted: x.Omitted, Size: bytesText(x.ResultBytes)}
	if len(x.Result) == 0 {
		return out
	}
	out.File = pathOf("runs", x.ID, "result.json")
	parts, known := partsOf(x.Result)
	for i, e := range parts {
		if i == mostParts {
			out.More = len(parts) - mostParts
			break
		}
		out.Parts = append(out.Parts, partOf(x.ID, i+1, e, all))
	}
	switch {
	case !known:
		out.Raw = messageOf(formatted(x.Result), all, "?all=1#result")
	default:
		if v := jsonrpc.ValueOf(x.Result).Get("structuredContent"); !v.Absent() {
			out.Structured = messageOf(formatted(v.Raw()), all, "?all=1#structured")
			out.Structured.Size = bytesText(len(v.Raw()))
		}
	}
	return out
}

func memberText(v jsonrpc.Value, key string, limit int) string {
	s, _ := v.Get(key).Text()
	return excerpt.Cut(jsonrpc.Shown(s), limit)
}

// blob is the data in one part of a result.
type blob struct {
	kind string // the declared media type, in lower case and without parameters
	text string // the text, if the part is a text resource; otherwise ""
	data string // in base64
	uri  string
}

// blobOf returns the data of a part of a result. ok is false if the part has no data.
func blobOf(e jsonrpc.Value) (b blob, ok bool) {
	if c := e.Get("content"); c.Kind() == '{' { // a message of a prompt
		e = c
	}
	if r := e.Get("resource"); r.Kind() == '{' {
		e = r
	}
	kind, _, _ := strings.Cut(strings.ToLower(memberText(e, "mimeType", 200)), ";")
	b.kind, b.uri = strings.TrimSpace(kind), memberText(e, "uri", 2<<10)
	if b.data, ok = e.Get("data").Text(); ok {
		return b, true
	}
	if b.data, ok = e.Get("blob").Text(); ok {
		return b, true
	}
	if b.uri != "" {
		b.text, ok = e.Get("text").Text()
	}
	return b, ok
}

// partOf converts part e of a run's result for the page. number is the number of the part,
// beginning with 1. If all is false, the page shows only the beginning of long text.
func partOf(run string, number int, e jsonrpc.Value, all bool) resultPart {
	p := resultPart{ID: "part-" + strconv.Itoa(number), Kind: "other", Role: memberText(e, "role", 40)}
	rest := "?all=1#" + p.ID
	whole := e
	if c := e.Get("content"); c.Kind() == '{' {
		e = c
	}
	kind := memberText(e, "type", 40)
	b, has := blobOf(whole)
	size := ""
	if has && b.text == "" {
		p.Src = pathOf("runs", run, "parts", strconv.Itoa(number))
		data, err := base64.StdEncoding.DecodeString(b.data)
		if size = bytesText(len(data)); err != nil {
			p.Src, p.Problem, size = "", "The data is not valid base64", bytesText(len(b.data))
		}
	}
	switch {
	case kind == "text":
		text, _ := e.Get("text").Text()
		p.Kind, p.Title, p.Sub = "text", "Text", bytesText(len(text))
		p.Text = messageOf(jsonrpc.Shown(text), all, rest)
	case has && pictures[b.kind]:
		p.Kind, p.Title, p.Sub = "image", "Picture", b.kind+", "+size
	case has && sounds[b.kind]:
		p.Kind, p.Title, p.Sub = "audio", "Audio", b.kind+", "+size
	case has && b.text != "":
		p.Kind, p.Title, p.Src = "text", "Text resource", pathOf("runs", run, "parts", strconv.Itoa(number))
		p.Sub = typed(b.kind, bytesText(len(b.text)))
		p.Text = messageOf(jsonrpc.Shown(b.text), all, rest)
	case has:
		p.Kind, p.Title, p.Sub = "file", "File", typed(b.kind, size)
	case kind == "resource_link":
		p.Kind, p.Title, p.Sub = "link", "Resource link", typed(memberText(e, "mimeType", 200), "")
		p.Name, p.About, b.uri = memberText(e, "name", 400), memberText(e, "description", 2<<10), memberText(e, "uri", 2<<10)
		if n, ok := e.Get("size").Int(); ok && n >= 0 && n < 1<<53 {
			p.Sub = typed(memberText(e, "mimeType", 200), bytesText(int(n)))
		}
	default:
		p.Title, p.Sub = "Unknown content", bytesText(len(whole.Raw()))
		p.Text = messageOf(formatted(whole.Raw()), all, rest)
	}
	if b.uri != "" {
		p.Name = strings.TrimSpace(p.Name + " " + b.uri)
	}
	return p
}

func typed(kind, size string) string {
	return strings.Trim(kind+", "+size, ", ")
}

// servePart handles GET /console/runs/ID/parts/N. It sends the data of one part of a result. It
// sends pictures and sounds of known media types with their type, so that a page can show them. It
// sends all other data as a download without a type, so that no browser runs the data.
func (p *runPages) servePart(w http.ResponseWriter, r *http.Request) {
	x, err := p.findRun(r)
	n, bad := strconv.Atoi(r.PathValue("part"))
	parts, _ := partsOf(x.Result)
	if err != nil || bad != nil || n < 1 || n > len(parts) {
		p.frame.fail(w, r, noPart(x.ID))
		return
	}
	b, ok := blobOf(parts[n-1])
	data, bad := base64.StdEncoding.DecodeString(b.data)
	if !ok || bad != nil {
		p.frame.fail(w, r, noPart(x.ID))
		return
	}
	how := "attachment"
	kind := "application/octet-stream"
	if b.text != "" {
		data = []byte(jsonrpc.Shown(b.text))
	} else if pictures[b.kind] || sounds[b.kind] {
		kind = b.kind
		if r.URL.Query().Get("download") == "" {
			how = "inline"
		}
	}
	h := w.Header()
	h.Set("Content-Type", kind)
	h.Set("Content-Disposition", mime.FormatMediaType(how, map[string]string{"filename": fileName(b, n)}))
	h.Set("Content-Security-Policy", "default-src 'none'; sandbox; frame-ancestors 'none'")
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
}

func noPart(run string) error {
	next := Crumb{"Show the run", pathOf("runs", run)}
	if run == "" {
		next = Crumb{"Show all tools", pathOf("tools")}
	}
	return notFound("The result has no file at this address", "The run has not ended, or this part of its result has no data.", next)
}

// fileName returns a file name for a download of part n, made of letters, digits and "-_.". If the
// resource's URI ends with a file name, the result is that name.
func fileName(b blob, n int) string {
	name := path.Base(strings.SplitN(b.uri, "?", 2)[0])
	name = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' || r == '.' {
			return r
		}
		return '_'
	}, name)
	name = strings.TrimLeft(name[max(0, len(name)-80):], "._-")
	if b.uri != "" && name != "" && strings.Contains(name, ".") {
		return name
	}
	ends := map[string]string{
		"image/png": ".png", "image/jpeg": ".jpg", "image/gif": ".gif", "image/webp": ".webp", "image/avif": ".avif", "image/svg+xml": ".svg", "image/bmp": ".bmp",
		"audio/wav": ".wav", "audio/x-wav": ".wav", "audio/wave": ".wav", "audio/mpeg": ".mp3", "audio/mp3": ".mp3", "audio/ogg": ".ogg", "audio/webm": ".webm", "audio/mp4": ".m4a", "audio/aac": ".aac", "audio/flac": ".flac",
		"application/pdf": ".pdf", "application/json": ".json", "text/plain": ".txt", "text/markdown": ".md", "text/csv": ".csv", "application/zip": ".zip", "application/gzip": ".gz",
	}
	end := ends[b.kind]
	if end == "" {
		end = ".bin"
		if b.text != "" {
			end = ".txt"
		}
	}
	return "result-" + strconv.Itoa(n) + end
}

// serveResult handles GET /console/runs/ID/result.json. It sends the whole result of a run as a
// file.
func (p *runPages) serveResult(w http.ResponseWriter, r *http.Request) {
	x, err := p.findRun(r)
	if err == nil && len(x.Result) == 0 {
		err = notFound("The run has no result", "The run has not ended, the run has failed, or the result is too large to keep.", Crumb{"Show the run", pathOf("runs", x.ID)})
	}
	if err != nil {
		p.frame.fail(w, r, err)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Disposition", `attachment; filename="run-`+x.ID+`.json"`)
	_, _ = w.Write(x.Result)
}
