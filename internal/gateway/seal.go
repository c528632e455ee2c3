package gateway

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
)

// Relay carries what all calls of one daemon share: the keys that request states
// are sealed with. The zero value is ready.
type Relay struct {
	// Observe is told of each call once it has its answer; code is the error code,
	// 0 for a result. It must not block. Nil observes nothing.
	Observe func(server string, from, to mcp.Revision, code int64)

	mu   sync.Mutex
	keys []stateKey // newest first, at most two
}

type stateKey struct {
	aead cipher.AEAD
	id   byte
	born time.Time
}

// The lives of a sealed state and of the key that sealed it.
const (
	stateTTL    = 10 * time.Minute
	keyLife     = 24 * time.Hour
	sealedStart = "drg1."
)

var errState = &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "requestState is not valid for this request"}

// key returns the newest key, made anew when it has had its day.
func (r *Relay) key() (stateKey, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.keys) > 0 && time.Since(r.keys[0].born) < keyLife {
		return r.keys[0], nil
	}
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // never fails since Go 1.24
	block, err := aes.NewCipher(secret)
	if err != nil {
		return stateKey{}, err
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return stateKey{}, err
	}
	k := stateKey{aead: aead, born: time.Now()}
	if len(r.keys) > 0 {
		k.id = r.keys[0].id + 1
	}
	r.keys = append([]stateKey{k}, r.keys[:min(len(r.keys), 1)]...)
	return k, nil
}

func (r *Relay) keyByID(id byte) (stateKey, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, k := range r.keys {
		if k.id == id {
			return k, true
		}
	}
	return stateKey{}, false
}

// seal wraps the server's requestState such that it opens again only for the same
// principal, server, method and parameters, and for ten minutes (2026-07-28 §MRTR,
// "Server Requirements" 4 and 5). Behind one credential for many users only we can
// tell them apart, so foreign states are wrapped too.
func (r *Relay) seal(u Upstream, c *mcp.Call, reply *mcp.Reply) (*mcp.Reply, error) {
	at := reply.Msg.ResultMember("requestState")
	if at.IsZero() {
		return reply, nil
	}
	k, err := r.key()
	if err != nil {
		return nil, err
	}
	plain := binary.BigEndian.AppendUint64(make([]byte, 0, 8+at.End-at.Start), uint64(time.Now().Add(stateTTL).Unix()))
	plain = append(plain, at.Of(reply.Msg.Raw)...)
	sealed := k.aead.Seal([]byte{k.id}, nil, plain, binding(u, c))
	text := sealedStart + base64.RawURLEncoding.EncodeToString(sealed)
	reply.Edits.Replace(at, jsonrpc.AppendQuote(nil, text))
	return reply, nil
}

// unseal gives the server its own state back, to the byte.
func (r *Relay) unseal(u Upstream, c *mcp.Call) error {
	at := c.Msg.Param("requestState")
	if at.IsZero() {
		return nil
	}
	text, ok := jsonrpc.Text(c.Msg.Raw, at)
	if !ok || !strings.HasPrefix(text, sealedStart) {
		return errState
	}
	sealed, err := base64.RawURLEncoding.DecodeString(text[len(sealedStart):])
	if err != nil || len(sealed) < 1 {
		return errState
	}
	k, ok := r.keyByID(sealed[0])
	if !ok {
		return errState
	}
	plain, err := k.aead.Open(nil, nil, sealed[1:], binding(u, c))
	if err != nil || len(plain) < 8 {
		return errState
	}
	if time.Now().Unix() > int64(binary.BigEndian.Uint64(plain)) {
		return errExpired
	}
	c.Edits.Replace(at, plain[8:])
	return nil
}

var errExpired error = &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "requestState has expired: start the request again"}

// binding is what a state is tied to. Each part is hashed on its own so that no
// two sets of parts run together.
func binding(u Upstream, c *mcp.Call) []byte {
	h := sha256.New()
	part := func(b []byte) {
		sum := sha256.Sum256(b)
		h.Write(sum[:])
	}
	part([]byte(c.Client.Principal))
	part([]byte(u.Name()))
	part([]byte(c.Msg.Method))
	part(canonical(nil, c.Msg.Raw, c.Msg.Params, func(key string) bool {
		return key == "inputResponses" || key == "requestState" || key == mcp.KeyMeta
	}))
	return h.Sum(nil)
}

// canonical writes a value such that two spellings of the same value come out
// equal: members sorted, no white space, strings decoded. It is hashed, never
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
