package otlp

import (
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
	"time"

	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/dragoman-mcp/dragoman/internal/app/telemetry"
	"github.com/dragoman-mcp/dragoman/internal/base/spans"
)

// TestSpans writes a call with everything that a span can have, and reads it with the official types.
func TestSpans(t *testing.T) {
	var all []*spans.Span
	tracer := (&spans.Tracer{Sink: func(s *spans.Span) { all = append(all, s) }}).For("shop")
	s := tracer.Start(spans.ParseContext("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "a=1", "k=v"))
	s.Name, s.Link = "tools/call star\x00", spans.ParseContext("00-11111111111111111111111111111111-2222222222222222-01", "", "")
	leg, _ := s.Leg()
	leg.Name = "tools/call star"
	leg.Fail("-32602")
	leg.End()
	s.Set(spans.Text("dragoman.server", "gh"), spans.Text("gen_ai.tool.name", "the password is swordfish, and Authorization: Bearer abcdefghijklmnopqrstuvwxyz"), spans.Int("dragoman.queue_ms", 1500))
	for range 40 {
		s.Event("dragoman.loss", spans.Text("dragoman.loss.what", "icons"))
	}
	s.End()
	tracer.Start(spans.Context{}).End()
	clean := func(project, server string) func(string) string {
		return func(text string) string {
			return strings.ReplaceAll(text, "swordfish", project+"/"+server)
		}
	}
	b := telemetry.AppendSpans(nil, []spans.Attr{spans.Text("service.name", "dragoman")}, "1.2.3", all, clean)

	// An ExportTraceServiceRequest has the same form as a TracesData.
	var got trace.TracesData
	if err := proto.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	noUnknown(t, got.ProtoReflect())
	r := got.ResourceSpans[0]
	if scope := r.ScopeSpans[0]; r.Resource.Attributes[0].Value.GetStringValue() != "dragoman" || scope.Scope.Version != "1.2.3" || scope.SchemaUrl == "" || len(scope.Spans) != 3 {
		t.Fatalf("%v", &got)
	}
	out, in, alone := r.ScopeSpans[0].Spans[0], r.ScopeSpans[0].Spans[1], r.ScopeSpans[0].Spans[2]
	if hex.EncodeToString(in.TraceId) != "0af7651916cd43dd8448eb211c80319c" || hex.EncodeToString(in.ParentSpanId) != "b7ad6b7169203331" || in.TraceState != "a=1" || in.Flags != 0x301 || in.Kind != trace.Span_SPAN_KIND_SERVER || in.Status != nil {
		t.Errorf("%v", in)
	}
	if string(out.ParentSpanId) != string(in.SpanId) || string(out.TraceId) != string(in.TraceId) || out.Flags != 0x101 || out.Kind != trace.Span_SPAN_KIND_CLIENT || out.Status.GetCode() != trace.Status_STATUS_CODE_ERROR || out.Name != "tools/call star" {
		t.Errorf("%v", out)
	}
	if len(alone.ParentSpanId) != 0 || alone.Flags != 0x103 || len(alone.TraceId) != 16 || len(alone.SpanId) != 8 {
		t.Errorf("%v", alone)
	}
	attrs := map[string]string{}
	for _, a := range in.Attributes {
		attrs[a.Key] = a.Value.GetStringValue() + fmt.Sprint(a.Value.GetIntValue())
	}
	if want := (map[string]string{"dragoman.server": "gh0", "gen_ai.tool.name": "the password is shop/gh, and Authorization: Bearer ***0", "dragoman.queue_ms": "1500", "dragoman.project": "shop0"}); fmt.Sprint(attrs) != fmt.Sprint(want) {
		t.Errorf("%v", attrs)
	}
	at := time.Unix(0, int64(in.StartTimeUnixNano))
	if took := time.Since(at); took < 0 || took > time.Minute || in.EndTimeUnixNano < in.StartTimeUnixNano || in.Events[0].TimeUnixNano < in.StartTimeUnixNano {
		t.Errorf("%v", in)
	}
	if len(in.Events) != 32 || in.DroppedEventsCount != 8 || in.Events[0].Name != "dragoman.loss" || in.Events[0].Attributes[0].Value.GetStringValue() != "icons" {
		t.Errorf("%d events, %d dropped: %v", len(in.Events), in.DroppedEventsCount, in.Events[0])
	}
	if hex.EncodeToString(in.Links[0].SpanId) != "2222222222222222" || in.Links[0].Flags != 0x301 || strings.Contains(in.Name, "\x00") {
		t.Errorf("%v", in)
	}
}

// noUnknown checks that a message has no field that its type doesn't have.
func noUnknown(t *testing.T, m protoreflect.Message) {
	t.Helper()
	if len(m.GetUnknown()) > 0 {
		t.Errorf("%s has unknown fields: %x", m.Descriptor().FullName(), m.GetUnknown())
	}
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.IsList() && f.Message() != nil:
			for i := range v.List().Len() {
				noUnknown(t, v.List().Get(i).Message())
			}
		case f.Message() != nil && !f.IsMap():
			noUnknown(t, v.Message())
		}
		return true
	})
}
