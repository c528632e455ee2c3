//go:build !linux

package leaktest

// process is unused on systems other than Linux.
type process struct{}

func (process) String() string { return "" }
func (process) kill()          {}

func adoptOrphans()               {}
func processes() []process        { return nil }
func descriptors() map[int]string { return nil }
