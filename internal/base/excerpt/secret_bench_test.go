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
