package daemon

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
)

// taskKeyFile is the name of the file with the key that signs the ids of tasks.
const taskKeyFile = "task-key"

// taskKey returns the key that signs the ids of tasks; see [bridge.Bridge]. The key is kept in the
// last of the folders, because a system may empty the first one when the user logs out. If there is
// no such folder, or if the file cannot be used, the key is new, and the ids that clients have are
// not valid after a restart.
func taskKey(folders []string, log *slog.Logger) []byte {
	fresh := make([]byte, 32)
	_, _ = rand.Read(fresh) // never fails since Go 1.24
	if len(folders) == 0 {
		return fresh
	}
	key, err := keptKey(filepath.Join(folders[len(folders)-1], taskKeyFile), fresh)
	if err != nil {
		log.Warn("the key for task ids could not be kept, so clients lose their tasks at a restart", "cause", err.Error())
		return fresh
	}
	return key
}

// keptKey returns the key in a file. If the file does not exist, it becomes the file with the key
// fresh. Several processes may do this at the same time, and all of them get the same key.
func keptKey(path string, fresh []byte) ([]byte, error) {
	folder := filepath.Dir(path)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, err
	}
	if err := admin.CheckPrivate(folder); err != nil {
		return nil, fmt.Errorf("%s: %w", folder, err)
	}
	key, err := readTaskKey(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	f, err := os.CreateTemp(folder, ".task-key-*") // os.CreateTemp sets the mode 0600
	if err != nil {
		return nil, err
	}
	defer os.Remove(f.Name())
	_, err = f.WriteString(hex.EncodeToString(fresh) + "\n")
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return nil, err
	}
	// Unlike a rename, a link does not replace the key of another process.
	if err := os.Link(f.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return readTaskKey(path)
}

func readTaskKey(path string) ([]byte, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	key, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(key) != 32 {
		return nil, errors.New(path + " does not contain a key: delete the file")
	}
	return key, nil
}
