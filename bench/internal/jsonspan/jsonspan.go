// Package jsonspan finds members of JSON text without decoding it.
//
// The package returns slices of the caller's bytes. It allocates and copies nothing, so that it
// takes little CPU time from the measured process. It checks the structure (quotes, brackets,
// commas, depth). It checks neither the format of numbers and literals nor UTF-8, because both ends
// of a measurement are programs of this module. It does not decode the escapes in keys. Only this
// module uses the package: Dragoman has its own scanner.
package jsonspan

import (
	"bytes"
	"errors"
)

// maxDepth is the maximum nesting depth. Deeper nesting is an error.
const maxDepth = 128

var (
	errSyntax = errors.New("jsonspan: not JSON")
	errDepth  = errors.New("jsonspan: nested too deeply")
	errType   = errors.New("jsonspan: not a value of the expected type")
)

// Members calls visit for each member of the object b, in order. key is the key without its quotes,
// and value is the value as written. Members returns an error if anything other than white space
// follows the object.
func Members(b []byte, visit func(key, value []byte)) error {
	i := space(b, 0)
	if i >= len(b) || b[i] != '{' {
		return errType
	}
	end, err := object(b, i, 0, visit)
	if err != nil {
		return err
	}
	if space(b, end) != len(b) {
		return errSyntax
	}
	return nil
}

// First returns the first element of the array b as written, or nil if the array is empty.
func First(b []byte) ([]byte, error) {
	i := space(b, 0)
	if i >= len(b) || b[i] != '[' {
		return nil, errType
	}
	if i = space(b, i+1); i < len(b) && b[i] == ']' {
		return nil, nil
	}
	end, err := value(b, i, 1)
	if err != nil {
		return nil, err
	}
	return b[i:end], nil
}

// Text returns the string b without its quotes. It does not decode escapes.
func Text(b []byte) ([]byte, error) {
	if len(b) < 2 || b[0] != '"' || b[len(b)-1] != '"' {
		return nil, errType
	}
	return b[1 : len(b)-1], nil
}

func object(b []byte, i, depth int, visit func(key, value []byte)) (int, error) {
	if depth >= maxDepth {
		return 0, errDepth
	}
	if i = space(b, i+1); i < len(b) && b[i] == '}' {
		return i + 1, nil
	}
	for {
		keyEnd, err := quoted(b, i)
		if err != nil {
			return 0, err
		}
		key := b[i+1 : keyEnd-1]
		if i = space(b, keyEnd); i >= len(b) || b[i] != ':' {
			return 0, errSyntax
		}
		start := space(b, i+1)
		end, err := value(b, start, depth+1)
		if err != nil {
			return 0, err
		}
		if visit != nil {
			visit(key, b[start:end])
		}
		if i = space(b, end); i >= len(b) {
			return 0, errSyntax
		}
		switch b[i] {
		case '}':
			return i + 1, nil
		case ',':
			i = space(b, i+1)
		default:
			return 0, errSyntax
		}
	}
}

func array(b []byte, i, depth int) (int, error) {
	if depth >= maxDepth {
		return 0, errDepth
	}
	if i = space(b, i+1); i < len(b) && b[i] == ']' {
		return i + 1, nil
	}
	for {
		end, err := value(b, i, depth+1)
		if err != nil {
			return 0, err
		}
		if i = space(b, end); i >= len(b) {
			return 0, errSyntax
		}
		switch b[i] {
		case ']':
			return i + 1, nil
		case ',':
			i = space(b, i+1)
		default:
			return 0, errSyntax
		}
	}
}

// value returns the index after the value that starts at b[i].
func value(b []byte, i, depth int) (int, error) {
	if i >= len(b) {
		return 0, errSyntax
	}
	switch b[i] {
	case '"':
		return quoted(b, i)
	case '{':
		return object(b, i, depth, nil)
	case '[':
		return array(b, i, depth)
	}
	end := i
	for end < len(b) && word(b[end]) {
		end++
	}
	if end == i {
		return 0, errSyntax
	}
	return end, nil
}

// quoted returns the index after the string that starts at b[i].
func quoted(b []byte, i int) (int, error) {
	if i >= len(b) || b[i] != '"' {
		return 0, errSyntax
	}
	for from := i + 1; ; {
		n := bytes.IndexByte(b[from:], '"')
		if n < 0 {
			return 0, errSyntax
		}
		quote := from + n
		slashes := 0
		for quote-1-slashes > i && b[quote-1-slashes] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			return quote + 1, nil
		}
		from = quote + 1
	}
}

func word(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '-' || c == '+' || c == '.'
}

func space(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\r' || b[i] == '\t') {
		i++
	}
	return i
}
