package requirements

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/server/requirements/store"
)

// TestWriters checks, with clients of each revision, that what Dragoman vouches for counts more than what
// a client says, that a voucher of somebody else is refused, and that the resource of the users has both
// kinds.
func TestWriters(t *testing.T) {
	for _, version := range mcp.SupportedProtocolVersions() {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			r := start(t, version)
			r.s.o.Vouchers = identity.NewVoucherKey()
			vouch := func(key identity.VoucherKey, subject, name string) mcp.Meta {
				v, _ := key.Vouch(&identity.Principal{Subject: subject, Seat: "x", Name: name})
				return mcp.Meta{voucherKey: v}
			}
			ada, forged := vouch(r.s.o.Vouchers, "p:ada", "Ada\u200d  Lovelace "+strings.Repeat("x", 200)), vouch(identity.NewVoucherKey(), "p:ada", "Ada")
			call := func(meta mcp.Meta, name string, a args, out any) bool {
				t.Helper()
				res, err := r.Client.CallTool(t.Context(), &mcp.CallToolParams{Meta: meta, Name: name, Arguments: a})
				if err != nil {
					t.Fatal(err)
				}
				if b, err := json.Marshal(res.StructuredContent); err != nil || !res.IsError && json.Unmarshal(b, out) != nil {
					t.Fatal(err)
				}
				return !res.IsError
			}
			var it item
			var c comment
			var p prompt
			for _, x := range []struct {
				tool string
				args args
			}{
				{"create_item", args{"kind": "epic", "title": "x"}}, {"add_comment", args{"item": "EP-001", "text": "x", "author": "Bob"}},
				{"save_prompt", args{"name": "x", "content": "x"}},
			} {
				var none any
				if call(forged, x.tool, x.args, &none) || call(mcp.Meta{voucherKey: nil}, x.tool, x.args, &none) || call(mcp.Meta{voucherKey: "x"}, x.tool, x.args, &none) {
					t.Errorf("%s accepts a forged voucher", x.tool)
				}
			}
			call(ada, "create_item", args{"kind": "epic", "title": "x"}, &it)
			call(ada, "add_comment", args{"item": "EP-001", "text": "x", "author": "Bob"}, &c)
			call(ada, "save_prompt", args{"name": "x", "content": "x"}, &p)
			if it.AuthorID != "p:ada" || !strings.HasPrefix(it.Author, "Ada") || c.AuthorID != "p:ada" || c.Author != it.Author || p.EditorID != "p:ada" || it.EditorID != "" || len(it.Author) > store.MaxAuthor {
				t.Errorf("%+v %+v %+v", it, c, p)
			}
			it, c = item{}, comment{}
			call(nil, "update_item", args{"id": "EP-001", "version": 1, "title": "y"}, &it)
			if it.Editor != "test" || it.EditorID != "" || it.AuthorID != "p:ada" {
				t.Errorf("%+v", it)
			}
			call(nil, "add_comment", args{"item": "EP-001", "text": "x", "author": it.Author}, &c)
			if c.Author != it.Author || c.AuthorID != "" {
				t.Errorf("%+v", c)
			}
			var list struct{ Users []user }
			if err := json.Unmarshal([]byte(r.read(usersURI)), &list); err != nil {
				t.Fatal(err)
			}
			for i := range list.Users {
				list.Users[i].Last = ""
			}
			want := []user{{ID: "p:ada", Name: it.Author, Verified: true, Items: 1, Edits: 1, Comments: 1}, {Name: it.Author, Comments: 1}, {Name: "test", Edits: 1}}
			slices.SortFunc(list.Users[1:], func(a, b user) int { return b.Comments - a.Comments })
			if !slices.Equal(list.Users, want) {
				t.Errorf("%+v", list.Users)
			}
		})
	}
}
