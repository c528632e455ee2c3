package admin

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/setup/clientfile"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
	"github.com/dragoman-mcp/dragoman/internal/setup/intake"
)

// Preview shows how the configuration would change if the chosen servers of a draft were added.
type Preview struct {
	File     string   `json:"file,omitempty" doc:"the configuration file"`
	Exists   bool     `json:"exists" doc:"whether the configuration file exists"`
	Writable bool     `json:"writable" doc:"whether the route keep can write the configuration file"`
	Why      string   `json:"why,omitempty" doc:"why the route keep can't write the configuration file"`
	YAML     string   `json:"yaml" doc:"the text to add to a configuration by hand"`
	Places   []Place  `json:"places,omitempty" doc:"what to add to the file by hand, and where, if we can't write it"`
	Diff     string   `json:"diff,omitempty" doc:"what changes in the file, with secrets masked"`
	EnvFile  string   `json:"envFile,omitempty" doc:"the file that would get the secrets"`
	Note     string   `json:"note,omitempty" doc:"what else the user should know or do, as sentences"`
	Untested []string `json:"untested" doc:"chosen servers that haven't been tried"`
	Stored   bool     `json:"stored,omitempty" doc:"whether it's the text of a project of the store, and no file"`
	Hash     string   `json:"hash,omitempty" doc:"a hash that identifies this change; KeepRequest requires it"`
}

// Place is a text that the user can add to an existing configuration file by hand.
type Place struct {
	File  string `json:"file" doc:"the path of the configuration file"`
	After int    `json:"after" doc:"the line after which the text belongs, counted in the unchanged file; 0 is the beginning"`
	Last  bool   `json:"last,omitempty" doc:"whether the line in the member after is the file's last"`
	Under string `json:"under,omitempty" doc:"the key to which the text belongs"`
	Text  string `json:"text" doc:"the text to insert, with its indentation"`
}

// KeepRequest is the body of a request to add the chosen servers to the configuration.
type KeepRequest struct {
	Choice
	Hash string `json:"hash" doc:"the preview's hash"`
}

// Kept is the result of adding servers to the configuration.
type Kept struct {
	File    string   `json:"file" doc:"the configuration file that was changed"`
	Backup  string   `json:"backup,omitempty" doc:"the path of a copy of the old configuration file"`
	EnvFile string   `json:"envFile,omitempty" doc:"the file that got the secrets"`
	Servers []string `json:"servers" doc:"the servers that were added"`
	Lines   []string `json:"lines" doc:"the variables that the user has to set, with their values; only if the secrets weren't written to a file, and only in this answer"`
	Applied bool     `json:"applied" doc:"whether the changed configuration file is in use"`
	Problem string   `json:"problem,omitempty" doc:"why the changed configuration file isn't in use"`
}

// target is the configuration file to which Dragoman adds servers.
type target struct {
	path     string // "" if there is no configuration file
	before   []byte // the content of path; nil if the file does not exist
	old      *config.Snapshot
	project  string // the project of the file to which servers are added; "" is default
	why      string // a sentence that explains why Dragoman cannot write path; "" if it can
	envPath  string // the file for secrets
	envSet   bool   // whether the configuration already contains envPath
	envBytes []byte // the content of envPath; nil if the file does not exist
	envWhy   string // a sentence that explains why Dragoman cannot use envPath; "" if it can
	envVars  map[string]string
	note     string

	// byHand is the content of the file byHandPath, which the user can edit if Dragoman cannot
	// write to it. byHand is nil if there is no configuration file, or if the file has errors.
	byHand     []byte
	byHandPath string
	git        string // the folder of the git repository that contains envPath, or ""

	home    *textHome         // the project of the store that it stands for; nil for a file
	version string            // of its text
	sealed  map[string][]byte // the secrets that it has, by name
}

// places returns what the user can add to the configuration by hand. It returns nil if adding lines
// is not enough, for example in a JSON file.
func (t *target) places(add []clientfile.Added, envFile bool) (out []Place) {
	if t.byHand == nil {
		return nil
	}
	after, err := clientfile.AddServersTo(t.byHandPath, t.byHand, t.project, add)
	if err == nil && envFile {
		after, err = clientfile.AddSetting(t.byHandPath, after, []string{"dragoman"}, "envFile", envName)
	}
	if err != nil {
		return nil
	}
	all, ok := clientfile.Insertions(t.byHandPath, t.byHand, after)
	if !ok {
		return nil
	}
	for _, x := range all {
		out = append(out, Place{t.byHandPath, x.After, x.Last, x.Under, x.Text})
	}
	return out
}

// target reads the configuration file and the file for secrets. It returns both as a target.
func (a *draftAPI) target() *target {
	if a.home != nil {
		return a.home.target()
	}
	t := &target{path: a.config, old: config.Default(), envVars: map[string]string{}}
	if s := a.project.Current(); s != nil {
		t.old = s
	}
	if t.path == "" {
		a.withoutFile(t)
	}
	if t.path == "" {
		return t
	}
	var err error
	if t.before, err = clientfile.Load(t.path); err != nil {
		t.why = "The configuration file cannot be read: " + excerpt.Line(err.Error(), maxDraftText) + "."
		return t
	}
	if t.before != nil {
		t.readOld(a.env)
	}
	t.readEnv()
	if t.before != nil && t.why == "" && len(t.envVars) > 0 {
		t.readOld(t.env(a.env, nil))
	}
	if t.why == "" {
		t.byHand, t.byHandPath = t.before, t.path
		t.why = t.unwritable()
	}
	return t
}

// own returns the configuration of the target's project, with the servers that the file has for it.
func (t *target) own() *config.Snapshot {
	if s := intake.ServersOf(t.old, t.project); s != nil {
		return s
	}
	return config.Default()
}

// withoutFile chooses a configuration file if Dragoman was started without one. If there is no
// configuration file yet, it chooses the default path.
func (a *draftAPI) withoutFile(t *target) {
	const demo = "This Dragoman runs with --demo and reads no configuration file."
	places := config.Places(a.env)
	path := places[len(places)-1]
	if existing, found := config.Find(a.env); found {
		t.why = demo + " Add the servers to " + existing + ", and start `dragoman serve` without --demo."
		b, err := clientfile.Load(existing)
		if err == nil {
			_, err = intake.ParseOurs(existing, b, a.env)
		}
		if err == nil {
			t.byHand, t.byHandPath = b, existing
		}
		return
	}
	if !filepath.IsAbs(path) {
		t.why = demo + " Write the servers to a file named dragoman.yaml, and start `dragoman serve` in its folder."
		return
	}
	t.path, t.old = path, config.Default()
	t.note = demo + " It can create " + path + ", but does not use the file. Start `dragoman serve` without --demo."
}

// readOld parses the configuration file, and checks that it is Dragoman's own configuration.
func (t *target) readOld(env intake.Env) {
	old, err := intake.ParseOurs(t.path, t.before, env)
	if err != nil {
		t.why = "The configuration file has errors. `dragoman config check` shows them."
		return
	}
	t.old = old
	switch ext := strings.ToLower(filepath.Ext(t.path)); ext {
	case ".yaml", ".yml":
		return
	case ".json", "":
		root, err := clientfile.Parse(t.path, t.before)
		if err == nil && (root.Get("dragoman") != nil || strings.HasPrefix(filepath.Base(t.path), "dragoman.")) {
			return
		}
	}
	t.why = "The file belongs to another program. Dragoman writes only to its own configuration."
}

// envName is the default name of the file for secrets, which is in the folder of the configuration
// file.
const envName = "dragoman.env"

// readEnv reads the file for secrets.
func (t *target) readEnv() {
	if t.envPath = t.old.EnvFile; t.envPath != "" {
		t.envSet = true
	} else {
		t.envPath = filepath.Join(filepath.Dir(t.path), envName)
	}
	t.git = repository(t.envPath)
	b, err := clientfile.Load(t.envPath)
	switch {
	case err != nil:
		t.envWhy = "The file for secrets, " + t.envPath + ", cannot be read."
	case b == nil && t.envSet, b != nil:
		all, problems := config.ReadEnv(t.envPath)
		if problems.Err() != nil {
			t.envWhy = "The file for secrets has a problem: " + excerpt.Line(problems.Err().Error(), maxDraftText) + "."
			return
		}
		t.envBytes = b
		for _, v := range all {
			t.envVars[v.Name] = v.Value.Reveal()
		}
	}
}

// unwritable returns a sentence that explains why Dragoman cannot replace the configuration file. It
// returns "" if Dragoman can.
func (t *target) unwritable() string {
	path := t.path
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	if st, err := os.Stat(path); err == nil {
		if st.Mode().Perm()&0o222 == 0 {
			return "The configuration file is read-only."
		}
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return "Dragoman may not write to the configuration file."
		}
		_ = f.Close()
	}
	dir := filepath.Dir(path)
	st, err := os.Stat(dir)
	for errors.Is(err, os.ErrNotExist) && dir != filepath.Dir(dir) {
		dir = filepath.Dir(dir)
		st, err = os.Stat(dir)
	}
	if err != nil || !st.IsDir() || st.Mode().Perm()&0o222 == 0 {
		return "Dragoman may not write to the folder of the configuration file."
	}
	return ""
}

// env returns a function that looks up a variable: first in the environment of the process, then in
// the file for secrets, and then in values.
func (t *target) env(process intake.Env, values map[string]string) intake.Env {
	return func(name string) (string, bool) {
		if v, ok := process(name); ok && v != "" {
			return v, true
		}
		if v, ok := t.envVars[name]; ok {
			return v, true
		}
		v, ok := values[name]
		return v, ok
	}
}

// from returns the value of DraftVariable.From for a variable.
func (t *target) from(name string, process intake.Env, values map[string]string) string {
	if _, has := t.sealed[name]; has {
		return "secret"
	}
	if t.home != nil {
		process = func(string) (string, bool) { return "", false }
	}
	if v, ok := process(name); ok && v != "" {
		return "process"
	}
	if _, ok := t.envVars[name]; ok {
		return "envFile"
	}
	if _, ok := values[name]; ok {
		return "draft"
	}
	return "missing"
}

// plan contains everything that KeepDraft writes.
type plan struct {
	Preview
	config, env *clientfile.Change // the changes of the two files; nil if the file does not change
	lines       []string           // the secrets of the draft, as NAME=value
	servers     []string

	text, version string            // of a project of the store: its text, and the version that it replaces
	secrets       map[string]string // the secrets that it gets, by name
}

// plan returns the change that adds the chosen servers of a draft to the configuration. The caller
// holds the mutex of the drafts.
func (a *draftAPI) plan(d *draft, t *target) plan {
	p := plan{Preview: Preview{File: t.path, Exists: t.before != nil, Why: t.why, Note: t.note, Untested: []string{}, Stored: t.home != nil}, secrets: map[string]string{}}
	var add []clientfile.Added
	var variables []string
	names := map[string]bool{}
	for _, s := range t.own().Servers {
		names[s.Name] = true
	}
	for _, x := range d.servers {
		if !x.use {
			continue
		}
		if names[x.name] {
			p.Why = "Another server has the name " + excerpt.Quote(x.name, maxName) + ". Choose another name."
			return p
		}
		names[x.name] = true
		p.servers = append(p.servers, x.name)
		add = append(add, t.added(x))
		variables = append(variables, intake.References(&x.server)...)
		if !x.over() || x.trial.State == trialCancelled {
			p.Untested = append(p.Untested, x.name)
		}
	}
	if len(add) == 0 {
		return p
	}
	text, err := clientfile.AddServersTo("add.yaml", nil, t.project, add)
	if err != nil {
		p.Why = "The servers cannot be written as YAML: " + excerpt.Line(excerpt.MaskSecrets(err.Error()), maxDraftText) + "."
		return p
	}
	_, after, _ := strings.Cut(string(text), "\n") // remove the comment at the beginning of a new file
	p.YAML = strings.TrimLeft(after, "\n")
	env := t.envBytes
	slices.Sort(variables)
	for _, name := range slices.Compact(variables) {
		value, mine := d.values[name]
		if !mine || t.from(name, a.env, d.values) != "draft" {
			continue
		}
		if p.secrets[name] = value; t.home != nil {
			continue
		}
		p.lines = append(p.lines, strings.TrimSuffix(string(config.AppendEnv(nil, name, value)), "\n"))
		if d.secrets == secretsInFile {
			env = config.AppendEnv(env, name, value)
		}
	}
	if t.home != nil {
		t.home.planText(&p, t, add, a.hashOf)
		return p
	}
	inFile := d.secrets == secretsInFile && len(p.lines) > 0
	if inFile {
		p.EnvFile = t.envPath
		switch {
		case t.envSet:
		case t.project != "": // the text begins with dragoman
			p.YAML += "  envFile: " + envName + "\n"
		default:
			p.YAML += "\ndragoman:\n  envFile: " + envName + "\n"
		}
	}
	if inFile && t.envWhy != "" && p.Why == "" {
		p.Why = t.envWhy
	}
	if t.path == "" || p.Why != "" {
		p.Places = t.places(add, inFile && !t.envSet)
		return p
	}
	change, bad := a.merge(t, add, inFile && !t.envSet)
	if bad != "" {
		p.Why = bad
		return p
	}
	p.Writable, p.config = true, &clientfile.Change{Path: t.path, Before: t.before, After: change, Backup: true}
	if inFile {
		p.env = &clientfile.Change{Path: t.envPath, Before: t.envBytes, After: env, Private: true}
		if t.git != "" {
			p.Note = strings.TrimSpace(p.Note + " The folder " + t.git + " is a git repository. Add " + filepath.Base(t.envPath) + " to its .gitignore.")
		}
	}
	p.Diff = clientfile.Diff(t.path, t.before, change, mask(t.old))
	p.Hash = a.hashOf(p.config, p.env)
	return p
}

// file returns the configuration file as intake changes it.
func (t *target) file(env func(string) (string, bool)) intake.File {
	return intake.File{Path: t.path, Before: t.before, Old: t.old, Env: t.env(env, nil), Project: t.project}
}

// merge returns the content of the configuration file with the servers added. If Dragoman cannot add
// them, bad is the reason.
func (a *draftAPI) merge(t *target, add []clientfile.Added, envFile bool) (after []byte, bad string) {
	const byHand = " Copy the text and add it by hand. If the file already has one of its keys, add only the lines below this key."
	f := t.file(a.env)
	after, err := f.Merge(add)
	if err == nil && envFile {
		after, err = intake.SetEnvFile(t.path, after, envName, f.Env)
	}
	if err != nil {
		return nil, "Dragoman cannot add to this file: " + excerpt.Line(excerpt.MaskSecrets(err.Error()), maxDraftText) + "." + byHand
	}
	return after, ""
}

// mask returns a function that masks the secrets of a configuration in a line of the configuration
// file.
func mask(s *config.Snapshot) func(string) string {
	var secrets []string
	for _, c := range s.Servers {
		secrets = append(secrets, c.Secrets()...)
	}
	for _, p := range s.Projects {
		if p.Config != nil {
			for _, c := range p.Config.Servers {
				secrets = append(secrets, c.Secrets()...)
			}
		}
	}
	known := excerpt.MaskKnown(secrets)
	return func(line string) string { return excerpt.MaskSecrets(known(line)) }
}

// repository returns the folder of the git repository that contains path, or "".
func repository(path string) string {
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, ".git")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			return ""
		}
	}
}

// hashOf returns a hash that identifies the changes. It uses a secret key, so that nobody can check
// guesses of the secrets in the changes against the hash.
func (a *draftAPI) hashOf(changes ...*clientfile.Change) string {
	sum := hmac.New(sha256.New, a.drafts.key[:])
	for _, c := range changes {
		if c == nil {
			c = &clientfile.Change{}
		}
		for _, part := range [][]byte{[]byte(c.Path), c.Before, c.After} {
			fmt.Fprintf(sum, "%d %t ", len(part), part == nil)
			sum.Write(part)
		}
	}
	return hex.EncodeToString(sum.Sum(nil)[:16])
}

// KeepDraft writes the change that a preview showed, and makes Dragoman use the changed
// configuration. If the change would now differ from the preview, KeepDraft writes nothing. In a project of the store, the
// sender of r must be one who may change its text so.
func (a *draftAPI) KeepDraft(r *http.Request, id string, q KeepRequest) (Kept, *Problem) {
	ctx := r.Context()
	unlock, bad := a.lockFile(ctx)
	if bad != nil {
		return Kept{}, bad
	}
	defer unlock()
	var d *draft
	var p plan
	if _, bad := a.withDraft(id, func(it *draft, t *target) *Problem {
		bad := it.choose(q.Choice)
		d, p = it, a.plan(it, t)
		return bad
	}); bad != nil {
		return Kept{}, bad
	}
	switch {
	case len(p.servers) == 0:
		return Kept{}, conflict("nothing-chosen", "No server is chosen", "Choose at least one server of the draft.")
	case !p.Writable:
		return Kept{}, conflict("not-writable", "The configuration cannot be written", p.Why)
	case len(p.Untested) > 0:
		return Kept{}, conflict("not-tested", "A server has not been tested", "Test "+strings.Join(p.Untested, ", ")+" first.")
	case q.Hash != p.Hash:
		return Kept{}, changedSince()
	}
	if a.home != nil {
		out, bad := a.home.keep(r, &p)
		if bad == nil {
			a.drafts.mu.Lock()
			a.drafts.dropLocked(d)
			a.drafts.mu.Unlock()
		}
		return out, bad
	}
	out := Kept{File: p.File, Servers: p.servers, Lines: []string{}}
	if p.env != nil {
		if _, err := p.env.Write(time.Now()); err != nil {
			return Kept{}, unwritten(p.env.Path, err)
		}
		out.EnvFile = p.env.Path
	} else {
		out.Lines = append(out.Lines, p.lines...)
	}
	var err error
	if out.Backup, err = p.config.Write(time.Now()); err != nil {
		if p.env != nil { // remove the new lines again: no server refers to them
			undo := clientfile.Change{Path: p.env.Path, Before: p.env.After, After: p.env.Before, Private: true}
			_, _ = undo.Write(time.Now())
		}
		return Kept{}, unwritten(p.File, err)
	}
	a.drafts.mu.Lock()
	a.drafts.dropLocked(d)
	a.drafts.mu.Unlock()
	out.Problem = a.use(ctx)
	out.Applied = out.Problem == ""
	return out, nil
}

// lockFile waits until nobody else writes the configuration. The caller must call unlock.
func (a *draftAPI) lockFile(ctx context.Context) (unlock func(), bad *Problem) {
	select {
	case a.drafts.keeping <- struct{}{}:
		return func() { <-a.drafts.keeping }, nil
	case <-ctx.Done():
		return nil, conflict("busy", "Another change is being written", "Try again.")
	}
}

// use makes Dragoman use the changed configuration file. It returns a sentence that says why Dragoman
// doesn't use it, or "".
func (a *draftAPI) use(ctx context.Context) string {
	if a.reload == nil {
		return "This Dragoman does not use the file. Start `dragoman serve` without --demo."
	}
	ctx, stop := context.WithTimeout(ctx, reloadLimit)
	defer stop()
	if _, err := a.reload(ctx); err != nil {
		return sentence(err.Error(), "")
	}
	return ""
}

func conflict(kind, title, detail string) *Problem {
	return &Problem{Type: kind, Title: title, Status: http.StatusConflict, Detail: detail}
}

func changedSince() *Problem {
	return conflict("changed", "The change differs from the preview", "The configuration file or the draft has changed since the preview. Nothing was written. Check the change again.")
}

// reloadLimit is the maximum time that a request waits until Dragoman uses the changed file.
const reloadLimit = 30 * time.Second

// unwritten returns the Problem for a file that could not be written because of err.
func unwritten(path string, err error) *Problem {
	if errors.Is(err, clientfile.ErrChanged) {
		return &Problem{Type: "changed", Title: "The file has changed", Status: http.StatusConflict, Detail: "Another program changed " + path + " at the same time. Nothing was written. Check the change again."}
	}
	return &Problem{Type: "not-writable", Title: "The file cannot be written", Status: http.StatusConflict, Detail: "Dragoman cannot write " + path + ": " + excerpt.Line(err.Error(), maxDraftText) + ". Nothing was changed."}
}
