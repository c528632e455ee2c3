package cli

import (
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
