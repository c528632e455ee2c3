package store

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/team/prompt"
	"github.com/dragoman-mcp/dragoman/internal/team/sqldb"
)

const promptKind = "prompt"

// MaxPrompts is how many prompts a project may have.
const MaxPrompts = 500

// Prompt is a prompt of a project.
type Prompt struct {
	Project, Name string
	Newest        int64 // the number of the last version
	Published     int64 // the version that is served; 0 if none is
	Active        bool  // whether the published version is part of the instructions; one of a project may be
	// Served is the published version, or the zero value. Last is the newest one, without its text.
	Served, Last PromptVersion
}

// PromptVersion is one version of a prompt. It never changes.
type PromptVersion struct {
	prompt.Prompt
	Version int64
	Made    time.Time
	Actor   string // who made it
}

// Prompts returns the prompts of a project, sorted by name.
func (s *Snapshot) Prompts(project string) []Prompt { return s.prompts[project] }

// Prompt returns a prompt of a project, and whether there is one with this name.
func (s *Snapshot) Prompt(project, name string) (Prompt, bool) {
	for _, x := range s.prompts[project] {
		if x.Name == name {
			return x, true
		}
	}
	return Prompt{}, false
}

// SamePrompts reports whether another snapshot has the same prompts; see SameKeys.
func (s *Snapshot) SamePrompts(as *Snapshot) bool { return s.same(as, promptKind) }

// AddPrompt adds a version of a prompt, and returns its number: 1, if the prompt is new. Nothing of it is served
// before it's published. Without room for another prompt, it returns an *Error.
func (t *Tx) AddPrompt(project string, p *prompt.Prompt) (version int64, err error) {
	x, err := t.prompt(project, p.Name)
	if err != nil {
		return 0, err
	}
	arguments, err := json.Marshal(p.Arguments)
	if err != nil {
		return 0, err
	}
	if version = x.Newest + 1; version == 1 {
		n, err := t.t.Count("FROM prompts WHERE project = ?", project)
		if err == nil && n >= MaxPrompts {
			err = &Error{Text: fmt.Sprintf("the project has %d prompts already, which is the most", n), Next: "use the name of one that isn't needed any more; its versions stay"}
		}
		if err == nil {
			err = t.t.Exec("INSERT INTO prompts (project, name, newest, published, active) VALUES (?, ?, 1, 0, 0)", project, p.Name)
		}
		if err != nil {
			return 0, err
		}
	} else if err := t.t.Exec("UPDATE prompts SET newest = ? WHERE project = ? AND name = ?", version, project, p.Name); err != nil {
		return 0, err
	}
	err = t.t.Exec("INSERT INTO prompt_versions (project, name, version, description, text, arguments, made, actor) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
		project, p.Name, version, p.Description, p.Text, string(arguments), t.t.Now, t.actor)
	if err != nil {
		return 0, err
	}
	sum := sha256.Sum256([]byte(p.Text))
	became := facts{"version": version, "description": p.Description, "arguments": p.Arguments, "sha256": hex.EncodeToString(sum[:])}
	return version, t.didPrompt("wrote", project, p.Name, version, about{became: became})
}

// PublishPrompt serves a version of a prompt in place of the one before; 0 is the newest. If the prompt is
// active, check decides whether the version may be. It returns 0 if there is no such prompt or version.
func (t *Tx) PublishPrompt(project, name string, version int64, check func(*prompt.Prompt) error) (published int64, err error) {
	x, err := t.prompt(project, name)
	if err != nil || x.Newest == 0 {
		return 0, err
	}
	if version == 0 {
		version = x.Newest
	}
	v, err := t.version(project, name, version)
	if err != nil || v.Version == 0 {
		return 0, err
	}
	if x.Active {
		if err := check(&v.Prompt); err != nil {
			return 0, err
		}
	}
	if err := t.t.Exec("UPDATE prompts SET published = ? WHERE project = ? AND name = ?", version, project, name); err != nil {
		return 0, err
	}
	was, became := x.served(), x
	became.Published = version
	return version, t.didPrompt("published", project, name, version, about{was: was, became: became.served()})
}

// ActivatePrompt makes the published version of a prompt part of the instructions, in place of every other prompt
// of the project, unless check refuses it. It returns 0 if no version is published.
func (t *Tx) ActivatePrompt(project, name string, check func(*prompt.Prompt) error) (active int64, err error) {
	x, err := t.prompt(project, name)
	if err != nil || x.Published == 0 {
		return 0, err
	}
	v, err := t.version(project, name, x.Published)
	if err == nil {
		err = check(&v.Prompt)
	}
	var before string
	if err == nil {
		err = t.t.Row("SELECT name FROM prompts WHERE project = ? AND active = 1", []any{project}, &before)
	}
	if err == nil || errors.Is(err, sql.ErrNoRows) {
		err = t.t.Exec("UPDATE prompts SET active = 0 WHERE project = ?", project)
	}
	if err == nil {
		err = t.t.Exec("UPDATE prompts SET active = 1 WHERE project = ? AND name = ?", project, name)
	}
	if err != nil {
		return 0, err
	}
	return x.Published, t.didPrompt("activated", project, name, x.Published, about{was: facts{"active": before}, became: facts{"active": name}})
}

// PutOffPrompt serves no version of a prompt any more, and reports whether one was served. The versions stay.
func (t *Tx) PutOffPrompt(project, name string) (was bool, err error) {
	x, err := t.prompt(project, name)
	if err != nil || x.Published == 0 {
		return false, err
	}
	if err := t.t.Exec("UPDATE prompts SET published = 0, active = 0 WHERE project = ? AND name = ?", project, name); err != nil {
		return false, err
	}
	return true, t.didPrompt("put off", project, name, x.Published, about{was: x.served()})
}

// removePrompts removes all prompts of a project that is removed.
func (t *Tx) removePrompts(project string) error {
	n, err := t.t.Count("FROM prompts WHERE project = ?", project)
	if err != nil || n == 0 {
		return err
	}
	for _, table := range []string{"prompts", "prompt_versions"} {
		if err := t.t.Exec("DELETE FROM "+table+" WHERE project = ?", project); err != nil {
			return err
		}
	}
	return t.did("removed all", promptKind, project, about{project: project, was: facts{"prompts": n}})
}

func (t *Tx) didPrompt(action, project, name string, version int64, x about) error {
	x.project = project
	return t.did(action+" version "+strconv.FormatInt(version, 10), promptKind, project+"/"+name, x)
}

// served returns what the acts say of what clients get of a prompt, which is nothing if no version is published.
func (x *Prompt) served() facts {
	if x.Published == 0 {
		return nil
	}
	return facts{"published": x.Published, "active": x.Active}
}

// prompt returns the row of a prompt, without its versions. Newest is 0 if there is none.
func (t *Tx) prompt(project, name string) (x Prompt, err error) {
	var active int64
	err = t.t.Row("SELECT newest, published, active FROM prompts WHERE project = ? AND name = ?", []any{project, name}, &x.Newest, &x.Published, &active)
	if errors.Is(err, sql.ErrNoRows) {
		return x, nil
	}
	x.Active = active != 0
	return x, err
}

// version returns a version of a prompt. Its number is 0 if there is none.
func (t *Tx) version(project, name string, version int64) (PromptVersion, error) {
	all, err := sqldb.All(t.t, scanVersion, "SELECT "+versionColumns+", text FROM prompt_versions WHERE project = ? AND name = ? AND version = ?", project, name, version)
	if err != nil || len(all) == 0 {
		return PromptVersion{}, err
	}
	return all[0], nil
}

// PromptVersions returns at most so many versions of a prompt before one, the newest first. With 0 it begins with the
// newest of all. It reads the database.
func (s *Store) PromptVersions(ctx context.Context, project, name string, before int64, most int) (list []PromptVersion, err error) {
	if before == 0 {
		before = 1 << 62
	}
	err = s.read(ctx, func(t *sqldb.Tx) (err error) {
		list, err = sqldb.All(t, scanVersion, "SELECT "+versionColumns+", text FROM prompt_versions WHERE project = ? AND name = ? AND version < ? ORDER BY version DESC LIMIT ?", project, name, before, most)
		return err
	})
	return list, err
}

// versionColumns are the columns of a version without its text, as scanVersion reads them.
const versionColumns = "name, version, description, arguments, made, actor"

func scanVersion(scan func(...any) error) (v PromptVersion, err error) {
	var arguments, made string
	if err = scan(&v.Name, &v.Version, &v.Description, &arguments, &made, &v.Actor, &v.Text); err == nil {
		err = json.Unmarshal([]byte(arguments), &v.Arguments)
	}
	if err == nil {
		v.Made, err = moment(made)
	}
	return v, err
}

func readPrompts(t *sqldb.Tx, into *Snapshot) error {
	into.prompts = map[string][]Prompt{}
	at := map[[2]string]*Prompt{}
	err := t.Each(func(scan func(...any) error) error {
		var x Prompt
		var active int64
		err := scan(&x.Project, &x.Name, &x.Newest, &x.Published, &active)
		x.Active = active != 0
		into.prompts[x.Project] = append(into.prompts[x.Project], x)
		return err
	}, "SELECT project, name, newest, published, active FROM prompts ORDER BY project, name")
	if err != nil {
		return err
	}
	for project, list := range into.prompts {
		for i := range list {
			at[[2]string{project, list[i].Name}] = &list[i]
		}
	}
	return t.Each(func(scan func(...any) error) error {
		var project string
		v, err := scanVersion(func(into ...any) error { return scan(append([]any{&project}, into...)...) })
		if x := at[[2]string{project, v.Name}]; err == nil && x != nil {
			if v.Version == x.Published {
				x.Served = v
			}
			if v.Version == x.Newest {
				x.Last = v
				x.Last.Text = ""
			}
		}
		return err
	}, "SELECT v.project, v.name, v.version, v.description, v.arguments, v.made, v.actor, CASE WHEN v.version = p.published THEN v.text ELSE '' END "+
		"FROM prompt_versions v JOIN prompts p ON p.project = v.project AND p.name = v.name AND (v.version = p.newest OR v.version = p.published)")
}
