// Command release creates all files of a release in one directory: archives, packages for Debian
// and Red Hat, container images, npm packages, a Homebrew formula, bills of materials and
// checksums.
//
// With the same versions of Go and npm, the same commit and version give the same bytes on any
// machine and at any time. Every time in a file is the time of the commit, or SOURCE_DATE_EPOCH if
// that is set. The command does not publish, sign or upload anything.
//
// The command needs Go, git and npm, but no container engine, dpkg or rpm. README.md in the parent
// directory says how to publish each result.
package main
