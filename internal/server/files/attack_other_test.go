//go:build unix && !linux

package files

func makeDevice(string) {}
