// Package intake brings servers from elsewhere into Dragoman's configuration file.
//
// Paste reads a text that a person has copied: a command line, a URL, or a snippet in JSON, TOML or
// YAML. Read reads the file of another client. Paste and Read return servers in the form of the
// configuration file. Compare says which servers the configuration does not have yet, and Merge
// adds them without any other change. Take replaces each literal secret of a server by a reference
// of the form ${NAME}.
//
// The command import and the console use this package. The package starts nothing and speaks no
// protocol. It only reads files; clientfile.Change writes them. No text is ever given to a shell.
package intake
