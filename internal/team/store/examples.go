package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/team/sqldb"
)

const exampleKind = "example"

// MaxExamples is how many examples a project may have.
const MaxExamples = 500

// Example is a run that somebody has kept. Request and Result are JSON whose form the store doesn't know.
type Example struct {
	Project, ID, Name string
	Request, Result   string // a snapshot has no Result; see Store.ExampleResult
	Made              time.Time
	Actor             string // who kept it
}

// Examples returns the examples of a project, sorted by name, without their results.
func (s *Snapshot) Examples(project string) []Example { return s.examples[project] }

// KeepExample adds an example. Without room for another one, it returns an *Error.
func (t *Tx) KeepExample(x *Example) error {
	n, err := t.t.Count("FROM examples WHERE project = ?", x.Project)
	if err == nil && n >= MaxExamples {
		err = &Error{Text: fmt.Sprintf("the project has %d examples already, which is the most", n), Next: "remove one that isn't needed any more"}
	}
	if err == nil {
		err = t.t.Exec("INSERT INTO examples (project, id, name, request, result, made, actor) VALUES (?, ?, ?, ?, ?, ?, ?)", x.Project, x.ID, x.Name, x.Request, x.Result, t.t.Now, t.actor)
	}
	if err != nil {
		return err
	}
	return t.did("kept", exampleKind, x.Project+"/"+x.ID, about{project: x.Project, became: facts{"name": x.Name}})
}

// RemoveExample removes an example, and reports whether there was one.
func (t *Tx) RemoveExample(project, id string) (was bool, err error) {
	var name string
	err = t.t.Row("SELECT name FROM examples WHERE project = ? AND id = ?", []any{project, id}, &name)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	if err == nil {
		err = t.t.Exec("DELETE FROM examples WHERE project = ? AND id = ?", project, id)
	}
	if err != nil {
		return false, err
	}
	return true, t.did("removed", exampleKind, project+"/"+id, about{project: project, was: facts{"name": name}})
}

// removeExamples removes all examples of a project that is removed.
func (t *Tx) removeExamples(project string) error {
	n, err := t.t.Count("FROM examples WHERE project = ?", project)
	if err != nil || n == 0 {
		return err
	}
	if err := t.t.Exec("DELETE FROM examples WHERE project = ?", project); err != nil {
		return err
	}
	return t.did("removed all", exampleKind, project, about{project: project, was: facts{"examples": n}})
}

// ExampleResult returns the result of an example, or "" if there is none. It reads the database.
func (s *Store) ExampleResult(ctx context.Context, project, id string) (result string, err error) {
	err = s.read(ctx, func(t *sqldb.Tx) error {
		return t.Row("SELECT result FROM examples WHERE project = ? AND id = ?", []any{project, id}, &result)
	})
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return result, err
}

func readExamples(t *sqldb.Tx, into *Snapshot) error {
	into.examples = map[string][]Example{}
	return t.Each(func(scan func(...any) error) error {
		var x Example
		var made string
		err := scan(&x.Project, &x.ID, &x.Name, &x.Request, &made, &x.Actor)
		if err == nil {
			x.Made, err = moment(made)
		}
		into.examples[x.Project] = append(into.examples[x.Project], x)
		return err
	}, "SELECT project, id, name, request, made, actor FROM examples ORDER BY project, name, id")
}
