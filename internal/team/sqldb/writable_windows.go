package sqldb

// writable returns nil: only an attempt shows whether a folder can be written to.
func writable(string) error { return nil }
