package tokens

import (
	"strconv"
	"unicode/utf8"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
)

// The number of characters in one token, by class.
const (
	lettersPerToken = 12
	digitsPerToken  = 3
	signsPerToken   = 3
)

// class is a kind of character. Consecutive characters of one class are counted together.
type class int

const (
	space class = iota
	letter
	digit
	sign
	other // any character beyond ASCII
)

func classOf(r rune) class {
	switch {
	case r == ' ' || r >= '\t' && r <= '\r':
		return space
	case r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z':
		return letter
	case r >= '0' && r <= '9':
		return digit
	case r < utf8.RuneSelf:
		return sign
	}
	return other
}

// Text estimates the number of tokens of a text, such as instructions or JSON.
func Text[T string | []byte](text T) int {
	n, run, last := 0, 0, space
	end := func() {
		switch last {
		case letter:
			n += (run + lettersPerToken - 1) / lettersPerToken
		case digit:
			n += (run + digitsPerToken - 1) / digitsPerToken
		case sign:
			n += (run + signsPerToken - 1) / signsPerToken
		case other:
			n += run
		}
		run = 0
	}
	for _, r := range string(text) {
		c := classOf(r)
		if c != last {
			end()
			last = c
		}
		run++
	}
	end()
	return n
}

// Tool estimates the number of tokens of one item of tools/list: its name, its description and its
// inputSchema. It does not count members that clients do not give to a model, such as annotations
// and outputSchema. If the item is not an object, Tool returns 0.
func Tool(raw []byte, tool jsonrpc.Span) int {
	if jsonrpc.KindOf(raw, tool) != '{' {
		return 0
	}
	n := 0
	for _, key := range []string{"name", "description", "inputSchema"} {
		if v := jsonrpc.Find(raw, tool, key); !v.IsZero() {
			n += Text(`,"`+key+`":`) + Text(v.Of(raw))
		}
	}
	return n
}

// About rounds an estimate to two significant digits and formats it for people, such as "about
// 1,900 tokens". Numbers below 100 are rounded to tens.
func About(n int) string {
	step := 10
	for n/step >= 100 {
		step *= 10
	}
	n = (n + step/2) / step * step
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return "about " + s + " tokens"
}
