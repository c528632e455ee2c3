package bridge

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// stateTTL is the lifetime of a sealed state.
const (
	stateTTL    = 10 * time.Minute
	sealedStart = "drg1."
	stateHead   = 8 + 1 // bytes of the expiry time and the kind; the number of the call follows
	hasPlace    = 0x80  // added to a kind: after the number of the call stands the process that must continue it
)

var errState = &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "requestState is not valid for this request"}

// seal encrypts the server's requestState. Open accepts the result only for the same seat,
// server, method and parameters, and only for ten minutes (2026-07-28 §MRTR, "Server Requirements"
// 4 and 5). States of servers must be sealed too: a server sees one credential for many users, so
// only Dragoman can distinguish the users.
func (b *Bridge) seal(u Server, a *mcp.Attempt, reply *mcp.Reply) (*mcp.Reply, error) {
	at := reply.Msg.ResultMember("requestState")
	if at.IsZero() {
		return reply, nil
	}
	text, err := b.mint(u, a.Call, sealKind('S', a.Agreed), at.Of(reply.Msg.Raw))
	if err != nil {
		return nil, err
	}
	reply.Edits.Replace(mcp.WhyState, at, jsonrpc.AppendQuote(nil, text))
	return reply, nil
}

// mint creates a sealed state. kind says what inner contains: a server's state ('S', empty for
// none), the id of a parked call ('P'), nothing ('U'), a question of Dragoman's own with the
// answers before it ('A'), all answers of a call that still has to wait ('W'), or a server's state with
// answers from elsewhere ('E'); see sealKind.
func (b *Bridge) mint(u Server, c *mcp.Call, kind byte, inner []byte) (string, error) {
	k, err := b.keyring().Newest(ForStates)
	if err != nil {
		return "", err
	}
	aead, err := k.sealer()
	if err != nil {
		return "", err
	}
	plain := binary.BigEndian.AppendUint64(make([]byte, 0, stateHead+2*binary.MaxVarintLen64+len(inner)), uint64(time.Now().Add(stateTTL).Unix()))
	place := anchor
	if kind == 'P' || kind >= 'a' {
		place = b.mark(anchor) // the parked call, or the memory of the states that have been used, is here
	}
	if place == anchor {
		plain = binary.AppendUvarint(append(plain, kind), c.Number)
	} else {
		plain = binary.AppendUvarint(append(plain, kind|hasPlace), c.Number)
		plain = append(binary.AppendUvarint(plain, uint64(len(place))), place...)
	}
	plain = append(plain, inner...)
	sealed := aead.Seal(bytes.Clone(k.ID[:]), nil, plain, binding(u, c))
	return sealedStart + base64.RawURLEncoding.EncodeToString(sealed), nil
}

// sealKind returns the kind of a state for mint. If the state is good for one use, the kind is in
// lower case.
func sealKind(kind byte, once bool) byte {
	if once {
		kind += 'a' - 'A'
	}
	return kind
}

// Resume is the content of a retry's requestState. The zero value means that the request
// has no state.
type Resume struct {
	kind  byte // see the parameter kind of mint; always in upper case
	once  bool // the state is good for one use
	inner []byte
	call  uint64 // number of the call that received the state
	id    stateID
}

// stateID identifies a sealed state by its hash.
type stateID [sha256.Size]byte

// Resumed reports whether the request is a retry after a request for input. If the request for input
// was Dragoman's own, the call hasn't been sent to the server yet.
func (r Resume) Resumed() bool { return r.kind != 0 }

// Parked reports whether the retry goes on with a call that waits at its server.
func (r Resume) Parked() bool { return r.kind == 'P' }

// Begun reports whether the retry goes on with a call that an earlier request has begun: one that is parked at its
// server, or about which Dragoman itself has asked. A retry with a state of the server's own is another request to it.
// So is one that may come more than once, or it would be free.
func (r Resume) Begun() bool { return r.kind == 'P' || r.once && (r.kind == 'A' || r.kind == 'W') }

// Agreed reports whether the state is good for one use, because a person has agreed to the call or is
// just being asked.
func (r Resume) Agreed() bool { return r.once }

// Open returns the content of a call's requestState, or the zero Resume if the call has none. It
// does not reserve the state; see takeState. An error means that the state was changed, has
// expired, is no longer known, or belongs to another client or request. It wraps a
// *transport.Elsewhere if the state is one that only another process can continue.
func (b *Bridge) Open(u Server, c *mcp.Call) (Resume, error) {
	if !c.Client.Revision.Can(mcp.InputRequired) {
		return Resume{}, nil
	}
	res, err := b.open(u, c)
	if err != nil && errors.Is(err, error(errState)) {
		b.publishRefusal(c, u.Name())
	}
	return res, err
}

func (b *Bridge) open(u Server, c *mcp.Call) (Resume, error) {
	var none Resume
	if c.Method == nil || !c.Method.MayAsk {
		return none, nil // this method does not use requestState in the client's revision
	}
	at := c.Msg.Param("requestState")
	if at.IsZero() {
		return none, nil
	}
	text, ok := jsonrpc.Text(c.Msg.Raw, at)
	if !ok || !strings.HasPrefix(text, sealedStart) {
		return none, errState
	}
	sealed, err := base64.RawURLEncoding.DecodeString(text[len(sealedStart):])
	if err != nil || len(sealed) < keyIDLen {
		return none, errState
	}
	k, ok := b.keyring().ByID(ForStates, [keyIDLen]byte(sealed))
	if !ok {
		// The state was sealed before a restart, with a key that we no longer have, or by a process
		// that shares none with us. Which one it was, we can't know.
		return none, errNoKey
	}
	aead, err := k.sealer()
	if err != nil {
		return none, err
	}
	plain, err := aead.Open(nil, nil, sealed[keyIDLen:], binding(u, c))
	if err != nil || len(plain) < stateHead {
		return none, errState
	}
	if time.Now().Unix() > int64(binary.BigEndian.Uint64(plain)) {
		return none, errExpired
	}
	number, n := binary.Uvarint(plain[stateHead:])
	if n <= 0 {
		return none, errState
	}
	kind, inner := plain[8], plain[stateHead+n:]
	if kind&hasPlace != 0 {
		length, n := binary.Uvarint(inner)
		if n <= 0 || length > uint64(len(inner)-n) {
			return none, errState
		}
		place := string(inner[n : n+int(length)])
		kind &^= hasPlace
		away := errParkAway
		if kind == sealKind('A', true) || kind == sealKind('W', true) {
			away = errAskedAway
		}
		if err := b.checkPlace(place, away); err != nil {
			return none, err
		}
		inner = inner[n+int(length):]
	}
	res := Resume{kind: kind, inner: inner, call: number, id: sha256.Sum256(sealed)}
	if res.kind >= 'a' {
		res.kind, res.once = res.kind-('a'-'A'), true
	}
	return res, nil
}

// takeState reserves a state for one retry at a time. Until leave is called, a second retry with
// the same state is refused, so that a request that is sent twice does not run twice at the same
// time. After leave, the state may be used again, because clients may retry a request that got no
// answer. The server decides whether it accepts its state again (2026-07-28 §MRTR, "Server
// Requirements" 5). A call without a state needs no reservation, and neither does a state that is good
// for one use: Answers has used it up.
func (b *Bridge) takeState(u Server, s Resume) (leave func(), err error) {
	if s.kind == 0 || s.once {
		return func() {}, nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, busy := b.retried[s.id]; busy {
		return nil, &mcp.Error{
			Origin: mcp.FromGateway, Upstream: u.Name(), Cause: "in_progress", Outcome: mcp.NotSent, Retryable: true, RetryAfter: time.Second,
			Message: "another request with this requestState is still running; wait until that request ends",
		}
	}
	if b.retried == nil {
		b.retried = make(map[stateID]struct{})
	}
	b.retried[s.id] = struct{}{}
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.retried, s.id)
	}, nil
}

var errNoKey = &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams,
	Message: "this process of Dragoman can't open the requestState, because it was sealed before a restart, or by a process with other keys; the server may have executed the call",
	Data:    []byte(`{"origin":"gateway","cause":"park_lost","outcome":"unknown","retryable":false}`)}

var errExpired error = &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "requestState has expired; send the original request again"}

// binding returns a hash of everything that a state is bound to: the seat, the server, the
// method and the parameters. Each part is hashed separately, so that different calls do not have
// the same hash.
func binding(u Server, c *mcp.Call) []byte {
	h := sha256.New()
	part := func(b []byte) {
		sum := sha256.Sum256(b)
		h.Write(sum[:])
	}
	part([]byte(c.Client.Who.SeatKey()))
	part([]byte(u.Name()))
	part([]byte(c.Msg.Method))
	part(canonical(nil, c.Msg.Raw, c.Msg.Params, func(key string) bool {
		return key == "inputResponses" || key == "requestState" || key == mcp.KeyMeta
	}))
	return h.Sum(nil)
}

// canonical appends the canonical form of a value: sorted members, no white space, decoded
// strings. Equal values with different spellings have equal forms. The result is hashed, never
// sent.
func canonical(dst, raw []byte, at jsonrpc.Span, skip func(string) bool) []byte {
	switch jsonrpc.KindOf(raw, at) {
	case '{':
		type member struct {
			key   string
			value jsonrpc.Span
		}
		var all []member
		for m := range jsonrpc.Members(raw, at) {
			key, _ := jsonrpc.Text(raw, m.Key)
			if skip == nil || !skip(key) {
				all = append(all, member{key, m.Value})
			}
		}
		slices.SortFunc(all, func(a, b member) int { return strings.Compare(a.key, b.key) })
		dst = append(dst, '{')
		for _, m := range all {
			dst = jsonrpc.AppendQuote(dst, m.key)
			dst = append(dst, ':')
			dst = canonical(dst, raw, m.value, nil)
			dst = append(dst, ',')
		}
		return append(dst, '}')
	case '[':
		dst = append(dst, '[')
		for e := range jsonrpc.Elements(raw, at) {
			dst = append(canonical(dst, raw, e, nil), ',')
		}
		return append(dst, ']')
	case '"':
		s, _ := jsonrpc.Text(raw, at)
		return jsonrpc.AppendQuote(dst, s)
	}
	return append(dst, at.Of(raw)...)
}
