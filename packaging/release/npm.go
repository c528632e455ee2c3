package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// npmPackage contains the members of a package.json file.
type npmPackage struct {
	Name                 string            `json:"name"`
	Version              string            `json:"version"`
	Description          string            `json:"description"`
	Keywords             []string          `json:"keywords,omitempty"`
	Homepage             string            `json:"homepage"`
	Bugs                 map[string]string `json:"bugs"`
	License              string            `json:"license"`
	Repository           map[string]string `json:"repository"`
	Files                []string          `json:"files"`
	Bin                  map[string]string `json:"bin,omitempty"`
	Engines              map[string]string `json:"engines,omitempty"`
	OS                   []string          `json:"os,omitempty"`
	CPU                  []string          `json:"cpu,omitempty"`
	PublishConfig        map[string]string `json:"publishConfig"`
	OptionalDependencies map[string]string `json:"optionalDependencies,omitempty"`
}

func (r *release) npmPackage(name, about string) npmPackage {
	return npmPackage{
		Name: name, Version: r.version, Description: about, Homepage: homepage, License: license,
		Bugs:          map[string]string{"url": homepage + "/issues"},
		Repository:    map[string]string{"type": "git", "url": "git+" + homepage + ".git"},
		PublishConfig: map[string]string{"access": "public"},
	}
}

// npmWords contains npm's names for operating systems and architectures, where they differ from
// Go's names.
var npmWords = map[string]string{"windows": "win32", "amd64": "x64"}

func npmWord(s string) string {
	if w := npmWords[s]; w != "" {
		return w
	}
	return s
}

// npmPlatformName returns the name of the npm package with a platform's program.
func npmPlatformName(p platform) string { return npmName + "-" + npmWord(p.os) + "-" + npmWord(p.arch) }

// npmPlatform creates the npm package with the program of one platform.
func (r *release) npmPlatform(p platform) error {
	name := npmPlatformName(p)
	pkg := r.npmPackage(name, "The program of "+npmName+" for "+p.String())
	pkg.OS, pkg.CPU, pkg.Files = []string{npmWord(p.os)}, []string{npmWord(p.arch)}, []string{"bin"}
	binary, err := os.ReadFile(r.built(p))
	if err != nil {
		return err
	}
	text := "# " + name + "\n\nThe program of [`" + npmName + "`](" + homepage + ") for " + p.String() + ". Install `" + npmName + "` instead: it chooses the right one of these packages.\n"
	return r.pack(pkg, []entry{{name: "bin/" + p.binary(), body: binary, mode: 0o755}, {name: "README.md", body: []byte(text), mode: 0o644}})
}

// npmMain creates the npm package that people install. It contains a launcher. The packages with
// the program are its optional dependencies, one for each platform. npm installs only the package
// for the user's platform.
func (r *release) npmMain() error {
	pkg := r.npmPackage(npmName, summary)
	pkg.Keywords = []string{"mcp", "model-context-protocol", "mcp-server", "mcp-client", "gateway", "proxy", "bridge"}
	pkg.Bin = map[string]string{program: "bin/dragoman.js"}
	pkg.Files = []string{"bin"}
	pkg.Engines = map[string]string{"node": ">=18"}
	pkg.OptionalDependencies = map[string]string{}
	for _, p := range released { // all platforms, even if this run builds only some of them
		pkg.OptionalDependencies[npmPlatformName(p)] = r.version
	}
	var entries []entry
	for to, from := range map[string]string{"bin/dragoman.js": "npm/dragoman.js", "README.md": "npm/README.md"} {
		b, err := os.ReadFile(filepath.Join(r.files, from))
		if err != nil {
			return err
		}
		mode := os.FileMode(0o644)
		if strings.HasSuffix(to, ".js") {
			mode = 0o755
		}
		entries = append(entries, entry{name: to, body: b, mode: mode})
	}
	return r.pack(pkg, entries)
}

// pack creates the file of a package. It runs npm, because npm defines the format of this file.
func (r *release) pack(pkg npmPackage, entries []entry) error {
	dir := filepath.Join(r.work, "npm", strings.ReplaceAll(pkg.Name, "/", "_"))
	license, err := os.ReadFile(filepath.Join(r.root, "LICENSE"))
	if err != nil {
		return err
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(pkg); err != nil {
		return err
	}
	entries = append(entries, entry{name: "package.json", body: b.Bytes(), mode: 0o644}, entry{name: "LICENSE", body: license, mode: 0o644})
	for _, e := range entries {
		to := filepath.Join(dir, filepath.FromSlash(e.name))
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(to, e.body, e.mode); err != nil {
			return err
		}
		if err := os.Chmod(to, e.mode); err != nil { // os.Chmod sets the mode independently of the umask
			return err
		}
	}
	_, err = output(dir, "npm", "pack", "--silent", "--offline", "--ignore-scripts", "--pack-destination", r.dist)
	return err
}

func sortEntries(entries []entry) {
	slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(a.name, b.name) })
}
