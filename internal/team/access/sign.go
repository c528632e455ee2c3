package access

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/team/store"
)

// The sum of a key's row is that of the secret, which each request needs, and behind it the signature of
// the row, which we check when we read the rows. So somebody who can write to the database can neither
// make a key nor let one do more or live longer. An old row that is put back is valid again.

// sign adds the signature to a key whose Sum is that of the secret.
func (m *MACKey) sign(k *store.Key) { k.Sum = slices.Concat(k.Sum, m.signature(k)) }

// signed reports whether the row of a key is as we wrote it.
func (m *MACKey) signed(k *store.Key) bool {
	const size = sha256.Size
	return len(k.Sum) == 2*size && (len(k.OldSum) == 0 || len(k.OldSum) == size) && hmac.Equal(k.Sum[size:], m.signature(k))
}

// secretSum returns the sum of the secret from that of a signed row.
func secretSum(sum []byte) []byte { return sum[:sha256.Size] }

// signature returns the HMAC-SHA-256 of everything in a row that says who may do what until when, and of the name, by which
// people know the author of something. It is
// never the HMAC of a secret, whose text is shorter than this one.
func (m *MACKey) signature(k *store.Key) []byte {
	return m.over(
		"the row of an API key, version 1", k.ID, k.Name, string(secretSum(k.Sum)), string(k.OldSum), moment(k.OldUntil), k.Owner, k.Project,
		strings.Join(k.Servers, "\n"), strings.Join(k.Tools, "\n"), k.Role.String(), moment(k.Until),
	)
}

// ofProject returns the signature of the text of a project. It's never the HMAC of a secret either.
func (m *MACKey) ofProject(name, text string) []byte {
	return m.over("the text of a project in the store, version 1", name, text)
}

// over returns the HMAC-SHA-256 of some texts, each with its length.
func (m *MACKey) over(parts ...string) []byte {
	h := hmac.New(sha256.New, m[:])
	for _, part := range parts {
		h.Write(binary.AppendUvarint(nil, uint64(len(part))))
		h.Write([]byte(part))
	}
	return h.Sum(nil)
}

// moment returns a time as the row has it.
func moment(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
