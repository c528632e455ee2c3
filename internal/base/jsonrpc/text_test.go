package jsonrpc

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestRuneLen compares runeLen with unicode/utf8. It tries every first and second byte, the
// boundaries of the third and fourth, and any number of remaining bytes.
func TestRuneLen(t *testing.T) {
	edges := []byte{0x00, 0x7f, 0x80, 0xbf, 0xc0, 0xff}
	for first := 0x80; first <= 0xff; first++ {
		for second := range 256 {
			for _, third := range edges {
				for _, fourth := range edges {
					b := []byte{byte(first), byte(second), third, fourth}
					for n := 1; n <= len(b); n++ {
						r, want := utf8.DecodeRune(b[:n])
						if r == utf8.RuneError && want == 1 {
							want = 0
						}
						if got := runeLen(b[:n]); got != want {
							t.Fatalf("% x: %d, want %d", b[:n], got, want)
						}
					}
				}
			}
		}
	}
}

// TestTextBytes tries every byte at every offset within the eight bytes that the scanner reads
// together.
func TestTextBytes(t *testing.T) {
	for c := range 256 {
		for before := range 18 {
			for after := range 18 {
				b := []byte{'"'}
				for range before {
					b = append(b, 'a')
				}
				b = append(b, byte(c))
				for range after {
					b = append(b, '~')
				}
				b = append(b, '"')
				got := Valid(b, Limits{}) == nil
				// A backslash is never valid here, because no escape follows it. A quote ends
				// the string too early.
				if want := ' ' <= c && c < 0x80 && c != '"' && c != '\\'; got != want {
					t.Fatalf("%q: %v", b, got)
				}
				if end := skipText(b, 0); c != '"' && c != '\\' && end != len(b) {
					t.Fatalf("%q: ends at %d", b, end)
				}
			}
		}
	}
}

// TestSkipTextEscapes tries runs of backslashes before a quote, near and far from the string's
// start.
func TestSkipTextEscapes(t *testing.T) {
	for before := range 80 {
		for slashes := range 10 {
			for after := range 40 {
				s := `"` + strings.Repeat("a", before) + strings.Repeat(`\\`, slashes) + `\"` + strings.Repeat("b", after) + `\\`
				b := []byte(s + `","c"`)
				if end := skipText(b, 0); end != len(s)+1 {
					t.Fatalf("%s: %d, want %d", b, end, len(s)+1)
				}
				if end := skipText([]byte(s), 0); end != -1 {
					t.Fatalf("%s: %d, want -1", s, end)
				}
			}
		}
	}
}

// TestStops checks the lowest stop for every pair of bytes at every place.
func TestStops(t *testing.T) {
	stop := func(c byte) bool { return c < ' ' || c == '"' || c == '\\' || c >= 0x80 }
	for at := range 7 {
		for pair := range 1 << 16 {
			b := []byte("abcdefgh")
			b[at], b[at+1] = byte(pair), byte(pair>>8)
			want := slices.IndexFunc(b, stop)
			if want < 0 {
				want = 8
			}
			if got := bits.TrailingZeros64(stops(binary.LittleEndian.Uint64(b))) >> 3; got != want {
				t.Fatalf("%q: got %d, want %d", b, got, want)
			}
		}
	}
}

// TestLongTexts puts each byte at each place of a long text, so that it meets every stride of the scan.
func TestLongTexts(t *testing.T) {
	plain := bytes.Repeat([]byte("0123456789ghijkl"), 16) // none of them makes an escape of a backslash
	for at := range plain {
		for c := range 1 << 8 {
			text := append(append([]byte{'"'}, plain...), '"')
			text[1+at] = byte(c)
			err := Valid(text, Limits{})
			ok := c >= ' ' && c != '"' && c != '\\' && c < 0x80
			if (err == nil) != ok {
				t.Fatalf("0x%02x at %d: %v", c, at, err)
			}
		}
	}
}
