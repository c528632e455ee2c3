// Package try tests the results of `make release` as users use them. It unpacks the archive
// and the deb, installs the npm packages from a local registry, and starts servers from a
// client's file in a clean environment. It reads the container image with a different library from
// the one that wrote the image.
//
// The tests need the folder with the results in DRAGOMAN_TRY. If this variable is not set, they are
// skipped; see `make release-try`. If this machine lacks the tool for a check, the check says so
// and passes.
package try
