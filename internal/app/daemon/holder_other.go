//go:build !linux

package daemon

// holderOf returns "". On these systems, Dragoman would have to run another program to find the
// process.
func holderOf(string) string { return "" }
