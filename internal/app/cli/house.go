package cli

import (
	"errors"
	"path/filepath"

	"github.com/dragoman-mcp/dragoman/internal/team/store"
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

// houseError adds the next step for the user to an error of the store.
func houseError(err error) error {
	var e *store.Error
	if errors.As(err, &e) {
		return withHint(err, "%s", e.Next)
	}
	return err
}
