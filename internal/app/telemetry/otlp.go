package telemetry

import (
	"slices"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/spans"
)

// The numbers below are field numbers of opentelemetry/proto/trace/v1/trace.proto and its siblings, which are stable
// since OTLP 1.0. test/otlp decodes what we write with the types that are generated from these files.

// schemaURL says which version of the semantic conventions our attributes follow. Those for MCP are still in
// development there.
const schemaURL = "https://opentelemetry.io/schemas/1.41.0"

// maxTraceText is the maximum length of a name or a text in a span.
const maxTraceText = 256

// AppendSpans appends an ExportTraceServiceRequest with the spans to dst. resource describes this process. clean
// returns a function that masks the secrets of a server in what servers and clients say; both may be nil.
func AppendSpans(dst []byte, resource []spans.Attr, version string, all []*spans.Span, clean func(project, server string) func(string) string) []byte {
	var scope []byte
	scope = message(scope, 1, text(text(nil, 1, "github.com/dragoman-mcp/dragoman"), 2, version))
	for _, s := range all {
		scope = message(scope, 2, appendSpan(nil, s, clean))
	}
	scope = text(scope, 3, schemaURL)
	one := message(nil, 1, attributes(nil, 1, resource, nil))
	one = message(one, 2, scope)
	return message(dst, 1, one)
}

func appendSpan(b []byte, s *spans.Span, clean func(project, server string) func(string) string) []byte {
	c := s.Content()
	mask := maskFor(s.Project(), c.Attrs, clean)
	b = message(b, 1, s.Trace[:])
	b = message(b, 2, s.Context.Span[:])
	b = text(b, 3, s.State)
	if s.Parent != [8]byte{} {
		b = message(b, 4, s.Parent[:])
	}
	b = text(b, 5, mask(s.Name))
	b = number(b, 6, uint64(s.Kind))
	b = nanos(b, 7, s.Start)
	b = nanos(b, 8, c.End)
	b = attributes(b, 9, append(c.Attrs[:len(c.Attrs):len(c.Attrs)], spans.Text("dragoman.project", s.Project())), mask)
	for _, e := range c.Events {
		b = message(b, 11, attributes(text(nanos(nil, 1, e.Time), 2, e.Name), 3, e.Attrs, mask))
	}
	if c.Lost > 0 {
		b = number(b, 12, uint64(c.Lost))
	}
	if !s.Link.IsZero() {
		link := text(message(message(nil, 1, s.Link.Trace[:]), 2, s.Link.Span[:]), 3, s.Link.State)
		b = message(b, 13, flags(link, 6, s.Link.Flags, true))
	}
	if c.Failed {
		b = message(b, 15, number(nil, 3, 2)) // STATUS_CODE_ERROR, without a message: it would be the peer's text
	}
	return flags(b, 16, s.Flags, s.Remote)
}

// maskFor returns the function that masks and shortens the texts of a span: with the secrets of its server, which the
// attributes name.
func maskFor(project string, attrs []spans.Attr, clean func(project, server string) func(string) string) func(string) string {
	var own func(string) string
	if clean != nil {
		server := ""
		if i := slices.IndexFunc(attrs, func(a spans.Attr) bool { return a.Key == "dragoman.server" }); i >= 0 {
			server = attrs[i].Text
		}
		own = clean(project, server)
	}
	return func(s string) string {
		if own != nil {
			s = own(s)
		}
		return excerpt.Line(excerpt.MaskSecrets(s), maxTraceText)
	}
}

// attributes appends one field for each attribute. mask may be nil.
func attributes(b []byte, field protowire.Number, all []spans.Attr, mask func(string) string) []byte {
	for _, a := range all {
		var value []byte
		switch {
		case a.Text == "":
			value = number(nil, 3, uint64(a.Int))
		case mask != nil:
			value = text(nil, 1, mask(a.Text))
		default:
			value = text(nil, 1, a.Text)
		}
		b = message(b, field, message(text(nil, 1, a.Key), 2, value))
	}
	return b
}

func message(b []byte, field protowire.Number, body []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), body)
}

func text(b []byte, field protowire.Number, s string) []byte {
	if s == "" {
		return b
	}
	return protowire.AppendString(protowire.AppendTag(b, field, protowire.BytesType), s)
}

func number(b []byte, field protowire.Number, n uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), n)
}

func nanos(b []byte, field protowire.Number, t time.Time) []byte {
	return protowire.AppendFixed64(protowire.AppendTag(b, field, protowire.Fixed64Type), uint64(t.UnixNano()))
}

// flags appends the W3C flags, and whether the parent is in another process.
func flags(b []byte, field protowire.Number, w3c byte, remote bool) []byte {
	const hasRemote, isRemote = 0x100, 0x200
	n := uint32(w3c) | hasRemote
	if remote {
		n |= isRemote
	}
	return protowire.AppendFixed32(protowire.AppendTag(b, field, protowire.Fixed32Type), n)
}

// rejected returns how many spans an ExportTraceServiceResponse says that the collector has refused, and why. A
// collector that has accepted all sends an empty message.
func rejected(b []byte) (n int64, why string) {
	partial := fields(b)[1]
	in := fields(partial.bytes)
	return int64(in[1].number), string(in[2].bytes)
}

type field struct {
	number uint64
	bytes  []byte
}

// fields returns the last value of each field of a message, and nil if it isn't a message.
func fields(b []byte) map[protowire.Number]field {
	out := map[protowire.Number]field{}
	for len(b) > 0 {
		num, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return nil
		}
		b = b[n:]
		var f field
		switch kind {
		case protowire.VarintType:
			f.number, n = protowire.ConsumeVarint(b)
		case protowire.BytesType:
			f.bytes, n = protowire.ConsumeBytes(b)
		default:
			n = protowire.ConsumeFieldValue(num, kind, b)
		}
		if n < 0 {
			return nil
		}
		out[num], b = f, b[n:]
	}
	return out
}
