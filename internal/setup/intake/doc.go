// Package intake brings servers from elsewhere into Dragoman's configuration file.
//
// Paste reads a text that a person has copied: a command line, a URL, or a snippet in JSON, TOML or
// YAML. Read reads the configuration file of another client. Paste and Read return servers in the
// form of Dragoman's configuration file. Compare finds out which servers the configuration does not
// have yet. Merge adds these servers, and checks that nothing else changes. Take replaces each
// literal secret of a server by a reference of the form ${NAME}.
//
// The command import and the console use this package. The package starts no servers and speaks no
// protocol. It only reads files; clientfile.Change writes them. The package never passes text to a
// shell.
package intake
