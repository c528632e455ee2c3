// Command release makes everything that a release consists of, into one directory: archives,
// packages for Debian and Red Hat, container images, npm packages, a Homebrew formula, bills
// of materials and checksums.
//
// The same commit and version give the same bytes, on any machine and at any time, with the
// same Go and npm. Every time that is written into a file is that of the commit, or
// SOURCE_DATE_EPOCH. Nothing is published, signed or uploaded.
//
// It needs Go, git and npm. It needs no container engine, no dpkg and no rpm. README.md in
// the directory above says how each result is published.
package main
