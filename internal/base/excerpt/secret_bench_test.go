package excerpt

import (
	"fmt"
	"strings"
	"testing"
)

// largeResult returns a tool result of about size bytes. If escaped is true, the result is JSON
// within a JSON string.
func largeResult(size int, escaped bool) string {
	var b strings.Builder
	for i := 0; b.Len() < size; i++ {
		fmt.Fprintf(&b, `{"id": %d, "name": "item %d", "path": "/home/me/src/a-package/file_%d.go", "createdAt": "2026-11-22T10:%02d:00Z", "url": "https://example.com/items/%d?page=2&sort=name", "token_count": "17", "note": "the keys of a map are sorted: see issue 12; max=10000000"},`, i, i, i, i%60, i)
	}
	inner := "[" + b.String() + "{}]"
	if !escaped {
		return `{"content":[],"structuredContent":` + inner + `}`
	}
	return `{"content":[{"type":"text","text":"` + strings.ReplaceAll(inner, `"`, `\"`) + `"}]}`
}

// BenchmarkSecrets measures MaskSecrets for large texts of several kinds.
func BenchmarkSecrets(b *testing.B) {
	for name, text := range map[string]string{
		"json":    largeResult(800_000, false),
		"escaped": largeResult(800_000, true),
		"prose":   strings.Repeat("The server reads the file and returns its lines, as in step 7: nothing else happens.\n", 9500),
		"base64":  `{"data":"` + strings.Repeat("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAA", 9500) + `"}`,
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				MaskSecrets(text)
			}
		})
	}
}

// BenchmarkKnown measures MaskKnown for large texts that contain none of five secrets.
func BenchmarkKnown(b *testing.B) {
	clean := MaskKnown([]string{"hunter2-and-more", "ghp_abcdefghijklmnopqrstuvwx", "p@ss word/22?", "a8f5f167f44f4964e6c998dee827110c", "Bearer 0123456789abcdef"})
	for name, text := range map[string]string{
		"line":    "level=INFO msg=\"reading the file\" path=/home/me/src/main.go took=12ms",
		"json":    largeResult(800_000, false),
		"escaped": largeResult(800_000, true),
		"percent": strings.Repeat("GET /items?name=a%20b%2Fc&x=%7B%7D HTTP/1.1\n", 18_000),
		"hostile": strings.Repeat(`%25\\&#38;`, 80_000),
		"base64":  `{"data":"` + strings.Repeat("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAA", 9500) + `"}`,
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				clean(text)
			}
		})
	}
}

// BenchmarkNewKnown measures NewKnown for five secrets.
func BenchmarkNewKnown(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		NewKnown([]string{"hunter2-and-more", "ghp_abcdefghijklmnopqrstuvwx", "p@ss word/22?", "a8f5f167f44f4964e6c998dee827110c", "Bearer 0123456789abcdef"})
	}
}
