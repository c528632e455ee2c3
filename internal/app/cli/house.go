package cli

import (
	"context"
	"encoding/json"
	"net/url"

	"github.com/spf13/cobra"

	"errors"
	"path/filepath"

	"github.com/dragoman-mcp/dragoman/internal/app/daemon"
	"github.com/dragoman-mcp/dragoman/internal/team/store"
	"github.com/dragoman-mcp/dragoman/internal/team/vault"
)

// houseFile returns the path of the store's file, unless the configuration names a database. It returns
// "" if this user has no folder for data.
func houseFile() string {
	folder, err := dataFolder()
	if err != nil {
		return ""
	}
	return filepath.Join(folder, "dragoman.db")
}

// houseError adds the next step for the user to an error of the store, of the vault, or of a serve that
// nobody could come in to.
func houseError(err error) error {
	var s *store.Error
	var v *vault.Error
	var r *daemon.Refused
	switch {
	case errors.As(err, &s):
		return withHint(err, "%s", s.Next)
	case errors.As(err, &v):
		return withHint(err, "%s", v.Next)
	case errors.As(err, &r):
		return withHint(err, "%s", r.Next)
	}
	return err
}

// houseFlags are the flags of the commands that show or change what a running serve stores of a project.
type houseFlags struct {
	runningFlags
	project string
	asJSON  bool
}

func (f *houseFlags) addFlags(c *cobra.Command) {
	flags := flagsInOrder(c)
	flags.StringVar(&f.project, "project", "", "use the project `NAME` (default: default)")
	flags.BoolVar(&f.asJSON, "json", false, "print JSON")
	f.runningFlags.addFlags(c)
}

// query returns the query that names the project.
func (f *houseFlags) query() url.Values {
	if f.project == "" {
		return url.Values{}
	}
	return url.Values{"project": {f.project}}
}

// words returns the flags that name the same serve and the same project, for a command in a hint.
func (f *houseFlags) words() string {
	out := configWords(f.file)
	if f.listen != "" {
		out += " --listen " + shellWord(f.listen)
	}
	if f.project != "" {
		out += " --project " + shellWord(f.project)
	}
	return out
}

// with calls do with the running serve.
func (f *houseFlags) with(cmd *cobra.Command, w *world, do func(ctx context.Context, s *running) error) error {
	ctx := cmd.Context()
	s, err := locator{w.env}.running(ctx, &f.runningFlags)
	if err != nil {
		return err
	}
	defer s.close()
	err = do(ctx, s)
	var bad *problemError
	if errors.As(err, &bad) && bad.kind == "local-only" {
		err = withHint(err, "run another `dragoman serve --listen 127.0.0.1:7399` that uses the same database, and name it with --listen: both follow the change")
	}
	return signalOr(ctx, err)
}

// change sends a change to the API, and decodes the answer. body is nil if there is none.
func (f *houseFlags) change(ctx context.Context, s *running, method, path string, body, into any) error {
	q := asked{method: method, path: "/api/v1" + path, query: f.query()}
	if body != nil {
		var err error
		if q.body, err = json.Marshal(body); err != nil {
			return err
		}
	}
	return s.change(ctx, changeWait, q, into)
}

// pages reads a list of the API. items returns what is on a page, and the cursor of the next one.
func pages[P, I any](ctx context.Context, s *running, path string, query url.Values, items func(*P) ([]I, string)) (all []I, err error) {
	query.Set("limit", "500")
	all = []I{}
	for {
		var page P
		if err := s.decode(ctx, "/api/v1"+path, query, &page); err != nil {
			return nil, err
		}
		list, next := items(&page)
		all = append(all, list...)
		if next == "" || len(list) == 0 {
			return all, nil
		}
		query.Set("cursor", next)
	}
}
