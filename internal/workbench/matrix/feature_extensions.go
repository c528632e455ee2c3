package matrix

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/workbench/fake"
)

// playApps tests the pages of tools (SEP-1865). The server offers tools with pages only to a client
// that declares the media type of its page.
func playApps(ctx context.Context, t *talk) error {
	if !t.c.Offers("extensions", mcp.ExtensionApps) {
		return errors.New("the server does not declare the extension")
	}
	tools, _, err := t.items(ctx, "tools/list", "tools")
	if err != nil {
		return err
	}
	marks := map[string]string{}
	for _, raw := range tools {
		marks[member(raw, "name")] = member(raw, "_meta")
	}
	resources, _, err := t.list(ctx, "resources/list", "resources", "uri")
	if err != nil {
		return err
	}
	for _, uri := range resources {
		if uri == fake.PageURI {
			return errors.New("the page is in a list, but the server did not list it")
		}
	}
	page, err := t.call(ctx, "resources/read", `{"uri":`+quote(fake.PageURI)+`}`, fake.CallOptions{})
	if err != nil {
		return err
	}
	const want = `[{"uri":"` + fake.PageURI + `","mimeType":"text/html;profile=mcp-app","text":"` + fake.PageText + `","_meta":` + fake.PageMeta + `}]`
	return errors.Join(
		same("_meta of the tool chart", marks[`"chart"`], fake.ShownTool),
		same("_meta of the tool redraw", marks[`"redraw"`], fake.AppOnlyTool),
		same("the page", member(page.Result, "contents"), want),
		t.says(ctx, "redraw", "{}", "drawn"),
	)
}

// playSkills tests skills (SEP-2640). Their files are in no list, and have the digests that the
// server states.
func playSkills(ctx context.Context, t *talk) error {
	if !t.c.Offers("extensions", mcp.ExtensionSkills, "directoryRead") {
		return errors.New("the server does not declare the extension with directoryRead")
	}
	skills, _, err := t.items(ctx, mcp.MethodListSkills, "skills")
	if err != nil {
		return err
	}
	if len(skills) != 1 {
		return fmt.Errorf("%d skills are listed, want 1", len(skills))
	}
	got, err := t.call(ctx, mcp.MethodGetSkill, `{"uri":`+member(skills[0], "uri")+`}`, fake.CallOptions{})
	if err != nil {
		return err
	}
	if err := same("the skill", member(got.Result, "skill"), string(skills[0])); err != nil {
		return err
	}
	files := 0
	for v := range jsonrpc.Elements(skills[0], jsonrpc.Find(skills[0], jsonrpc.Whole(skills[0]), "resources")) {
		uri := textAt(skills[0], v, "uri")
		r, err := t.call(ctx, "resources/read", `{"uri":`+quote(uri)+`}`, fake.CallOptions{})
		if err != nil {
			return err
		}
		for c := range jsonrpc.Elements(r.Result, jsonrpc.Find(r.Result, jsonrpc.Whole(r.Result), "contents")) {
			sum := sha256.Sum256([]byte(textAt(r.Result, c, "text")))
			if err := same("the digest of "+uri, "sha256:"+hex.EncodeToString(sum[:]), textAt(skills[0], v, "digest")); err != nil {
				return err
			}
			files++
		}
	}
	if err := same("the number of files", fmt.Sprint(files), "2"); err != nil {
		return err
	}
	folder, err := t.call(ctx, mcp.MethodReadDirectory, `{"uri":`+quote(fake.SkillFolder)+`}`, fake.CallOptions{})
	if err != nil {
		return err
	}
	return same("the folder", member(folder.Result, "resources"), fake.SkillChildren)
}

// playVendor tests an extension that Dragoman does not know: the settings of both ends, a request,
// and a notification that belongs to the request.
func playVendor(ctx context.Context, t *talk) error {
	if err := same("the server's settings", member(t.c.Greeting(), "capabilities", "extensions", fake.Vendor), fake.VendorServer); err != nil {
		return err
	}
	after := t.c.Serial()
	r, err := t.call(ctx, fake.VendorMethod, `{"place":"Zürich"}`, fake.CallOptions{})
	if err != nil {
		return err
	}
	_, err = t.c.Await(ctx, after, func(n fake.Notice) bool {
		return n.Method == fake.VendorNote && member(n.Params, "place") == `"Zürich"`
	})
	if err != nil {
		err = fmt.Errorf("the notification did not arrive: %w", err)
	}
	return errors.Join(err,
		same("the place", member(r.Result, "place"), `"Zürich"`),
		same("the settings that the server got", member(r.Result, "declared"), fake.VendorClient),
	)
}
