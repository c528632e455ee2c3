package tape

import (
	"fmt"
	"maps"
	"math/big"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// Difference is one deviation of a peer from the tape.
type Difference struct {
	Where string // which message, and the path in the message
	Tape  string // the value on the tape; "" if the tape has none
	Live  string // the value that the peer sent; "" if the peer sent none
}

// furtherDifferences is the last Difference of a replay that has more than maxDifferences.
var furtherDifferences = Difference{Where: fmt.Sprintf("further differences are not shown; the limit is %d", maxDifferences)}

func (d Difference) String() string {
	switch {
	case d == furtherDifferences:
		return d.Where
	case d.Live == "":
		return fmt.Sprintf("%s: the recording has %s, the peer has nothing", d.Where, excerpt.Cut(d.Tape, maxShown))
	case d.Tape == "":
		return fmt.Sprintf("%s: the recording has nothing, the peer has %s", d.Where, excerpt.Cut(d.Live, maxShown))
	}
	return fmt.Sprintf("%s: the recording has %s, the peer has %s", d.Where, excerpt.Cut(d.Tape, maxShown), excerpt.Cut(d.Live, maxShown))
}

// chosen contains the members whose values a peer chooses freely. If two such values are equal on
// the tape, the values of the peer must be equal too.
var chosen = map[string]bool{
	"progressToken": true, "requestId": true, "requestState": true, "cursor": true, "nextCursor": true,
	"taskId": true, "elicitationId": true, "sessionId": true, "eventId": true,
	mcp.KeySubscriptionID: true,
}

// passing contains the members that identify a program or a trace. Their values are compared only
// if Options.Strict is set.
var passing = map[string]bool{
	"clientInfo": true, "serverInfo": true, mcp.KeyClientInfo: true, mcp.KeyServerInfo: true,
	"traceparent": true, "tracestate": true, "baggage": true,
}

// bonds maps values on the tape to values of this peer, and back. Two values on the tape never map
// to the same value of the peer.
type bonds struct {
	live map[string]string // this peer's values, by the kind and the value on the tape
	tape map[string]string
}

func newBonds() *bonds { return &bonds{live: map[string]string{}, tape: map[string]string{}} }

func (b *bonds) copy() *bonds { return &bonds{live: maps.Clone(b.live), tape: maps.Clone(b.tape)} }

// tie reports whether the value live of the peer may correspond to the value tape on the tape. If
// it may, tie records the two values as a pair.
func (b *bonds) tie(kind, tape, live string) bool {
	t, l := kind+" "+tape, kind+" "+live
	was, ok := b.live[t]
	is, taken := b.tape[l]
	if ok || taken {
		return ok && taken && was == live && is == tape
	}
	b.live[t], b.tape[l] = live, tape
	return true
}

// comparison compares one message of the tape with one message of a peer.
type comparison struct {
	tape, live []byte
	strict     bool
	bonds      *bonds
	out        []Difference
}

// maxDifferences is the maximum number of differences that a replay reports. If there are more, the
// last Difference says so.
const maxDifferences = 50

// maxShown is the maximum length, in bytes, of each of the two values in the text of a difference.
const maxShown = 200

func (c *comparison) differ(where, tape, live string) {
	if len(c.out) <= maxDifferences { // one more than the replay reports shows that there are more
		c.out = append(c.out, Difference{where, tape, live})
	}
}

// bondOf returns the kind of a member's value. Members of the same kind share their pairs in bonds.
func bondOf(key string) string {
	switch key {
	case "progressToken", "requestId":
		return "token"
	case "cursor", "nextCursor":
		return "cursor"
	}
	return key
}

func (c *comparison) values(where, key string, t, l jsonrpc.Span) {
	tk, lk := jsonrpc.KindOf(c.tape, t), jsonrpc.KindOf(c.live, l)
	tape, live := string(t.Of(c.tape)), string(l.Of(c.live))
	if chosen[key] && (tk == '"' || tk == '0') && (lk == '"' || lk == '0') {
		if !c.bonds.tie(bondOf(key), canonical(c.tape, t), canonical(c.live, l)) {
			c.differ(where, tape, live)
		}
		return
	}
	if tk != lk {
		c.differ(where, tape, live)
		return
	}
	switch tk {
	case '{':
		c.objects(where, key, t, l)
	case '[':
		c.arrays(where, t, l)
	case '"':
		a, _ := jsonrpc.Text(c.tape, t)
		b, _ := jsonrpc.Text(c.live, l)
		if a != b && !sameButSecret(a, b) && (c.strict || !bothTimes(a, b)) {
			c.differ(where, tape, live)
		}
	default:
		if tape != live && !sameNumber(tape, live) {
			c.differ(where, tape, live)
		}
	}
}

// objects compares two objects. name is the name of the member that contains them.
func (c *comparison) objects(where, name string, t, l jsonrpc.Span) {
	// Only members of the protocol are skipped. A tool's arguments and results may use the same
	// names for other values.
	skip := func(key string) bool {
		return passing[key] && !c.strict && (name == "params" || name == "result" || name == mcp.KeyMeta)
	}
	live := map[string]jsonrpc.Span{}
	for m := range jsonrpc.Members(c.live, l) {
		key, _ := jsonrpc.Text(c.live, m.Key)
		live[key] = m.Value
	}
	taped := map[string]bool{}
	for m := range jsonrpc.Members(c.tape, t) {
		key, _ := jsonrpc.Text(c.tape, m.Key)
		taped[key] = true
		switch at, there := live[key]; {
		case skip(key):
		case there:
			c.values(where+"."+key, key, m.Value, at)
		default:
			c.differ(where+"."+key, string(m.Value.Of(c.tape)), "")
		}
	}
	for m := range jsonrpc.Members(c.live, l) {
		key, _ := jsonrpc.Text(c.live, m.Key)
		if !taped[key] && !skip(key) {
			c.differ(where+"."+key, "", string(m.Value.Of(c.live)))
		}
	}
}

func (c *comparison) arrays(where string, t, l jsonrpc.Span) {
	var live []jsonrpc.Span
	for e := range jsonrpc.Elements(c.live, l) {
		live = append(live, e)
	}
	n := 0
	for e := range jsonrpc.Elements(c.tape, t) {
		inner := fmt.Sprintf("%s[%d]", where, n)
		if n < len(live) {
			c.values(inner, "", e, live[n])
		} else {
			c.differ(inner, string(e.Of(c.tape)), "")
		}
		n++
	}
	for ; n < len(live); n++ {
		c.differ(fmt.Sprintf("%s[%d]", where, n), "", string(live[n].Of(c.live)))
	}
}

// canonical returns the same text for equal ids or tokens. For example, 1 and 1.0 are equal, but 1
// and "1" are not.
func canonical(raw []byte, at jsonrpc.Span) string {
	if s, ok := jsonrpc.Text(raw, at); ok {
		return "s" + s
	}
	if n, ok := jsonrpc.Int(raw, at); ok {
		return fmt.Sprintf("n%d", n)
	}
	return "n" + string(at.Of(raw))
}

// sameNumber reports whether two different texts represent the same number. It returns false for
// texts with an exponent or with more than 60 bytes, because comparing such numbers could take too
// long.
func sameNumber(a, b string) bool {
	if len(a) > 60 || len(b) > 60 || strings.ContainsAny(a+b, "eE") {
		return false
	}
	x, ok := new(big.Rat).SetString(a)
	y, fine := new(big.Rat).SetString(b)
	return ok && fine && x.Cmp(y) == 0
}

// sameButSecret reports whether the texts differ only where the tape has a placeholder for a
// secret.
func sameButSecret(tape, live string) bool {
	parts := inText().Split(tape, -1)
	if len(parts) == 1 {
		return false
	}
	rest, ok := strings.CutPrefix(live, parts[0])
	if !ok {
		return false
	}
	for _, p := range parts[1 : len(parts)-1] {
		_, after, found := strings.Cut(rest, p)
		if !found {
			return false
		}
		rest = after
	}
	return strings.HasSuffix(rest, parts[len(parts)-1])
}

func bothTimes(a, b string) bool {
	_, err := time.Parse(time.RFC3339, a)
	_, err2 := time.Parse(time.RFC3339, b)
	return err == nil && err2 == nil
}
