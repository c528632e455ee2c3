package jsonrpc

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// callOf returns a tools/call of about size bytes. It has some short members, a long text, and
// the _meta that 2026-07-28 requires if there is room for it.
func callOf(size int) []byte {
	meta := `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
		`"io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1.0.0"},` +
		`"io.modelcontextprotocol/clientCapabilities":{"elicitation":{},"sampling":{}}},`
	if size < 512 {
		meta = ""
	}
	head := `{"jsonrpc":"2.0","id":4711,"method":"tools/call","params":{` + meta +
		`"name":"create_issue","arguments":{"owner":"octo","repo":"hello","labels":["bug","help wanted"],"priority":2,"draft":false,"body":"`
	tail := `"}}}`
	text := "The quick brown fox jumps over the lazy dog. "
	n := size - len(head) - len(tail)
	return []byte(head + strings.Repeat(text, n/len(text)+1)[:n] + tail)
}

// denseOf returns a result of about size bytes that consists of brackets, names and short
// values only.
func denseOf(size int) []byte {
	var b bytes.Buffer
	b.WriteString(`{"jsonrpc":"2.0","id":"a1","result":{"tools":[`)
	for i := 0; b.Len() < size-200; i++ {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"name":"tool_%d","description":"Does %d.","inputSchema":{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"integer","minimum":0}},"required":["a"]}}`, i, i)
	}
	b.WriteString(`]}}`)
	return b.Bytes()
}

var sizes = []struct {
	name string
	n    int
}{{"256B", 256}, {"1KiB", 1 << 10}, {"64KiB", 64 << 10}}

func names(b []byte) (string, bool) {
	if string(b) == "tools/call" {
		return "tools/call", true
	}
	return "", false
}

func BenchmarkScan(b *testing.B) {
	run := func(name string, raw []byte) {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(raw)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Scan(raw, Limits{Names: names}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	for _, size := range sizes {
		run(size.name, callOf(size.n))
	}
	for _, size := range sizes[1:] {
		run("dense-"+size.name, denseOf(size.n))
	}
	wide := strings.Repeat("世界、こんにちは。", 64<<10/27)
	run("wide-64KiB", []byte(`{"jsonrpc":"2.0","method":"x","params":{"t":"`+wide+`"}}`))
}

func BenchmarkFind(b *testing.B) {
	for _, size := range sizes {
		raw := callOf(size.n)
		m, err := Scan(raw, Limits{})
		if err != nil {
			b.Fatal(err)
		}
		b.Run(size.name, func(b *testing.B) {
			b.SetBytes(int64(len(raw)))
			b.ReportAllocs()
			for b.Loop() {
				if s := m.Param("absent"); !s.IsZero() {
					b.Fatal(s)
				}
			}
		})
	}
}

func BenchmarkSplice(b *testing.B) {
	id := []byte(`"17-4711"`)
	version := []byte(`"2025-11-25"`)
	for _, size := range sizes {
		raw := callOf(size.n)
		m, err := Scan(raw, Limits{})
		if err != nil {
			b.Fatal(err)
		}
		dst := make([]byte, 0, len(raw)+256)
		b.Run(size.name, func(b *testing.B) {
			b.SetBytes(int64(len(raw)))
			b.ReportAllocs()
			for b.Loop() {
				var e Edits
				e.Replace(NoReason, m.IDAt, id)
				e.Object(NoReason, raw, m.Params, func(key []byte) bool { return string(key) == "_meta" },
					Field{"name", version}, Field{"added", version})
				dst = Splice(dst[:0], raw, &e)
			}
		})
	}
}
