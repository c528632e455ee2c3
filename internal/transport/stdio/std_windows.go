package stdio

import "os"

// ownDescriptor returns f itself: there is no signal to fear, and no polling.
func ownDescriptor(f *os.File, write bool) (*os.File, error) { return f, nil }
