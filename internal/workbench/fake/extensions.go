package fake

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// Strict peers have three extensions in all revisions: pages of tools (SEP-1865), skills (SEP-2640)
// and one of an invented vendor. The schemas mention the capability "extensions" only since
// 2026-07-28, but earlier revisions allow it, because capabilities are "not a closed set"
// (schema/DATE/schema.ts, ClientCapabilities and ServerCapabilities).

// The extensions of strict peers, as tests see them.
const (
	PageURI     = "ui://fake/chart"
	PageText    = "<!doctype html><title>A chart</title>"
	PageMeta    = `{"ui":{"csp":{"connectDomains":[]},"prefersBorder":true}}`     // _meta of the page
	ShownTool   = `{"ui":{"resourceUri":"` + PageURI + `"}}`                      // _meta of the tool "chart"
	AppOnlyTool = `{"ui":{"resourceUri":"` + PageURI + `","visibility":["app"]}}` // _meta of the tool "redraw"
	PageClient  = `{"mimeTypes":["` + pageType + `"]}`                            // the client's settings
	pageType    = "text/html;profile=mcp-app"

	SkillFolder   = "skill://fake"
	SkillChildren = `[{"uri":"` + SkillFolder + `/SKILL.md","name":"SKILL.md","mimeType":"text/markdown"},` +
		`{"uri":"` + SkillFolder + `/guide","name":"guide","mimeType":"inode/directory"}]`
	skillText = "---\nname: fake\ndescription: Shows a skill.\n---\nRead guide/steps.md.\n"
	stepsText = "First, look – then leap.\n"

	Vendor       = "com.example/weather"
	VendorMethod = "weather/now"
	VendorNote   = "notifications/weather/changed" // sent before the answer to VendorMethod
	VendorServer = `{"version":2,"units":["C","F"]}`
	VendorClient = `{"units":["C"],"every":1.50}`
)

func moreExtensions() []extension {
	uri := shape{need("uri", aString)}
	return []extension{
		{declares: quote(mcp.ExtensionApps) + `:{}`, tools: []tool{
			{name: "chart", about: "Draws a chart on its page.", of: always, meta: ShownTool, run: drawChart},
			{name: "redraw", about: "Draws the chart again. Only its page calls this tool.", of: always, meta: AppOnlyTool, run: drawChart},
		}},
		{declares: quote(mcp.ExtensionSkills) + `:{"directoryRead":true}`, methods: []method{
			{name: mcp.MethodListSkills, params: shape{may("cursor", aString)}, cached: true, run: func(x *exchange) (string, error) {
				return x.page("skills", []string{skill()})
			}},
			{name: mcp.MethodGetSkill, params: uri, cached: true, run: func(x *exchange) (string, error) {
				return `"skill":` + skill(), x.wants(SkillFolder + "/SKILL.md")
			}},
			{name: mcp.MethodReadDirectory, params: uri, run: func(x *exchange) (string, error) {
				return `"resources":` + SkillChildren, x.wants(SkillFolder)
			}},
		}},
		{declares: quote(Vendor) + `:` + VendorServer, methods: []method{
			{name: VendorMethod, params: shape{need("place", aString)}, run: weather},
		}},
	}
}

func drawChart(*exchange, jsonrpc.Span) (string, error) { return textResult("drawn"), nil }

// showsPages reports whether the client shows pages of tools. A server offers such tools only to
// clients that declare the extension with the media type (SEP-1865, "Capability Negotiation").
func (x *exchange) showsPages() bool {
	for v := range jsonrpc.Elements(x.caps, jsonrpc.Find(x.caps, x.extension(mcp.ExtensionApps), "mimeTypes")) {
		if s, _ := jsonrpc.Text(x.caps, v); s == pageType {
			return true
		}
	}
	return false
}

// extension returns the client's settings of an extension, in x.caps.
func (x *exchange) extension(name string) jsonrpc.Span {
	return jsonrpc.Find(x.caps, jsonrpc.Find(x.caps, jsonrpc.Whole(x.caps), "extensions"), name)
}

// wants returns an error if the request is not for the given URI.
func (x *exchange) wants(uri string) error {
	if got, _ := jsonrpc.Text(x.m.Raw, x.m.Param("uri")); got != uri {
		return refusal(jsonrpc.CodeInvalidParams, "unknown resource %s", clip(got))
	}
	return nil
}

// skill returns the skill with the digests of its files.
func skill() string {
	file := func(path, text string) string {
		sum := sha256.Sum256([]byte(text))
		return `{"uri":"` + SkillFolder + path + `","digest":"sha256:` + hex.EncodeToString(sum[:]) + `","size":` + strconv.Itoa(len(text)) + `}`
	}
	return `{"uri":"` + SkillFolder + `/SKILL.md","frontmatter":{"name":"fake","description":"Shows a skill."},"resources":[` +
		file("/SKILL.md", skillText) + `,` + file("/guide/steps.md", stepsText) + `]}`
}

// unlisted returns the contents of a resource that only the extensions have. These resources are in
// no list.
func unlisted(uri string) string {
	text := func(kind, text string) string {
		return `{"uri":` + quote(uri) + `,"mimeType":` + quote(kind) + `,"text":` + quote(text)
	}
	switch uri {
	case PageURI:
		return text(pageType, PageText) + `,"_meta":` + PageMeta + `}`
	case SkillFolder + "/SKILL.md":
		return text("text/markdown", skillText) + `}`
	case SkillFolder + "/guide/steps.md":
		return text("text/markdown", stepsText) + `}`
	}
	return ""
}

// weather answers the vendor's method with the settings that the client declared.
func weather(x *exchange) (string, error) {
	settings := x.extension(Vendor).Of(x.caps)
	if settings == nil {
		return "", refusal(jsonrpc.CodeMethodNotFound, "the client has not declared %s", Vendor)
	}
	place := string(x.m.Param("place").Of(x.m.Raw))
	x.notify(VendorNote, `{"place":`+place+`}`)
	return `"place":` + place + `,"declared":` + string(settings), nil
}
