package requirements

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/server/requirements/store"
)

// voucherKey is the member of _meta in which Dragoman says who has sent a call.
const voucherKey = "io.github.dragoman-mcp/voucher"

// usersURI is the URI of the list of users.
const usersURI = scheme + "users"

// writer returns who makes a change: whom Dragoman vouches for, or else who the client says that it is,
// which is claimed or its name. It returns an error for a voucher that nobody has signed.
func (s *Server) writer(req *mcp.CallToolRequest, claimed string) (store.User, error) {
	if given, ok := req.Params.Meta[voucherKey]; ok && s.o.Vouchers != nil {
		var v identity.Voucher
		if text, err := json.Marshal(given); err != nil || json.Unmarshal(text, &v) != nil || !s.o.Vouchers.Accepts(v) {
			return store.User{}, &store.Error{Code: store.Forbidden, Text: "who has sent this call can't be verified", Next: "call the server through Dragoman"}
		}
		return store.User{ID: v.Subject, Name: nameOf(v.Name)}, nil
	}
	if claimed != "" {
		return store.User{Name: claimed}, nil
	}
	if client := req.ClientInfo(); client != nil {
		return store.User{Name: nameOf(client.Name)}, nil
	}
	return store.User{}, nil
}

// nameOf returns a name that the store accepts.
func nameOf(text string) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' {
			return -1
		}
		return r
	}, strings.ToValidUTF8(strings.Join(strings.Fields(text), " "), ""))
	if len(text) > store.MaxAuthor {
		text = strings.ToValidUTF8(text[:store.MaxAuthor], "")
	}
	return text
}

type user struct {
	ID       string `json:"id,omitempty"`
	Name     string `json:"name"`
	Verified bool   `json:"verified"`
	Items    int    `json:"items"`
	Edits    int    `json:"edits"`
	Comments int    `json:"comments"`
	Last     string `json:"last"`
}

// users returns the content of the resource usersURI.
func (s *Server) users(ctx context.Context) (any, error) {
	all, more, err := s.store.Users(ctx)
	if err != nil {
		return nil, err
	}
	out := struct {
		Users []user `json:"users"`
		More  bool   `json:"more,omitempty"`
	}{[]user{}, more}
	for _, a := range all {
		out.Users = append(out.Users, user{a.ID, a.Name, a.ID != "", a.Items, a.Edits, a.Comments, a.Last})
	}
	return out, nil
}
