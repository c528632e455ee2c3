// Package try tests the results of `make release` in the way that users use them. It unpacks the
// archive and the deb, installs the npm packages from a local registry, and starts servers from a
// client's configuration file in a clean environment. It reads the container image with a different
// library from the one that wrote the image.
//
// `make release-try` sets the environment variable DRAGOMAN_TRY to the path of the folder with the
// results. If it is not set, the tests are skipped. If this machine lacks a tool that a test needs,
// that test is skipped.
package try
