package files

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/windows"
)

const (
	openFile   = os.O_RDONLY
	openFolder = os.O_RDONLY
)

func isQuota(err error) bool {
	return errors.Is(err, windows.ERROR_DISK_FULL) || errors.Is(err, windows.ERROR_HANDLE_DISK_FULL)
}

// identity returns 0, because Windows gives an identity only for an open file.
func identity(fs.FileInfo) uint64 { return 0 }

// keepOwner does nothing: a new file inherits the access list of its folder.
func keepOwner(*os.File, fs.FileInfo) {}

// syncFolder does nothing: Windows has no function that syncs a folder.
func syncFolder(*os.Root) error { return nil }

func isCrossDevice(err error) bool { return errors.Is(err, windows.ERROR_NOT_SAME_DEVICE) }
