package registry

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/pattern"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
)

// manifestJSON is manifest.json of a bundle, in the versions 0.1 to 0.4 of its format.
type manifestJSON struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Server  struct {
		Type       string `json:"type"`
		EntryPoint string `json:"entry_point"`
		Config     struct {
			startJSON
			Overrides map[string]startJSON `json:"platform_overrides"`
		} `json:"mcp_config"`
	} `json:"server"`
	UserConfig    map[string]optionJSON `json:"user_config"`
	Compatibility struct {
		Platforms []string `json:"platforms"`
	} `json:"compatibility"`
	order []string // the keys of UserConfig, in the order of the file
}

// startJSON is how a bundle is started.
type startJSON struct {
	Command string            `json:"command"`
	Args    []string          `json:"args"`
	Env     map[string]string `json:"env"`
}

// optionJSON is an entry of user_config.
type optionJSON struct {
	Type        string          `json:"type"`
	Title       string          `json:"title"`
	Description string          `json:"description"`
	Required    bool            `json:"required"`
	Default     json.RawMessage `json:"default"`
	Multiple    bool            `json:"multiple"`
	Sensitive   bool            `json:"sensitive"`
	Min         *float64        `json:"min"`
	Max         *float64        `json:"max"`
}

// openBundle reads the manifest of an unpacked bundle.
func openBundle(dir, what string) (*Bundle, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("cannot read the bundle: %w", err)
	}
	defer root.Close()
	f, err := root.Open("manifest.json")
	if err != nil {
		return nil, fmt.Errorf("%s is not a bundle: it has no manifest.json", what)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxManifest+1))
	if err != nil {
		return nil, fmt.Errorf("cannot read the bundle: %w", err)
	}
	m, err := parseManifest(b)
	if err != nil {
		return nil, fmt.Errorf("the manifest.json of %s cannot be used: %w", what, err)
	}
	return &Bundle{Dir: dir, Name: excerpt.Line(m.Name, 100), Version: excerpt.Line(m.Version, 100), what: what, manifest: m}, nil
}

func parseManifest(b []byte) (m manifestJSON, err error) {
	if len(b) > maxManifest {
		return m, errors.New("it is larger than 1 MiB")
	}
	if err := json.Unmarshal(b, &m); err != nil {
		return m, shapeError(err)
	}
	if m.Name == "" || m.Server.Type == "" {
		return m, errors.New("it has no name or no server")
	}
	m.order = memberOrder(b, "user_config")
	return m, nil
}

// memberOrder returns the keys of an object at the top level of a document, in their order. People
// read the questions in the order in which the author wrote them.
func memberOrder(b []byte, of string) (keys []string) {
	var raw map[string]json.RawMessage
	if json.Unmarshal(b, &raw) != nil {
		return nil
	}
	d := json.NewDecoder(strings.NewReader(string(raw[of])))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil
	}
	for d.More() {
		t, err := d.Token()
		key, ok := t.(string)
		var value json.RawMessage
		if err != nil || !ok || d.Decode(&value) != nil {
			return keys
		}
		if !slices.Contains(keys, key) && len(keys) <= maxItems {
			keys = append(keys, key)
		}
	}
	return keys
}

// Host is what a bundle wants to know about the machine.
type Host struct {
	OS   string // a value of runtime.GOOS
	Home string // the user's home folder
}

// platforms maps values of runtime.GOOS to the names in a manifest, which come from Node.js.
var platforms = map[string]string{"windows": "win32"}

// Way returns the way to run the unpacked bundle.
func (u *Bundle) Way(h Host) Way {
	m := &u.manifest
	b := &builder{server: m.Name, way: Way{Kind: MCPB, What: u.what}}
	platform := h.OS
	if p, ok := platforms[h.OS]; ok {
		platform = p
	}
	if list := m.Compatibility.Platforms; len(list) > 0 && !slices.Contains(list, platform) {
		b.fail("is only for %s", excerpt.Line(strings.Join(list, ", "), 100))
	}
	start := m.Server.Config.startJSON
	if o, ok := m.Server.Config.Overrides[platform]; ok {
		if o.Command != "" {
			start.Command = o.Command
		}
		if o.Args != nil {
			start.Args = o.Args
		}
		if o.Env != nil {
			start.Env = o.Env
		}
	}
	switch {
	case m.Server.Type == "uv" && start.Command == "":
		if badPath(m.Server.EntryPoint) != "" {
			b.fail("has an entry_point that is not a plain relative path")
		}
		start.Command, start.Args = "uv", []string{"run", "--directory", "${__dirname}", m.Server.EntryPoint}
	case start.Command == "":
		b.fail("does not say how to start it")
	}
	f := &filler{builder: b, dir: u.Dir, host: h, options: map[string]int{}}
	f.ask(m)
	f.start(start)
	return b.done()
}

// filler replaces the variables of a manifest.
type filler struct {
	*builder
	dir     string
	host    Host
	options map[string]int // the numbers of the Wants, as in part.want, by the key of user_config
}

// ask adds a Want for each option of the user.
func (f *filler) ask(m *manifestJSON) {
	if !f.count("options", len(m.UserConfig)) {
		return
	}
	for _, key := range m.order {
		o, ok := m.UserConfig[key]
		if !ok {
			continue
		}
		w := Want{
			Key: key, About: o.Title, Format: "string", Required: o.Required, Repeated: o.Multiple,
			Secret: o.Sensitive || o.Type == "string" && excerpt.SecretName(key), Default: f.defaults(o.Default),
		}
		if o.Description != "" && o.Description != o.Title {
			w.About = strings.TrimPrefix(o.Title+": "+o.Description, ": ")
		}
		switch o.Type {
		case "number", "boolean":
			w.Format = o.Type
		case "directory", "file":
			w.Format = "filepath"
		}
		w.min, w.max = o.Min, o.Max
		f.options[key] = f.builder.ask(w)
	}
}

// defaults returns the texts of a default: of a scalar, or of a list of texts.
func (f *filler) defaults(raw json.RawMessage) (out []string) {
	var list []any
	if json.Unmarshal(raw, &list) != nil {
		list = make([]any, 1)
		if json.Unmarshal(raw, &list[0]) != nil || len(raw) == 0 {
			return nil
		}
	}
	for _, x := range list[:min(len(list), maxItems)] {
		switch x := x.(type) {
		case string:
			out = append(out, f.place(x))
		case bool:
			out = append(out, strconv.FormatBool(x))
		case float64:
			out = append(out, strconv.FormatFloat(x, 'f', -1, 64))
		}
	}
	return out
}

// dollar matches a variable of a manifest.
var dollar = pattern.Later(`\$\{([^${}]+)\}`)

// place replaces the variables for folders. It leaves any other variable as it is, and so do the
// rules of the format; the entry has it as literal text.
func (f *filler) place(s string) string {
	return dollar().ReplaceAllStringFunc(s, func(ref string) string {
		if to, ok := f.folder(ref[2 : len(ref)-1]); ok {
			return to
		}
		return ref
	})
}

func (f *filler) folder(name string) (string, bool) {
	switch name {
	case "__dirname":
		return f.dir, true
	case "HOME":
		return f.host.Home, f.host.Home != ""
	case "DESKTOP", "DOCUMENTS", "DOWNLOADS":
		return filepath.Join(f.host.Home, name[:1]+strings.ToLower(name[1:])), f.host.Home != ""
	case "pathSeparator", "/":
		return string(filepath.Separator), true
	}
	return "", false
}

// fill returns the template of a text.
func (f *filler) fill(what, s string) template {
	f.text(what, s)
	var out template
	at := 0
	for _, m := range dollar().FindAllStringSubmatchIndex(s, -1) {
		var p part
		name := s[m[2]:m[3]]
		if key, ok := strings.CutPrefix(name, "user_config."); ok {
			p.want = f.options[key]
		} else if p.text, ok = f.folder(name); !ok {
			continue
		}
		if p == (part{}) {
			continue // no such option, so the text stays
		}
		out = append(out, part{text: s[at:m[0]]}, p)
		at = m[1]
	}
	return append(out, part{text: s[at:]})
}

// start sets the recipe.
func (f *filler) start(s startJSON) {
	r := &f.way.recipe
	r.dir = f.dir
	r.command = f.text("the command", f.place(s.Command))
	if strings.ContainsAny(s.Command, `/\`) {
		if !filepath.IsAbs(r.command) {
			r.command = filepath.Join(f.dir, filepath.FromSlash(r.command))
		}
		if rel, err := filepath.Rel(f.dir, r.command); err != nil || !filepath.IsLocal(rel) {
			f.caution("starts %s, which is not in the bundle", excerpt.Quote(r.command, 200))
		}
	}
	f.way.Program = r.command
	if !f.count("arguments", len(s.Args)) || !f.count("environment variables", len(s.Env)) {
		return
	}
	for i, a := range s.Args {
		t := f.fill("an argument", a)
		arg := slot{words: []template{t}}
		if want := only(t); want > 0 {
			arg.repeated = f.way.Wants[want-1].Repeated
			if n := len(r.args); n > 0 && strings.HasPrefix(s.Args[i-1], "-") && !strings.Contains(s.Args[i-1], "=") {
				r.args[n-1].needs = append(r.args[n-1].needs, want) // without its value, the flag goes too
			}
		}
		r.args = append(r.args, arg)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Env)) {
		if !variable().MatchString(name) {
			f.fail("sets the environment variable %s, whose name is not valid", excerpt.Quote(name, 100))
			return
		}
		r.env = append(r.env, slot{name: name, words: []template{f.fill("the value of "+name, s.Env[name])}})
	}
}

// only returns the Want of a template that is nothing else, as in part.want. Otherwise it returns 0.
func only(t template) (want int) {
	for _, p := range t {
		switch {
		case p.text != "", p.want > 0 && want > 0:
			return 0
		case p.want > 0:
			want = p.want
		}
	}
	return want
}
