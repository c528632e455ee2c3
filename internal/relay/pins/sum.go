package pins

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
)

// Sum is the SHA-256 of a definition.
type Sum [sha256.Size]byte

// SumOf returns the hash of a definition. The members of its objects are sorted, because some servers write
// them in another order each time. Strings and numbers count as they were sent: two strings that look alike
// need not mean the same to a model.
func SumOf(raw []byte) Sum {
	return sha256.Sum256(appendSorted(make([]byte, 0, len(raw)), raw, jsonrpc.Whole(raw)))
}

// String returns the hash in hexadecimal digits.
func (s Sum) String() string { return hex.EncodeToString(s[:]) }

// ParseSum reads the result of Sum.String.
func ParseSum(text string) (s Sum, ok bool) {
	b, err := hex.DecodeString(text)
	return Sum(append(b, make([]byte, len(s))...)[:len(s)]), err == nil && len(b) == len(s)
}

// appendSorted appends a JSON value without white space and with the members of its objects sorted.
func appendSorted(dst, raw []byte, at jsonrpc.Span) []byte {
	sep := ""
	switch jsonrpc.KindOf(raw, at) {
	case '{':
		dst = append(dst, '{')
		for _, m := range sorted(raw, at) {
			dst = append(append(append(dst, sep...), m.Key.Of(raw)...), ':')
			dst = appendSorted(dst, raw, m.Value)
			sep = ","
		}
		return append(dst, '}')
	case '[':
		dst = append(dst, '[')
		for e := range jsonrpc.Elements(raw, at) {
			dst = appendSorted(append(dst, sep...), raw, e)
			sep = ","
		}
		return append(dst, ']')
	}
	return append(dst, at.Of(raw)...)
}

func sorted(raw []byte, at jsonrpc.Span) []jsonrpc.Member {
	all := slices.AppendSeq(make([]jsonrpc.Member, 0, 8), jsonrpc.Members(raw, at))
	slices.SortStableFunc(all, func(a, b jsonrpc.Member) int { return bytes.Compare(a.Key.Of(raw), b.Key.Of(raw)) })
	return all
}
