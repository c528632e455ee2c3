package excerpt

import "strings"

// form describes secrets that begin with a known prefix.
type form struct {
	prefix string
	bytes  *byteSet // the characters after the prefix
	least  int      // the smallest number of characters after the prefix
	exact  bool     // exactly least characters follow the prefix, and the next character is not part of a word
}

// The sets of characters in the known forms.
var (
	alnumBytes = bytesOf("A-Za-z0-9")
	upperBytes = bytesOf("A-Z0-9")
	slackBytes = bytesOf("A-Za-z0-9-")
	tokenBytes = bytesOf("A-Za-z0-9_-")
	lowerHex   = bytesOf("a-f0-9")
	anyHex     = bytesOf("a-fA-F0-9")
	titleBytes = bytesOf("A-Z ") // the title in the first line of a private key, such as RSA PRIVATE KEY
)

// forms has the known forms, indexed by the first byte of the prefix. No prefix is the beginning of
// another prefix.
var forms = formsOf(
	formsWith("ghp_ gho_ ghu_ ghs_ ghr_", alnumBytes, 20),
	formsWith("github_pat_", wordBytes, 20),
	formsWith("glpat-", tokenBytes, 16),
	formsWith("sk- sk_ pk- pk_", tokenBytes, 16),
	formsWith("xoxa- xoxb- xoxe- xoxp- xoxr- xoxs-", slackBytes, 10),
	[]form{{"AKIA", upperBytes, 16, true}, {"ASIA", upperBytes, 16, true}},
	formsWith("AIza", tokenBytes, 30),
	formsWith("npm_", alnumBytes, 30),
	formsWith("hf_ ntn_", alnumBytes, 20),
	formsWith("tvly-", slackBytes, 16),
	formsWith("ya29.", tokenBytes, 20),
	formsWith("dop_v1_", lowerHex, 32),
	formsWith("drgk_", tokenBytes, 32), // our own
	formsWith("shpat_ shpca_ shppa_ shpss_", anyHex, 20),
)

func formsWith(prefixes string, bytes *byteSet, least int) (out []form) {
	for _, p := range strings.Fields(prefixes) {
		out = append(out, form{prefix: p, bytes: bytes, least: least})
	}
	return out
}

func formsOf(groups ...[]form) *[256][]form {
	var out [256][]form
	for _, g := range groups {
		for _, f := range g {
			out[f.prefix[0]] = append(out[f.prefix[0]], f)
		}
	}
	return &out
}

// formStarts has the first bytes of all forms, and of a signed token.
var formStarts = func() *byteSet {
	set := bytesOf("e")
	for c := range forms {
		set[c] = set[c] || len(forms[c]) > 0
	}
	return set
}()

// These are the fixed parts of the first and the last line of a private key.
const (
	keyBegin  = "-----BEGIN "
	keyEnd    = "-----END "
	keyTitle  = "PRIVATE KEY"
	keyDashes = "-----"
)

// formFinder finds secrets by their form in one text: well-known key prefixes, signed tokens and
// private keys. Its time is linear in the length of the text, because a search that fails ends
// after a few characters, and the finder examines the characters of a possible signed token only
// once.
type formFinder struct {
	// runEnd is the end of the run of token characters that the finder examined last. tokenEnd is
	// the end of a signed token that begins in this run, or 0 if the characters after the run are
	// not the rest of a signed token.
	runEnd, tokenEnd int
	steps            int // how many characters skip has examined; only the tests use it
}

// next returns the first secret that begins at or after the offset from. from must not decrease
// from one call to the next.
func (f *formFinder) next(s string, from int) (p part, ok bool) {
	for at := from; at < len(s); {
		c := s[at]
		end := 0
		switch {
		case c == '-':
			end = f.privateKey(s, at)
		case !formStarts[c] || !boundary(s, at):
		case c == 'e':
			end = f.signedToken(s, at)
		default:
			end = f.withPrefix(s, at)
		}
		if end > 0 {
			return part{value: at, end: end}, true
		}
		if at++; wordBytes[c] {
			at = wordBytes.skip(s, at) // no secret begins within a word
		}
	}
	return p, false
}

// skip does the same as byteSet.skip, and adds the number of examined characters to steps.
func (f *formFinder) skip(set *byteSet, s string, at int) int {
	end := set.skip(s, at)
	f.steps += end - at + 1
	return end
}

// withPrefix returns the end of the secret with a known prefix that begins at the offset at. It
// returns 0 if there is none.
func (f *formFinder) withPrefix(s string, at int) int {
	for i := range forms[s[at]] {
		form := &forms[s[at]][i]
		if !strings.HasPrefix(s[at:], form.prefix) {
			continue
		}
		first := at + len(form.prefix)
		least := first + form.least
		if f.skip(form.bytes, s[:min(least, len(s))], first) < least {
			return 0
		}
		if !form.exact {
			return f.skip(form.bytes, s, least)
		}
		if least < len(s) && wordBytes[s[least]] {
			return 0
		}
		return least
	}
	return 0
}

// These are the minimum lengths of the first two parts of a signed token.
const (
	leastHead = len("ey") + 10
	leastBody = 8
)

// signedToken returns the end of the signed token that begins at the offset at. It returns 0 if
// there is none.
func (f *formFinder) signedToken(s string, at int) int {
	if !strings.HasPrefix(s[at:], "ey") {
		return 0
	}
	if at >= f.runEnd {
		f.runEnd, f.tokenEnd = f.skip(tokenBytes, s, at), 0
		if body := f.runEnd + 1; f.runEnd < len(s) && s[f.runEnd] == '.' {
			end := f.skip(tokenBytes, s, body)
			if end-body >= leastBody && end < len(s) && s[end] == '.' {
				f.tokenEnd = f.skip(tokenBytes, s, end+1)
			}
		}
	}
	if f.runEnd-at < leastHead {
		return 0
	}
	return f.tokenEnd
}

// privateKey returns the end of the private key that begins at the offset at. The last line of the
// key may be missing. The result is 0 if there is no private key.
func (f *formFinder) privateKey(s string, at int) int {
	from := f.keyLine(s, at, keyBegin)
	if from == 0 {
		return 0
	}
	end := strings.IndexByte(s[from:], '-')
	if end < 0 {
		return len(s)
	}
	if last := f.keyLine(s, from+end, keyEnd); last > 0 {
		return last
	}
	return from + end
}

// keyLine returns the end of the first or the last line of a private key. The line begins at the
// offset at with the text begin. keyLine returns 0 if there is no such line.
func (f *formFinder) keyLine(s string, at int, begin string) int {
	if !strings.HasPrefix(s[at:], begin) {
		return 0
	}
	at += len(begin)
	end := f.skip(titleBytes, s, at)
	if !strings.HasSuffix(s[at:end], keyTitle) || !strings.HasPrefix(s[end:], keyDashes) {
		return 0
	}
	return end + len(keyDashes)
}
