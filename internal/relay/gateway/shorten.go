package gateway

import (
	"fmt"
	"unicode/utf8"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/catalog"
)

// Shortener shortens the results of tools that are longer than a project wants. A nil Shortener does nothing.
type Shortener struct {
	Kept *Results   // has the whole results, of all projects
	Most func() int // bytes of content; 0 means no limit
}

// read makes the request one for a result that is kept, if it is one. shows says what the client may see: who may not
// use the tool any more can't read what it has said.
func (s *Shortener) read(r *route, project string, shows func(kind catalog.Kind, server, name string) bool) bool {
	if s == nil || r.Msg.Method != mcp.MethodReadResource {
		return false
	}
	kept := s.Kept.find(r.Name, ownedBy(project, r.Client))
	if kept == nil {
		return false
	}
	kind := catalog.KindTool
	if kept.tool == "" {
		kind = catalog.KindServer
	}
	if !shows(kind, kept.server, kept.tool) {
		return false
	}
	r.own = func() (*mcp.Reply, error) { return mcp.Answer(kept.body), nil }
	r.server, r.Server = nil, ""
	return true
}

// shorten returns the answer to a call with the beginning of its content, and a link to the whole, if it's too long.
func (x runner) shorten(r *route, reply *mcp.Reply) *mcp.Reply {
	if x.shortener == nil || reply == nil || x.instead != nil || reply.Asks || reply.Msg.Kind != jsonrpc.Result {
		return reply
	}
	most := x.shortener.Most()
	if most == 0 || len(reply.Msg.Raw) <= most {
		return reply
	}
	raw, result := reply.Msg.Raw, reply.Msg.Result
	kept := &keptResult{owner: ownedBy(x.project, r.Client), server: r.Server, uri: newURI()}
	switch r.Msg.Method {
	case mcp.MethodCallTool:
		kept.tool = r.Name
	case mcp.MethodTaskResult:
	case mcp.MethodGetTask: // modern tasks have their result there
		result = jsonrpc.Find(raw, result, "result")
	default:
		return reply
	}
	if n := jsonrpc.Find(raw, result, "structuredContent"); n.End-n.Start > most {
		reply.Losses.Add("limits.result.structuredContent", fmt.Sprintf("structuredContent has %d bytes, more than limits.result, but is sent whole: a part of it would not match the tool's schema", n.End-n.Start))
	}
	s := shortening{raw: raw, content: jsonrpc.Find(raw, result, "content")}
	size := 0
	for block := range jsonrpc.Elements(raw, s.content) {
		_, what := movable(raw, block)
		size += what.End - what.Start
	}
	if size <= most {
		return reply
	}
	kept.body = s.whole(kept.uri)
	link := x.shortener.Kept.keep(kept)
	s.cut(most, size, kept.uri, link)
	s.edits.AddAll(reply.Edits)
	// The codecs may turn a link into text, so they must find it in the message.
	m, err := mcp.Rewrite(r.Trail, reply.Msg, &s.edits)
	if err != nil {
		return reply
	}
	out := *reply
	out.Msg, out.Edits = m, jsonrpc.EditList{}
	why := fmt.Sprintf("the result has %d bytes of content, more than limits.result; the client got its beginning, and the whole is at %s for %s", size, kept.uri, keptText)
	if !link {
		why = fmt.Sprintf("the result has %d bytes of content, more than limits.result and too many to keep, so the client got its beginning", size)
	}
	out.Losses.Add("limits.result", why)
	return &out
}

const keptText = "10 minutes"

// shortening is the work on one result.
type shortening struct {
	raw     []byte
	content jsonrpc.Span
	edits   jsonrpc.Edits
}

// movable returns the kind of a block of content, and what of it counts and can be elsewhere: a text, an image, a sound
// or an embedded resource. Other blocks are short, and stay.
func movable(raw []byte, block jsonrpc.Span) (kind string, what jsonrpc.Span) {
	kind, _ = jsonrpc.Text(raw, jsonrpc.Find(raw, block, "type"))
	switch kind {
	case "text":
		what = jsonrpc.Find(raw, block, "text")
	case "image", "audio":
		what = jsonrpc.Find(raw, block, "data")
	case "resource":
		if what = jsonrpc.Find(raw, block, "resource"); jsonrpc.KindOf(raw, what) == '{' {
			return kind, what
		}
		return kind, jsonrpc.Span{}
	}
	if jsonrpc.KindOf(raw, what) != '"' {
		return kind, jsonrpc.Span{}
	}
	return kind, what
}

// whole returns the result of resources/read for the content. No value in it is written anew.
func (s *shortening) whole(uri string) []byte {
	out := make([]byte, 0, s.content.End-s.content.Start+256)
	out = append(out, `{"contents":[`...)
	first := true
	for block := range jsonrpc.Elements(s.raw, s.content) {
		kind, what := movable(s.raw, block)
		if what.IsZero() {
			continue
		}
		if !first {
			out = append(out, ',')
		}
		if first = false; kind == "resource" {
			out = append(out, what.Of(s.raw)...)
			continue
		}
		out = jsonrpc.AppendQuote(append(out, `{"uri":`...), uri)
		mime := jsonrpc.Find(s.raw, block, "mimeType")
		switch {
		case kind == "text":
			out = append(out, `,"mimeType":"text/plain","text":`...)
		case mime.IsZero():
			out = append(out, `,"blob":`...)
		default:
			out = append(append(append(out, `,"mimeType":`...), mime.Of(s.raw)...), `,"blob":`...)
		}
		out = append(append(out, what.Of(s.raw)...), '}')
	}
	return append(out, "]}"...)
}

// cut leaves the first bytes of the content, size bytes in all, in place. Then follow a sentence and a link, if the
// whole can be read.
func (s *shortening) cut(most, size int, uri string, link bool) {
	note := fmt.Sprintf("[Dragoman has shortened this result, which has %d bytes. The rest of it was too long to keep.]", size)
	if link {
		note = fmt.Sprintf("[Dragoman has shortened this result, which has %d bytes. Read the resource %s within %s to get all of it.]", size, uri, keptText)
	}
	left, over, end := most, false, 0
	for block := range jsonrpc.Elements(s.raw, s.content) {
		before := end
		end = block.End
		kind, what := movable(s.raw, block)
		switch n := what.End - what.Start; {
		case n <= left && !over, what.IsZero():
			left -= n
			continue
		case over: // with the comma before it
			s.edits.Replace(mcp.WhyShortened, jsonrpc.Span{Start: before, End: end}, nil)
			continue
		}
		over = true
		if kind != "text" {
			s.edits.Replace(mcp.WhyShortened, block, append(jsonrpc.AppendQuote([]byte(`{"type":"text","text":`), note), '}'))
		} else {
			inside := jsonrpc.Span{Start: what.Start + 1, End: what.End - 1}
			at := cutAt(s.raw, inside, left)
			if at > inside.Start {
				note = `\n` + note
			}
			s.edits.Replace(mcp.WhyShortened, jsonrpc.Span{Start: at, End: inside.End}, []byte(note))
		}
		if link {
			to := jsonrpc.AppendQuote([]byte(`,{"type":"resource_link","uri":`), uri)
			to = fmt.Appendf(to, `,"name":"whole_result","title":"The whole result","description":"All of the result, for %s","size":%d}`, keptText, size)
			s.edits.Insert(mcp.WhyShortened, end, to)
		}
	}
}

// cutAt returns where to cut the inside of a JSON string, so that at most n bytes are left of it, at the end of a line if
// there is one in the second half. It never cuts a character or an escape.
func cutAt(raw []byte, inside jsonrpc.Span, n int) int {
	at, line := inside.Start, 0
	for at < inside.End {
		size := 1
		switch c := raw[at]; {
		case c == '\\' && raw[at+1] == 'u':
			size = 6
			if (raw[at+2]|0x20) == 'd' && raw[at+3] >= '8' && raw[at+6] == '\\' && raw[at+7] == 'u' { // half of a character
				size = 12
			}
		case c == '\\':
			size = 2
		case c >= utf8.RuneSelf:
			_, size = utf8.DecodeRune(raw[at:inside.End])
		}
		if at+size > inside.Start+n {
			break
		}
		if at += size; size == 2 && raw[at-2] == '\\' && raw[at-1] == 'n' {
			line = at
		}
	}
	if line > inside.Start+n/2 {
		return line
	}
	return at
}
