package clientfile

import (
	"io/fs"
	"os"
)

// sameOwner does nothing: a file inherits its rights from its folder.
func sameOwner(*os.File, fs.FileInfo) {}
