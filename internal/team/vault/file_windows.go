package vault

import "io/fs"

const nonblock = 0

// ownedBy returns true: who may read a file of %LocalAppData% is up to its folder.
func ownedBy(fs.FileInfo, int) bool { return true }
