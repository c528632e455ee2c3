package console

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"strings"
	"sync"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/tokens"
)

//go:embed static
var staticFiles embed.FS

//go:embed templates
var templateFiles embed.FS

// asset is a style sheet or a JavaScript module in the folder static.
type asset struct {
	body []byte
	kind string // the content type
}

// assets maps hashed file names to the files in the folder static, and the original file names to the
// hashed names. Assets and templates are read when they are first used: most commands show no page.
var assets = sync.OnceValues(loadAssets)

// comments matches the lines of a module that are only a comment.
var comments = regexp.MustCompile(`(?m)^\s*//.*\n`)

func loadAssets() (byName map[string]asset, names map[string]string) {
	byName, names = map[string]asset{}, map[string]string{}
	files, err := staticFiles.ReadDir("static")
	if err != nil {
		panic(err) // cannot happen: the files are part of the program
	}
	for _, f := range files {
		body, err := staticFiles.ReadFile("static/" + f.Name())
		if err != nil {
			panic(err)
		}
		ext := path.Ext(f.Name())
		if ext == ".js" {
			body = comments.ReplaceAll(body, nil) // browsers needn't load them
		}
		sum := sha256.Sum256(body)
		name := strings.TrimSuffix(f.Name(), ext) + "." + hex.EncodeToString(sum[:6]) + ext
		byName[name] = asset{body, map[string]string{".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8"}[ext]}
		names[f.Name()] = name
	}
	return byName, names
}

// serveAsset handles /console/static/NAME. The hashed name changes with the file's content, so
// browsers may cache the file for a year. The files are public, because they contain no data of
// this process.
func serveAsset(w http.ResponseWriter, r *http.Request) {
	byName, _ := assets()
	a, ok := byName[r.PathValue("name")]
	if !ok {
		http.NotFound(w, r)
		return
	}
	h := w.Header()
	headers(h)
	h.Set("Content-Type", a.kind)
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	_, _ = w.Write(a.body)
}

// assetPath returns the URL path of an asset. name is the name of its file in the folder static.
func assetPath(name string) string {
	_, hashed := assets()
	hashedName, ok := hashed[name]
	if !ok {
		panic("there is no asset " + name)
	}
	return prefix + "/static/" + hashedName
}

var functions = template.FuncMap{
	"asset": assetPath, "peer": peer, "lines": peerBlock, "clock": clock, "when": when, "number": anyNumber, "plural": plural,
	"path": pathOf, "span": spanText, "rev": revision, "query": queryWith, "sort": sortLink, "lower": strings.ToLower,
	"join": strings.Join, "era": eraGlyph, "mark": eraMark,
	"long":    func(text string, limit int) template.HTML { return peerText(text, limit, true) },
	"message": func(text string) template.HTML { return peerText(text, len(text)+1, true) },
	"full":    func(text string) template.HTML { return peerText(text, len(text)+1, false) },
	"state":   stateMark, "bytes": bytesText, "upper": upper, "about": tokens.About,
	"unseen": func(text string) bool { return countInvisible(text) > 0 }, "wire": wireText, "words": words, "escape": url.QueryEscape, "dict": dict, "plain": func(text string) string { return excerpt.Line(text, 200) }, "list": func(all ...any) []any { return all },
}

var (
	frameTemplate = parsedLater("frame.html", "parts.html", "form.html", "wires.html")
	gateTemplate  = parsedLater("gate.html", "gatehead.html")
)

// parsedLater returns a function that returns the template in the first file. The others define blocks.
func parsedLater(files ...string) func() *template.Template {
	return sync.OnceValue(func() *template.Template {
		t := template.New(files[0]).Funcs(functions)
		for _, f := range files {
			template.Must(t.ParseFS(templateFiles, "templates/"+f))
		}
		return t
	})
}

// pageTemplates caches the templates that pageTemplate returns, by file name.
var pageTemplates sync.Map

// pageTemplate returns the template of a page. The template consists of the frame and the block
// "main". name is the name of the file that defines this block.
func pageTemplate(name string) *template.Template {
	if t, ok := pageTemplates.Load(name); ok {
		return t.(*template.Template)
	}
	t := template.Must(frameTemplate().Clone())
	template.Must(t.ParseFS(templateFiles, "templates/"+name))
	pageTemplates.Store(name, t)
	return t
}

// dict returns a map, so that a template can pass several values to another template. pairs
// contains keys and values, each key directly before its value.
func dict(pairs ...any) map[string]any {
	out := make(map[string]any, len(pairs)/2)
	for i := 0; i+1 < len(pairs); i += 2 {
		out[fmt.Sprint(pairs[i])] = pairs[i+1]
	}
	return out
}

// words returns a command, an address or the name of a tool for a narrow column: a line breaks between
// words, after a slash and after the prefix of a name, and within a word only if the word alone is too
// long for the line.
func words(text string) template.HTML {
	var out strings.Builder
	for i, word := range strings.Split(excerpt.Cut(text, mostWire), " ") {
		if i > 0 {
			out.WriteByte(' ')
		}
		for len(word) > 0 {
			end := len(word)
			for j := 1; j < len(word); j++ {
				if word[j] != word[j-1] && (word[j-1] == '/' || strings.HasSuffix(word[:j], "__")) {
					end = j
					break
				}
			}
			out.WriteString(`<span class="w">` + string(wireText(word[:end])) + `</span>`)
			word = word[end:]
		}
	}
	return template.HTML(out.String())
}
